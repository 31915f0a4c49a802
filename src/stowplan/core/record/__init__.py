"""Decisions on record: a cycle's whole input as bytes, and the same cycle again from them."""

from stowplan.core.record.capture import (
    CycleCapture,
    ProgressCapture,
    StateCapture,
    capture_progress,
    capture_state,
    chance_of,
)
from stowplan.core.record.frames import FORMAT, Setup
from stowplan.core.record.reading import Chain, RecordedCycle, parent_of
from stowplan.core.record.readings import ReadingsCapture, ReadingsFollower
from stowplan.core.record.replay import Replayed, decided_to_plain, replay
from stowplan.core.record.writing import FrameWriter

__all__ = [
    "FORMAT",
    "Chain",
    "CycleCapture",
    "FrameWriter",
    "ProgressCapture",
    "ReadingsCapture",
    "ReadingsFollower",
    "RecordedCycle",
    "Replayed",
    "Setup",
    "StateCapture",
    "capture_progress",
    "capture_state",
    "chance_of",
    "decided_to_plain",
    "parent_of",
    "replay",
]
