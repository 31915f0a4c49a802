"""Live decisions on record: kept, explained, replayed."""

from stowplan.serve.record.recorder import DecisionRecorder, RecorderState, RecordLimits
from stowplan.serve.record.rows import Expect

__all__ = ["DecisionRecorder", "Expect", "RecordLimits", "RecorderState"]
