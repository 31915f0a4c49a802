"""Whatever counters and clocks do, no value leaves its bounds, and unknown is never a number."""

import math
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from stowplan.core.semantics import (
    PLATFORMS,
    UNKNOWN_LEVEL,
    BandwidthLaw,
    BlockDeviceCounters,
    ChannelCounters,
    IntervalRule,
    LevelRule,
    LevelState,
    MemoryReading,
    MemoryRule,
    Quality,
    Source,
    Taken,
    Value,
    bandwidth_pressure,
    bandwidth_utilisation,
    device_statistics,
    measured,
    memory_values,
    missing,
    next_level,
    quantity,
)

RULE = IntervalRule()
LAW = BandwidthLaw()

numbers = st.floats(allow_nan=True, allow_infinity=True)
counts = st.none() | numbers | st.integers(-10, 2**64 + 10)
moments = st.builds(
    Taken, time_s=st.floats(0.0, 100.0) | numbers, uptime_s=st.none() | st.floats(0.0, 100.0) | numbers
)
DISK_FIELDS = (
    "reads", "sectors_read", "read_ms", "writes", "sectors_written", "write_ms", "in_flight", "io_ms",
    "weighted_ms",
)  # fmt: skip
disks = st.builds(
    BlockDeviceCounters,
    subject=st.just("n/vda"),
    taken=moments,
    **dict.fromkeys(DISK_FIELDS, counts),
)
sockets = st.builds(
    ChannelCounters,
    subject=st.just("n/s0"),
    taken=moments,
    cas_reads=counts,
    cas_writes=counts,
    clock_ticks=counts,
    channels=st.none() | st.integers(-1, 16),
    transfers_mt_s=st.none() | numbers,
    transfers_per_clock=st.none() | numbers,
)


def check(value: Value) -> None:
    """The invariants of every value."""
    about = quantity(value.quantity)
    assert (value.known is None) == (value.quality is not Quality.PRESENT)
    if value.known is not None:
        assert about.low <= value.known <= about.high
    else:
        assert value.reason
    assert bool(value.broken_bound) == (value.quality is Quality.IMPOSSIBLE)


@given(disks, disks)
def test_no_statistic_of_a_disk_leaves_its_bounds(
    before: BlockDeviceCounters, after: BlockDeviceCounters
) -> None:
    for value in device_statistics(before, after, rule=RULE).values:
        check(value)


@given(sockets, sockets)
def test_no_utilisation_leaves_its_bounds(before: ChannelCounters, after: ChannelCounters) -> None:
    check(bandwidth_utilisation(before, after, law=LAW, rule=RULE))
    check(bandwidth_pressure(before, after, law=LAW, rule=RULE))


@given(
    st.integers(0, 2**32 - 1),
    st.integers(0, 10_000),
    st.floats(0.5, 30.0),
    st.booleans(),
)
def test_a_wrap_changes_nothing_and_a_restart_gives_no_spike(
    start: int, rise_ms: int, passed_s: float, starts_anew: bool
) -> None:
    before = BlockDeviceCounters(
        subject="n/vda", taken=Taken(time_s=0.0, uptime_s=1e6), reads=5, read_ms=start, writes=0, write_ms=0
    )
    uptime_s = passed_s / 2 if starts_anew else 1e6 + passed_s
    after = replace(
        before,
        taken=Taken(time_s=passed_s, uptime_s=uptime_s),
        reads=15,
        read_ms=(start + rise_ms) % 2**32,
    )
    value = device_statistics(before, after, rule=RULE).read_await_s
    if starts_anew:
        assert value.quality is Quality.MISSING
    else:
        assert value.known is not None
        assert math.isclose(value.known, rise_ms / 1000.0 / 10)


memories = st.builds(
    MemoryReading,
    subject=st.just("n/pod"),
    taken=st.just(Taken(time_s=0.0)),
    **{
        f"{name}_bytes": st.none() | numbers | st.floats(0.0, 2.0**40)
        for name in ("current", "anon", "file", "inactive_file", "kernel", "sock", "limit")
    },
)


@given(memories)
def test_no_memory_value_leaves_its_bounds(reading: MemoryReading) -> None:
    found = memory_values(reading, MemoryRule())
    for value in found.values:
        check(value)
    current, working = found.current_bytes.known, found.working_set_bytes.known
    if current is not None and working is not None:
        assert working <= current


LEVELS = PLATFORMS["default"]


@st.composite
def readings(draw: st.DrawFn) -> list[Value]:
    """Awaits at rising times, with holes, nonsense and gaps among them."""
    time_s, values = 0.0, list[Value]()
    for _ in range(draw(st.integers(0, 40))):
        time_s += draw(st.sampled_from([0.0, 5.0, 5.0, 5.0, 25.0, 31.0, 600.0]))
        await_s = draw(st.sampled_from([0.001, 0.012, 0.045, 0.06, 0.3, 2.0, math.nan, -1.0, math.inf]))
        if draw(st.integers(0, 9)):
            values.append(measured("storage_await_s", await_s, source=Source.DISKSTATS, measured_s=time_s))
        else:
            values.append(missing("storage_await_s", "hole", source=Source.DISKSTATS, measured_s=time_s))
    return values


@given(readings(), st.integers(3, 5), st.integers(3, 8))
def test_a_level_moves_only_after_enough_readings_in_a_row(values: list[Value], up: int, down: int) -> None:
    rule = LevelRule(readings_up=up, readings_down=down)
    state = LevelState()
    in_a_row: list[float] = []  # awaits that count, since the last gap
    for value in values:
        was = state
        state = next_level(state, value, LEVELS, rule)
        if state is was:
            assert value.known is None or value.measured_s is None or value.measured_s <= was.last_s
            continue
        if state.last_s - was.last_s > rule.longest_gap_s:
            in_a_row = []
        in_a_row.append(value.known if value.known is not None else math.nan)
        if state.level > was.level:
            assert len(in_a_row) >= up
            assert all(LEVELS.level(await_s) >= state.level for await_s in in_a_row[-up:])
        elif state.level < was.level:
            assert len(in_a_row) >= down
            assert all(LEVELS.level(await_s) <= state.level for await_s in in_a_row[-down:])
        assert UNKNOWN_LEVEL <= state.level <= 4
    assert state.level == UNKNOWN_LEVEL or sum(value.known is not None for value in values) >= up
