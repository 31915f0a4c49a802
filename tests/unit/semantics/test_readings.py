"""Readings are plain records: they travel as JSON from a node agent and come back as they were."""

import msgspec
import pytest

from stowplan.core.semantics import (
    DataSlotCounters,
    FaultCounters,
    FaultKind,
    MonitoredBytes,
    PressureTotals,
    Reading,
    StallCounters,
)
from tests.unit.semantics.cases import DISK, START, channels, memory
from tests.unit.semantics.test_machine_parts import GPU

FAULTS = FaultCounters(
    subject="n", taken=START, counts={FaultKind.OOM_KILL: 3}, missing={"hung_tasks": "no tracepoint"}
)
READINGS = (
    DISK,
    channels(10, 20),
    memory(limit=None),
    GPU,
    FAULTS,
    DataSlotCounters(subject="n", taken=START, data_slots=2**60, clock_ticks=5),
    MonitoredBytes(subject="n", taken=START),
    StallCounters(subject="n", taken=START, cycles=10),
    PressureTotals(subject="n", taken=START, some_us=7),
)


@pytest.mark.parametrize("reading", READINGS, ids=lambda reading: type(reading).__name__)
def test_a_reading_survives_the_wire(reading: Reading) -> None:
    assert msgspec.json.decode(msgspec.json.encode(reading), type=type(reading)) == reading


def test_a_field_that_was_not_read_says_why() -> None:
    assert FAULTS.why_missing("hung_tasks") == "hung_tasks of 'n' was not read: no tracepoint"
    assert MonitoredBytes(subject="n", taken=START).total_bytes is None
