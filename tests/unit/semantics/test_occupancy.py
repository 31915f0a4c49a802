"""How busy cores and network devices are: by hand."""

import pytest

from stowplan.core.semantics import (
    CpuPressureTotals,
    CpuTimes,
    IntervalRule,
    NetworkDeviceCounters,
    Quality,
    Source,
    Taken,
    cpu_utilisation,
    cpu_wait_share,
    nic_utilisation,
)
from stowplan.errors import InvalidInput

RULE = IntervalRule()


def cpu(time_s: float, busy_s: float | None, cores: float | None = 8.0) -> CpuTimes:
    missing = {} if busy_s is not None else {"busy_s": "no permission"}
    return CpuTimes(subject="n", taken=Taken(time_s=time_s), busy_s=busy_s, cores=cores, missing=missing)


def nic(time_s: float, received: float | None, sent: float | None) -> NetworkDeviceCounters:
    taken = Taken(time_s=time_s)
    return NetworkDeviceCounters(
        subject="n/eth0", taken=taken, received_bytes=received, sent_bytes=sent, speed_bytes_per_s=125e6
    )


def test_busy_cores_over_all_cores() -> None:
    found = cpu_utilisation(cpu(100.0, 1000.0), cpu(105.0, 1010.0), rule=RULE)
    assert found.known == pytest.approx(10.0 / (8 * 5))
    assert found.source is Source.PROC_STAT
    assert found.measured_s == 105.0


def test_a_full_machine_may_exceed_its_cores_by_the_jitter_of_two_clocks_only() -> None:
    assert cpu_utilisation(cpu(0.0, 0.0), cpu(5.0, 41.0), rule=RULE).known == 1.0
    more = cpu_utilisation(cpu(0.0, 0.0), cpu(5.0, 60.0), rule=RULE)
    assert more.quality is Quality.IMPOSSIBLE
    assert more.broken_bound == "≤ 1"


def test_cores_that_were_not_read_make_it_missing() -> None:
    for after in (cpu(5.0, None), cpu(5.0, 10.0, None), cpu(5.0, 10.0, 0.0)):
        assert cpu_utilisation(cpu(0.0, 0.0), after, rule=RULE).quality is Quality.MISSING


def test_waiting_is_the_share_of_time_with_some_task_stalled() -> None:
    def reading(time_s: float, some_us: float) -> CpuPressureTotals:
        return CpuPressureTotals(subject="n", taken=Taken(time_s=time_s), some_us=some_us)

    found = cpu_wait_share(reading(0.0, 3e6), reading(10.0, 5.5e6), rule=RULE)
    assert found.known == pytest.approx(0.25)
    assert found.source is Source.CPU_PRESSURE
    gap = cpu_wait_share(reading(0.0, 3e6), reading(100.0, 5.5e6), rule=RULE)
    assert gap.quality is Quality.MISSING
    assert "100 s between" in gap.reason


def test_the_busier_direction_of_a_link_counts() -> None:
    assert nic_utilisation(nic(0.0, 0.0, 0.0), nic(5.0, 125e6, 500e6), rule=RULE).known == pytest.approx(0.8)
    assert nic_utilisation(nic(0.0, 0.0, 0.0), nic(5.0, 250e6, 0.0), rule=RULE).known == pytest.approx(0.4)
    half = nic_utilisation(nic(0.0, 0.0, 0.0), nic(5.0, 250e6, None), rule=RULE)
    assert half.quality is Quality.MISSING


def test_readings_of_two_machines_have_no_rate() -> None:
    other = CpuTimes(subject="m", taken=Taken(time_s=5.0), busy_s=1.0, cores=8.0)
    with pytest.raises(InvalidInput, match="subject"):
        cpu_utilisation(cpu(0.0, 0.0), other, rule=RULE)
