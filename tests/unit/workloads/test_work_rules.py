"""From totals to phases: run time and CPU seconds are kept, no disk is faster than a disk."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.errors import InvalidInput
from stowplan.simulate.work_rules import (
    FASTEST_DISK_BYTES_PER_S,
    SHORTEST_S,
    Usage,
    imputed_memory_bytes,
    pod_shape,
    requested_cpu_milli,
    requested_memory_bytes,
    work_profile,
)

usages = st.builds(
    Usage,
    runtime_s=st.floats(0.0, 1e6),
    mean_cores=st.floats(0.0, 128.0),
    read_bytes=st.one_of(st.just(0.0), st.floats(0.0, 1e13)),
    written_bytes=st.one_of(st.just(0.0), st.floats(0.0, 1e13)),
    memory_bytes=st.floats(0.0, 1e12),
)


@given(usages)
def test_alone_it_takes_what_was_recorded(usage: Usage) -> None:
    work = work_profile(usage)
    assert work.alone_s == pytest.approx(max(usage.runtime_s, SHORTEST_S), rel=1e-9)


@given(usages)
def test_cpu_seconds_are_kept(usage: Usage) -> None:
    work = work_profile(usage)
    cpu_s = sum(phase.work_s * phase.cpu_cores for phase in work.phases)
    assert cpu_s == pytest.approx(max(usage.runtime_s, SHORTEST_S) * usage.mean_cores, rel=1e-6, abs=1e-9)


@given(usages)
def test_disk_rates_and_bytes_are_possible(usage: Usage) -> None:
    work = work_profile(usage)
    moved = 0.0
    for phase in work.phases:
        rate = phase.disk_read_bytes_per_s + phase.disk_write_bytes_per_s
        assert rate <= FASTEST_DISK_BYTES_PER_S * (1 + 1e-9)
        moved += rate * phase.work_s
    assert moved <= (usage.read_bytes + usage.written_bytes) * (1 + 1e-6) + 1e-6


def test_a_waiting_reader_reads_while_it_waits() -> None:
    work = work_profile(Usage(runtime_s=100.0, mean_cores=0.4, read_bytes=3e9, written_bytes=1e9))
    read, compute, write = work.phases
    assert (read.work_s, compute.work_s, write.work_s) == pytest.approx((45.0, 40.0, 15.0))
    assert read.disk_read_bytes_per_s == pytest.approx(3e9 / 45.0)
    assert write.disk_write_bytes_per_s == pytest.approx(1e9 / 15.0)
    assert compute.cpu_cores == pytest.approx((40.0 - 60.0 * 0.05) / 40.0)


def test_a_busy_reader_takes_its_bytes_at_the_fastest_rate() -> None:
    work = work_profile(Usage(runtime_s=100.0, mean_cores=2.0, read_bytes=5e9))
    read, compute = work.phases
    assert read.work_s == pytest.approx(10.0)
    assert read.disk_read_bytes_per_s == pytest.approx(FASTEST_DISK_BYTES_PER_S)
    assert compute.work_s == pytest.approx(90.0)


def test_what_no_disk_could_deliver_came_from_the_cache() -> None:
    work = work_profile(Usage(runtime_s=10.0, mean_cores=1.0, read_bytes=1e12))
    read = work.phases[0]
    assert read.work_s == pytest.approx(9.0)
    assert read.disk_read_bytes_per_s == pytest.approx(FASTEST_DISK_BYTES_PER_S)
    assert work.cache_bytes == 1e12


def test_waiting_without_bytes_is_one_phase() -> None:
    (phase,) = work_profile(Usage(runtime_s=60.0, mean_cores=0.02)).phases
    assert (phase.work_s, phase.cpu_cores) == (60.0, 0.02)


@pytest.mark.parametrize(
    ("mean_cores", "milli"),
    [(0.0, 1000), (0.3, 1000), (1.0, 1000), (1.04, 1000), (1.06, 2000), (1.9, 2000), (15.2, 16000)],
)
def test_cpu_request_rule(mean_cores: float, milli: int) -> None:
    assert requested_cpu_milli(mean_cores) == milli


def test_memory_rules() -> None:
    mib = 1 << 20
    assert requested_memory_bytes(0.0) == 128 * mib
    assert requested_memory_bytes(1000 * mib) == 1216 * mib  # 1200 MiB in steps of 64
    assert imputed_memory_bytes(0.0) == 256 * mib
    assert imputed_memory_bytes(1e15) == 4096 * mib


@pytest.mark.parametrize("field", ["runtime_s", "mean_cores", "read_bytes", "written_bytes", "memory_bytes"])
@pytest.mark.parametrize("number", [-1.0, float("nan"), float("inf")])
def test_unusable_totals_are_refused(field: str, number: float) -> None:
    with pytest.raises(InvalidInput, match=f"{field} is"):
        Usage(**{"runtime_s": 1.0, "mean_cores": 1.0, field: number})


def test_equal_requests_share_a_shape() -> None:
    assert pod_shape(1000, 1 << 30) is pod_shape(1000, 1 << 30)
    assert pod_shape(1000, 1 << 30).score_cpu_milli == 1000
