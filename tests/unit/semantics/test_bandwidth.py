"""MBPI: true utilisation from each source, the knee from data, the weight above 0.8."""

import math
from dataclasses import replace

import numpy as np
import pytest

from stowplan.core.physics.dram import latency_factor
from stowplan.core.physics.laws import PhysicsLaws
from stowplan.core.semantics import (
    BandwidthLaw,
    CpuWeightRule,
    DataSlotCounters,
    MonitoredBytes,
    PressureTotals,
    Quality,
    Reading,
    Source,
    StallCounters,
    Value,
    bandwidth_pressure,
    bandwidth_utilisation,
    cpu_weight,
    fit_knee,
    measured,
    node_pressure,
)
from stowplan.errors import InvalidInput
from tests.unit.semantics.cases import DISK, LAW, RULE, START, channels, later

AFTER = later(START, 5.0)
PEAK = 8.0 * 2666e6 * 6  # bytes per second of `cases.channels`

# Published curves (Mess, MICRO 2024): latency relative to idle by the share of the most achieved.
SHARES = np.array([0.50, 0.60, 0.70, 0.75, 0.80, 0.85, 0.90, 0.95, 1.00])
SKYLAKE = np.array([1.22, 1.24, 1.38, 1.49, 1.60, 1.73, 1.85, 2.16, 2.9])
GRAVITON3 = np.array([1.14, 1.21, 1.29, 1.34, 1.40, 1.48, 1.63, 1.85, 2.35])


def used(before: Reading, after: Reading) -> Value:
    return bandwidth_utilisation(before, after, law=LAW, rule=RULE)


def test_a_full_socket_is_1_where_the_copied_formula_says_an_eighth() -> None:
    accesses = PEAK * 5.0 / 64.0
    full = used(channels(0, 0), channels(accesses * 0.75, accesses * 0.25, AFTER))
    assert full.known == pytest.approx(1.0)
    dclk = 2666e6 / 2 * 6 * 5.0  # memory clocks run at half the data rate
    assert accesses / (2.0 * dclk) == pytest.approx(1.0 / 8.0)
    half = used(channels(100, 200), channels(100 + accesses / 4, 200 + accesses / 4, AFTER))
    assert half.known == pytest.approx(0.5)


@pytest.mark.parametrize("transfers_per_clock", [2.0, 4.0])
def test_clocks_stand_in_for_the_data_rate(transfers_per_clock: float) -> None:
    accesses, ticks = PEAK * 5.0 / 64.0 * 0.4, 2666e6 / transfers_per_clock * 6 * 5.0
    before = replace(
        channels(0, 0), transfers_mt_s=None, clock_ticks=0, transfers_per_clock=transfers_per_clock
    )
    after = replace(before, taken=AFTER, cas_reads=accesses, clock_ticks=ticks)
    assert used(before, after).known == pytest.approx(0.4)
    blind = used(replace(before, transfers_per_clock=None), replace(after, transfers_per_clock=None))
    assert blind.quality is Quality.MISSING
    assert "transfers_mt_s" in blind.reason


def test_amd_counts_data_slots() -> None:
    before = DataSlotCounters(subject="n/socket-0", taken=START, data_slots=0, clock_ticks=0)
    after = replace(before, taken=AFTER, data_slots=6e9, clock_ticks=1e10)
    assert used(before, after).known == pytest.approx(0.3)
    assert used(before, replace(after, clock_ticks=0)).quality is Quality.MISSING


def test_monitored_bytes_need_a_peak() -> None:
    before = MonitoredBytes(subject="n/L3-0", taken=START, total_bytes=0, peak_bytes_per_s=100e9)
    after = replace(before, taken=AFTER, total_bytes=125e9)
    assert used(before, after).known == pytest.approx(0.25)
    assert used(before, replace(after, peak_bytes_per_s=None)).quality is Quality.MISSING
    assert used(before, replace(after, total_bytes=None)).quality is Quality.MISSING
    assert used(before, replace(after, peak_bytes_per_s=0.0)).quality is Quality.MISSING


@pytest.mark.parametrize("load", [0.0, 0.3, 0.6, 0.85])
def test_stalled_cycles_are_read_by_the_law_that_makes_them(load: float) -> None:
    idle, latency = 0.3, LAW.latency(load)
    stalled = idle * latency / (1.0 - idle + idle * latency)
    before = StallCounters(subject="n", taken=START, cycles=0, stalled_cycles=0, idle_share=idle)
    after = replace(before, taken=AFTER, cycles=1e10, stalled_cycles=1e10 * stalled)
    found = used(before, after)
    assert found.known == pytest.approx(load, abs=1e-9)
    assert found.source.is_stand_in
    assert used(before, replace(after, stalled_cycles=2e10)).quality is Quality.IMPOSSIBLE
    assert used(before, replace(after, stalled_cycles=1e10)).known == LAW.achievable
    for idle_share in (0.0, 1.0, math.nan):
        assert used(before, replace(after, idle_share=idle_share)).quality is Quality.IMPOSSIBLE
    assert used(before, replace(after, idle_share=None)).quality is Quality.MISSING


def test_stall_time_is_a_pressure_and_no_utilisation() -> None:
    before = PressureTotals(subject="n", taken=START, some_us=0, full_us=0)
    after = replace(before, taken=AFTER, some_us=1_000_000)
    assert used(before, after).quality is Quality.MISSING
    pressure = bandwidth_pressure(before, after, law=LAW, rule=RULE)
    assert pressure.known == pytest.approx(0.2)
    assert pressure.source is Source.MEMORY_PRESSURE
    assert bandwidth_pressure(before, replace(after, some_us=None), law=LAW, rule=RULE).known is None


def test_what_is_no_reading_of_bandwidth_is_refused() -> None:
    with pytest.raises(InvalidInput, match="BlockDeviceCounters is no reading of memory bandwidth"):
        used(DISK, replace(DISK, taken=AFTER))


def test_odd_counters_have_a_quality_and_no_number() -> None:
    assert used(channels(5e9, 0), channels(0, 0, AFTER)).quality is Quality.MISSING  # started anew
    beyond = PEAK * 5.0 / 64.0 * 1.2
    assert used(channels(0, 0), channels(beyond, 0, AFTER)).broken_bound == "≤ 1"
    assert used(channels(-1, 0), channels(0, 0, AFTER)).quality is Quality.IMPOSSIBLE
    assert used(channels(0, 0), replace(channels(0, 0, AFTER), channels=0)).quality is Quality.MISSING


def test_pressure_lies_between_knee_and_achievable_bandwidth() -> None:
    assert LAW.pressure(LAW.knee) == 0.0
    assert LAW.pressure(0.0) == 0.0
    assert LAW.pressure(LAW.achievable) == 1.0
    assert LAW.pressure(1.0) == 1.0
    assert LAW.latency(LAW.knee) == pytest.approx(LAW.knee_latency)
    at_threshold = LAW.knee + 0.8 * (LAW.achievable - LAW.knee)
    assert LAW.latency(at_threshold) == pytest.approx(1.67, abs=0.01)
    accesses = PEAK * 5.0 / 64.0 * at_threshold
    pressure = bandwidth_pressure(channels(0, 0), channels(accesses, 0, AFTER), law=LAW, rule=RULE)
    assert pressure.known == pytest.approx(0.8)


def test_the_law_is_the_one_that_slows_tasks() -> None:
    physics = PhysicsLaws()
    assert LAW.coefficient == physics.dram_latency_coefficient
    assert LAW.saturation == physics.dram_saturation
    for load in np.linspace(0.0, 1.2, 25):
        expected = latency_factor(float(load), LAW.coefficient, LAW.saturation)
        assert LAW.latency(float(load) * LAW.achievable) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("ratios", "achievable", "coefficient", "error"),
    [(SKYLAKE, 0.79, 0.194, 0.10), (GRAVITON3, 0.915, 0.137, 0.05)],
)
def test_the_knee_of_two_real_machines(
    ratios: np.ndarray, achievable: float, coefficient: float, error: float
) -> None:
    fit = fit_knee(SHARES * achievable, ratios, achievable=achievable)
    assert fit.law.coefficient == pytest.approx(coefficient, rel=0.1)
    assert fit.largest_error < error
    assert fit.typical_error <= fit.largest_error
    assert fit.samples == 9
    assert fit.law.latency(fit.law.knee) == pytest.approx(1.1)
    sought = fit_knee(SHARES * achievable, ratios)
    assert sought.law.achievable == pytest.approx(achievable, rel=0.03)


def test_the_fit_finds_the_law_that_made_the_samples() -> None:
    law = BandwidthLaw(coefficient=0.25, achievable=0.7)
    share = np.append(np.linspace(0.05, 0.69, 40), [math.nan, 0.3, 0.3, -1.0, 2.0])
    ratio = np.array([law.latency(float(each)) for each in share[:40]] + [1.0, math.inf, -1.0, 1.0, 1.0])
    fit = fit_knee(share, ratio)
    assert fit.law.coefficient == pytest.approx(0.25, rel=1e-3)
    assert fit.law.achievable == pytest.approx(0.7, rel=1e-4)
    assert fit.samples == 40


def test_a_fit_without_a_knee_is_refused() -> None:
    share = np.array([0.1, 0.4, 0.8])
    with pytest.raises(InvalidInput, match="does not grow"):
        fit_knee(share, np.array([1.0, 0.9, 0.8]))
    with pytest.raises(InvalidInput, match="3 are needed"):
        fit_knee(np.array([0.5, 0.5, 0.5]), np.array([1.1, 1.2, 1.3]))
    with pytest.raises(InvalidInput, match="3 are needed"):
        fit_knee(np.empty(0), np.empty(0))
    with pytest.raises(InvalidInput, match=r"must be \(n,\)"):
        fit_knee(share, np.ones(2))
    with pytest.raises(InvalidInput, match="knee_latency"):
        fit_knee(share, np.array([1.0, 1.001, 1.002]))


@pytest.mark.parametrize("name", ["coefficient", "saturation", "achievable", "knee_latency"])
@pytest.mark.parametrize("number", [0.0, -1.0, math.nan, math.inf])
def test_laws_without_meaning_are_refused(name: str, number: float) -> None:
    with pytest.raises(InvalidInput, match=f"BandwidthLaw.{name}"):
        BandwidthLaw(**{name: number})


def pressures(*numbers: float) -> list[Value]:
    return [
        measured("memory_bandwidth_pressure", number, source=Source.UNCORE_CAS, measured_s=0.0)
        for number in numbers
    ]


def test_one_full_socket_fills_the_node() -> None:
    assert node_pressure(pressures(0.1, 0.9, 0.2)).known == 0.9
    assert node_pressure(pressures(0.1, math.nan)).quality is Quality.MISSING
    with pytest.raises(InvalidInput, match="each socket"):
        node_pressure([])


def test_the_weight_drops_above_the_threshold() -> None:
    rule = CpuWeightRule()
    assert [rule.weight(pressure) for pressure in (0.0, 0.5, 0.8)] == [1.0, 1.0, 1.0]
    assert rule.weight(0.9) == pytest.approx(1.0 - 0.45 / 2)
    assert rule.weight(1.0) == pytest.approx(rule.floor)
    assert cpu_weight(pressures(0.9)[0], rule).known == pytest.approx(0.775)
    unknown = cpu_weight(pressures(math.nan)[0], rule)
    assert unknown.quality is Quality.MISSING
    assert unknown.number is None
    with pytest.raises(InvalidInput, match="follows from"):
        cpu_weight(measured("cpu_weight", 1.0, source=Source.UNCORE_CAS, measured_s=0.0), rule)
    with pytest.raises(InvalidInput, match="threshold < 1"):
        CpuWeightRule(threshold=1.0)
