"""Block devices from two lines of diskstats, and the level that an await means on a platform."""

import math
from dataclasses import replace

import numpy as np
import pytest

from stowplan.core.semantics import (
    PLATFORMS,
    UNKNOWN_LEVEL,
    DeviceStatistics,
    LevelRule,
    LevelState,
    Quality,
    Source,
    StorageLevels,
    device_statistics,
    level_value,
    levels_of,
    measured,
    missing,
    next_level,
    one_hot_levels,
    storage_weight,
)
from stowplan.errors import InvalidInput
from tests.unit.semantics.cases import DISK, RULE, awaited, disk_after

AWS = PLATFORMS["aws"]
STEPS = LevelRule()


def statistics(passed_s: float = 5.0, **rises: float) -> DeviceStatistics:
    return device_statistics(DISK, disk_after(passed_s, **rises), rule=RULE)


def test_what_iostat_shows() -> None:
    # 500 reads of 8 KiB in 2 s of waiting, 100 writes of 64 KiB in 3 s of waiting.
    found = statistics(
        reads=500, read_ms=2000, sectors_read=8000, writes=100, write_ms=3000, sectors_written=12_800,
        io_ms=2500, weighted_ms=5000,
    )  # fmt: skip
    assert found.await_s.known == pytest.approx(5.0 / 600)
    assert found.read_await_s.known == pytest.approx(0.004)
    assert found.write_await_s.known == pytest.approx(0.03)
    assert found.iops.known == pytest.approx(120.0)
    assert found.bytes_per_s.known == pytest.approx((8000 + 12_800) * 512 / 5.0)
    assert found.queue_depth.known == pytest.approx(1.0)
    assert found.utilisation.known == pytest.approx(0.5)
    # Little's law: queue depth = await × IOPS.
    assert (found.await_s.known or 0.0) * (found.iops.known or 0.0) == pytest.approx(found.queue_depth.known)
    assert {value.source for value in found.values} == {Source.DISKSTATS}


def test_without_a_completed_request_there_is_no_await_but_a_hung_disk_has_one() -> None:
    idle = device_statistics(replace(DISK, in_flight=0), replace(disk_after(), in_flight=0), rule=RULE)
    assert idle.await_s.quality is Quality.MISSING
    assert idle.iops.known == 0.0
    hung = statistics()
    assert hung.await_s.known == 5.0
    assert hung.await_s.source is Source.IN_FLIGHT
    assert hung.await_s.source.is_stand_in
    assert hung.await_s.reason.startswith("at least")
    reading_only = statistics(writes=10, write_ms=20)
    assert reading_only.read_await_s.quality is Quality.MISSING
    assert reading_only.await_s.known == pytest.approx(0.002)


def test_times_wrap_at_32_bits() -> None:
    before = replace(DISK, weighted_ms=2**32 - 1000, read_ms=2**32 - 500)
    after = replace(disk_after(reads=100), weighted_ms=4000, read_ms=1500)
    found = device_statistics(before, after, rule=RULE)
    assert found.queue_depth.known == pytest.approx(1.0)
    assert found.read_await_s.known == pytest.approx(0.02)


def test_a_restart_a_gap_and_a_hole_are_told_apart_from_zero() -> None:
    restarted = device_statistics(DISK, replace(disk_after(), reads=3, read_ms=1), rule=RULE)
    assert restarted.await_s.quality is Quality.MISSING
    assert "started anew" in restarted.iops.reason
    assert all(value.quality is Quality.MISSING for value in statistics(600.0, reads=10).values)
    blind = device_statistics(DISK, replace(disk_after(reads=10), write_ms=None), rule=RULE)
    assert blind.await_s.quality is Quality.MISSING
    assert blind.iops.known == 2.0
    assert blind.read_await_s.known == 0.0
    assert statistics(io_ms=6000).utilisation.quality is Quality.IMPOSSIBLE
    assert statistics(io_ms=5100).utilisation.known == 1.0


def test_levels_mean_the_same_on_every_platform() -> None:
    assert AWS.level(0.050) == 2
    assert PLATFORMS["alibaba"].level(0.045) == 2
    assert AWS.level(0.045) == 1
    assert [AWS.level(await_s) for await_s in (0.0, 0.01, 0.2, 1.0, 100.0)] == [0, 1, 3, 4, 4]
    assert all(table.is_default == (name == "default") for name, table in PLATFORMS.items())
    assert all(table.origin for table in PLATFORMS.values())


def test_an_unknown_platform_has_the_default_and_says_so() -> None:
    found = levels_of("my-own-ceph")
    assert found.is_default
    assert found.platform == "my-own-ceph"
    assert found.bounds_s == PLATFORMS["default"].bounds_s
    assert not levels_of("aws").is_default
    with pytest.raises(InvalidInput, match="no table for 'x'"):
        levels_of("x", {})


@pytest.mark.parametrize(
    "bounds", [(0.0, 1.0, 2.0, 3.0), (1.0, 1.0, 2.0, 3.0), (1.0, 2.0, 3.0), (1.0, 2.0, 3.0, math.inf)]
)
def test_bounds_that_are_no_ladder_are_refused(bounds: tuple[float, float, float, float]) -> None:
    with pytest.raises(InvalidInput, match="ascending"):
        StorageLevels(platform="x", bounds_s=bounds, origin="")


def run(awaits_ms: list[float | None], state: LevelState | None = None, step_s: float = 5.0) -> list[int]:
    """Levels after each await, in milliseconds; None is a reading that is missing."""
    state = state if state is not None else LevelState()
    start_s = max(state.last_s, 0.0)
    levels: list[int] = []
    for number, await_ms in enumerate(awaits_ms, start=1):
        time_s = start_s + number * step_s
        reading = awaited(math.nan if await_ms is None else await_ms / 1000.0, time_s)
        state = next_level(state, reading, AWS, STEPS)
        levels.append(state.level)
    return levels


U = UNKNOWN_LEVEL


def test_three_readings_move_the_level_up_at_once() -> None:
    assert run([1, 1, 1, 60, 60, 60]) == [U, U, 0, 0, 0, 2]
    assert run([1, 1, 1, 60, 300, 2000]) == [U, U, 0, 0, 0, 2]  # the highest that all three reached
    assert run([1, 1, 1, 60, 60, 1, 60, 60]) == [U, U, 0, 0, 0, 0, 0, 0]
    assert run([60, 60, 60]) == [U, U, 2]


def test_it_falls_slowly_and_does_not_flap() -> None:
    high = [60.0] * 3
    assert run([*high, *[1] * 6])[2:] == [2, 2, 2, 2, 2, 2, 0]
    assert run([*high, *[45] * 12])[-1] == 2  # under the bound, but not under its release
    assert run([*high, *[39] * 6])[-1] == 1
    assert run([*high, *[1] * 5, 45, *[1] * 5])[-1] == 2
    assert set(run([60, 45] * 20)[2:]) == {1}


def test_a_missing_reading_is_neither_high_nor_low() -> None:
    assert run([1, 1, 1, 60, None, 60, None, 60])[-1] == 2
    assert run([60, 60, 60, *[None] * 20])[-1] == 2
    assert run([60, 60, 60, 1, 1, 1, None, 1, 1, None, 1])[-1] == 0
    assert run([60, 60, 60, *[1] * 5, *[None] * 5])[-1] == 2


def test_after_a_gap_counting_starts_anew() -> None:
    state = LevelState(level=0, last_s=100.0, reached=(2, 2), held=(2, 2))
    assert run([60], state) == [2]
    assert run([60], replace(state, last_s=60.0), step_s=50.0) == [0]
    assert run([60, 60, 60], state, step_s=31.0) == [0, 0, 0]


def test_the_same_reading_twice_counts_once() -> None:
    state = LevelState()
    for _ in range(10):
        state = next_level(state, awaited(0.06, 5.0), AWS, STEPS)
    assert state.level == UNKNOWN_LEVEL
    assert state.reached == (2,)
    for time_s in (10.0, 10.0, 15.0):
        state = next_level(state, awaited(0.06, time_s), AWS, STEPS)
    assert state.level == 2


def test_a_clock_that_was_set_back_does_not_freeze_the_level() -> None:
    state = LevelState(level=0, last_s=90_000.0, reached=(2, 2), held=(2, 2))
    late = next_level(state, awaited(0.06, 89_980.0), AWS, STEPS)
    assert late is state
    for number, level in enumerate([0, 0, 2]):
        state = next_level(state, awaited(0.06, 100.0 + 5.0 * number), AWS, STEPS)
        assert state.level == level


def test_the_level_as_a_value() -> None:
    assert level_value(LevelState(), AWS, 10.0).quality is Quality.MISSING
    state = LevelState(level=2, last_s=100.0, reached=(2, 2, 2), held=(2, 2, 2))
    fresh, old = level_value(state, AWS, 105.0), level_value(state, AWS, 200.0)
    assert not fresh.reason
    assert "'my-ceph' has no bounds" in level_value(state, levels_of("my-ceph"), 105.0).reason
    assert fresh.known == 2.0
    assert old.quality is Quality.STALE
    assert storage_weight(fresh, STEPS).known == STEPS.weights[2]
    assert storage_weight(fresh, STEPS).age_s == 5.0
    assert storage_weight(old, STEPS).known is None
    with pytest.raises(InvalidInput, match="follows from storage_level"):
        storage_weight(awaited(1.0, 0.0), STEPS)
    with pytest.raises(InvalidInput, match="follows from storage_await_s"):
        next_level(LevelState(), missing("rtt_s", "", source=Source.PING), AWS, STEPS)


def test_a_stalled_disk_reaches_the_highest_level() -> None:
    state = LevelState()
    for number in range(3):
        hung = statistics().await_s
        state = next_level(state, replace(hung, measured_s=5.0 * number), AWS, STEPS)
    assert state.level == 4
    assert state.source is Source.IN_FLIGHT


def test_one_hot() -> None:
    rows, known = one_hot_levels(np.array([0, UNKNOWN_LEVEL, 4]))
    assert rows.tolist() == [[1, 0, 0, 0, 0], [0, 0, 0, 0, 0], [0, 0, 0, 0, 1]]
    assert known.tolist() == [True, False, True]
    assert rows.dtype == np.float32
    empty, none = one_hot_levels(np.empty(0, np.int64))
    assert empty.shape == (0, 5)
    assert none.shape == (0,)
    with pytest.raises(InvalidInput, match="from 5 to 5"):
        one_hot_levels(np.array([5]))


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("readings_up", 0),
        ("readings_down", 0),
        ("release", 1.5),
        ("longest_gap_s", 0.0),
        ("weights", (1.0, 1.0)),
        ("weights", (0.5, 0.6, 0.4, 0.3, 0.2)),
        ("weights", (1.5, 0.6, 0.4, 0.3, 0.2)),
    ],
)
def test_rules_without_meaning_are_refused(name: str, number: object) -> None:
    with pytest.raises(InvalidInput, match=f"LevelRule.{name}"):
        replace(STEPS, **{name: number})


def test_an_await_beyond_an_hour_is_impossible() -> None:
    assert measured("storage_await_s", 4000.0, source=Source.DISKSTATS, measured_s=0.0).known is None
