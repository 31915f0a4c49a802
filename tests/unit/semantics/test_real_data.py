"""What 483 days of measurements on cloud machines mean: await and level of a disk, drift of bandwidth."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from stowplan.core.semantics import (
    PLATFORMS,
    DriftLimits,
    DriftReport,
    DriftVerdict,
    Feature,
    LevelRule,
    LevelState,
    Moments,
    drift_report,
    feature_of,
    freeze,
    next_level,
    no_moments,
    standard_scores,
)
from stowplan.simulate.files import read_text
from stowplan.simulate.laws.drift import DriftLaw, parse_drift
from tests.unit.semantics.cases import awaited

Series = Callable[[str], DriftLaw]
AZURE = PLATFORMS["azure"]
MIB_PER_S = Feature("memory_bandwidth_mib_s", 1e3, 1e6, is_log=True)
LIMITS = DriftLimits()


@pytest.fixture
def series(shared_data: Path) -> Series:
    folder = shared_data / "azure-vm-noise"

    def read(name: str) -> DriftLaw:
        path = folder / f"{name}.csv.gz"
        return parse_drift(read_text(path), path.name)

    return read


def awaits_s(series: Series, kind: str, machine: str) -> np.ndarray:
    """Mean await of each benchmark run, seconds. The files called `msec` hold microseconds."""
    return series(f"fio_random_read-{kind}-remote_disk__{machine}__msec").values / 1e6


@pytest.mark.parametrize(
    ("kind", "machine"),
    [
        ("linux_aio-8kb", "d8s_v5"),
        ("linux_aio-8kb", "b8ms"),
        ("linux_aio-64kb", "d8s_v5"),
    ],
)
def test_littles_law_tells_the_unit_of_the_measured_awaits(series: Series, kind: str, machine: str) -> None:
    iops = series(f"fio_random_read-{kind}-remote_disk__{machine}__iops").values
    queue_depth = np.median(awaits_s(series, kind, machine)) * np.median(iops)
    assert queue_depth == pytest.approx(64.0, rel=0.01)


def test_levels_of_measured_awaits(series: Series) -> None:
    alone = awaits_s(series, "sync-8kb", "d8s_v5")
    assert {AZURE.level(await_s) for await_s in alone} == {0}
    full = awaits_s(series, "linux_aio-64kb", "d8s_v5")
    assert {AZURE.level(await_s) for await_s in full} == {1}
    degraded = [AZURE.level(await_s) for await_s in awaits_s(series, "linux_aio-64kb", "b8ms")]
    assert set(degraded) == {1, 2}
    assert 0.0 < np.mean(np.array(degraded) == 2) < 0.05


def test_three_degraded_runs_in_a_row_are_needed(series: Series) -> None:
    runs = awaits_s(series, "linux_aio-64kb", "b8ms")
    reached = np.array([AZURE.level(await_s) for await_s in runs])
    state, levels = LevelState(), list[int]()
    for number, await_s in enumerate(runs.tolist()):
        state = next_level(state, awaited(await_s, 5.0 * number), AZURE, LevelRule())
        levels.append(state.level)
    in_a_row = (reached[:-2] >= 2) & (reached[1:-1] >= 2) & (reached[2:] >= 2)
    assert (2 in levels) == bool(in_a_row.any())
    assert levels.count(2) >= in_a_row.sum()


def bandwidth(law: DriftLaw, part: slice = slice(None)) -> Moments:
    return no_moments([MIB_PER_S]).added(law.values[part][:, None])


def compared(trained: Moments, seen: Moments) -> DriftReport:
    return drift_report(freeze(trained), seen, LIMITS)


def test_another_machine_type_is_a_drift_and_the_same_one_is_not(series: Series) -> None:
    """Machines of one type, split at random, look alike; the older type has half as much bandwidth again."""
    d8s, b8ms = (series(f"mlc_max_bandwidth-all_reads__{machine}__mib_s") for machine in ("d8s_v5", "b8ms"))
    even, odd = slice(0, None, 2), slice(1, None, 2)
    same = compared(bandwidth(d8s, even), bandwidth(d8s, odd))
    assert same.verdict is DriftVerdict.STABLE
    assert same.features[0].stability_index < 0.01
    other = compared(bandwidth(d8s), bandwidth(b8ms))
    assert other.verdict is DriftVerdict.DRIFTED
    assert other.features[0].mean_shift > 3.0


def test_scores_of_real_awaits_are_standard_and_bounded(series: Series) -> None:
    feature = feature_of("storage_await_s")
    rows = awaits_s(series, "sync-8kb", "b8ms")[:, None]
    scores, known = standard_scores(rows, freeze(no_moments([feature]).added(rows)))
    assert known.all()
    assert float(scores.mean()) == pytest.approx(0.0, abs=1e-4)
    # On the logarithmic scale with 512 bins from 10 µs to 1 min, deviations are far above one bin.
    assert float(scores.std()) == pytest.approx(1.0, rel=0.01)
