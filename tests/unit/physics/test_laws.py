"""Each law against hand-worked numbers and the measurements it claims to describe."""

import math

import numpy as np
import pytest

from stowplan.core.physics.cpu import burst_time_s, quota_rate
from stowplan.core.physics.cpu_weight import cpu_weight_of_request
from stowplan.core.physics.disk import (
    await_s,
    bucket_after,
    bucket_edge_s,
    bucket_rate,
    outstanding_bytes,
    qos_flips,
)
from stowplan.core.physics.dram import latency_factor, stall_factor
from stowplan.core.physics.gpu import shared_gpu_speed
from stowplan.core.physics.laws import PhysicsLaws
from stowplan.core.physics.machine import MachineFactors
from stowplan.core.physics.memory import cache_allowed, cache_scale, disk_share_of_reads, limit_passed_at
from stowplan.core.physics.network import LinkSpeeds, farthest, overlapped_time_s, ring_bytes, ring_time_s
from stowplan.core.physics.vocabulary import LinkClass
from stowplan.core.physics.waterfill import water_level, waterfill
from stowplan.errors import InvalidInput, UnknownName


def test_cores_are_shared_by_weight_as_measured() -> None:
    for light, heavy in ((100.0, 100.0), (100.0, 200.0), (100.0, 800.0)):
        shares = waterfill(np.array([1.0, 1.0]), np.array([light, heavy]), 1.0)
        assert shares[1] / shares[0] == pytest.approx(heavy / light)


def test_who_wants_little_gets_it_and_the_rest_is_shared() -> None:
    assert waterfill(np.array([1.0, 5.0, 5.0]), np.array([1.0, 1.0, 2.0]), 6.0) == pytest.approx(
        [1.0, 5.0 / 3.0, 10.0 / 3.0]
    )
    assert water_level(np.array([1.0, 2.0]), np.ones(2), 3.0) == np.inf


@pytest.mark.parametrize("quota", [0.05, 0.1, 0.2])
def test_a_quota_gives_a_steady_task_exactly_its_cores(quota: float) -> None:
    assert quota_rate(1.0, 1.0, 1.0, quota, 0.1) == pytest.approx(quota)


def throttled_burst_s(cores: float, length_s: float, limit: float, period_s: float) -> float:
    """Play the bandwidth control in steps of 10 µs."""
    step, work, now, left = 1e-5, cores * length_s, 0.0, limit * period_s
    while work > 1e-9:
        if int(now / period_s + 1e-9) > int((now - step) / period_s + 1e-9) and now > 0.0:
            left = limit * period_s
        used = min(cores * step, left, work)
        left -= used
        work -= used
        now += step
    return now


@pytest.mark.parametrize(
    ("cores", "length_s", "limit"), [(4.0, 0.05, 1.0), (2.0, 0.3, 0.5), (8.0, 0.01, 1.0), (3.0, 1.0, 2.5)]
)
def test_a_burst_takes_as_long_as_the_bandwidth_control_makes_it(
    cores: float, length_s: float, limit: float
) -> None:
    expected = throttled_burst_s(cores, length_s, limit, 0.1)
    assert burst_time_s(cores, length_s, limit, 0.1) == pytest.approx(expected, abs=3e-5)


def test_a_burst_below_the_limit_costs_nothing_and_above_it_more_than_the_mean_says() -> None:
    assert quota_rate(0.5, 2.0, 0.05, 2.0, 0.1) == 1.0
    assert quota_rate(0.5, 2.0, 1.0, 1.0, 0.1) < 1.0
    assert quota_rate(0.0, 0.0, 1.0, 0.1, 0.1) == 1.0


@pytest.mark.parametrize(("cores", "weight"), [(0.0, 1.0), (0.1, 17.0), (1.0, 100.0), (1e6, 10000.0)])
def test_cpu_weight_of_a_request(cores: float, weight: float) -> None:
    assert cpu_weight_of_request(cores) == weight


def test_memory_latency_follows_the_published_curves() -> None:
    skylake = {0.5: 1.22, 0.75: 1.49, 0.9: 1.85, 0.95: 2.16}
    graviton3 = {0.5: 1.14, 0.75: 1.34, 0.9: 1.63, 0.95: 1.85}
    for coefficient, curve in ((0.194, skylake), (0.137, graviton3)):
        for load, measured in curve.items():
            assert latency_factor(load, coefficient, 1.1) == pytest.approx(measured, rel=0.1)
    assert latency_factor(0.0, 0.2, 1.1) == 1.0
    assert latency_factor(2.0, 0.1, 1.1) == latency_factor(1.0, 0.1, 1.1) == pytest.approx(2.0)
    assert stall_factor(0.25, 2.0) == 1.25


def test_littles_law_gives_the_measured_waits() -> None:
    for depth, operations, measured_s in ((32, 70161, 447e-6), (32, 134, 0.239), (32, 2699, 11.84e-3)):
        assert await_s(depth, operations) == pytest.approx(measured_s, rel=0.03)
    assert await_s(1.0, 0.0) == math.inf


def test_outstanding_bytes_predict_who_gets_the_disk() -> None:
    victim, writer = outstanding_bytes(32, 4096), outstanding_bytes(2, 1 << 20)
    total = 9374 * 4096 * (victim + writer) / victim  # the total that goes with the prediction of the source
    share = waterfill(np.array([1e12, 1e12]), np.array([victim, writer]), total)[0] / 4096
    assert share == pytest.approx(9374, rel=1e-6)
    assert 0.4 < 8931 / share < 1.0  # measured


def test_a_burst_bucket_like_gp2_lasts_half_an_hour() -> None:
    base, burst, size = 0.0, 3000.0, 5.4e6
    assert bucket_edge_s(size, base, burst) == 1800.0
    assert bucket_edge_s(size, 3000.0, 3000.0) == math.inf
    assert bucket_after(size, size, 300.0, 3000.0 * 100.0, 100.0) == size - 2700.0 * 100.0
    assert bucket_after(10.0, size, 300.0, 1e9, 1.0) == 0.0
    assert bucket_rate(1.0, 500.0, 300.0, burst) == burst
    assert bucket_rate(0.0, 500.0, 300.0, burst) == 300.0


def test_disk_states_flip_within_their_bounds_and_repeat_with_the_seed() -> None:
    def draw() -> np.ndarray:
        random = np.random.default_rng(3)
        return qos_flips(random, until_s=1e5, normal_mean_s=900.0, degraded_mean_s=100.0)

    flips = draw()
    assert np.array_equal(flips, draw())
    assert (np.diff(flips[:, 0]) > 0.0).all()
    assert ((flips[::2, 1] >= 0.03) & (flips[::2, 1] <= 0.1)).all()
    assert (flips[1::2, 1] == 1.0).all()
    down_s = np.diff(flips[: flips.shape[0] // 2 * 2, 0])[::2].sum()
    assert 0.05 < down_s / 1e5 < 0.2


def test_memory_gives_up_cache_first_and_kills_by_anonymous_memory() -> None:
    assert cache_allowed(100.0, 30.0, 64.0) == 34.0
    assert cache_allowed(100.0, 80.0, 64.0) == 0.0
    assert cache_scale(50.0, 60.0, 100.0) == 0.8
    assert cache_scale(0.0, 200.0, 100.0) == 1.0
    assert disk_share_of_reads(0.7, 100.0, 50.0) == pytest.approx(0.65)
    assert disk_share_of_reads(0.7, 0.0, 0.0) == 1.0
    assert limit_passed_at(0.0, 100.0, 25.0) == 0.25
    assert limit_passed_at(0.0, 20.0, 25.0) == math.inf
    assert limit_passed_at(30.0, 10.0, 25.0) == 0.0


def test_gpu_sharing_is_interpolated_and_conserves_work_beyond_the_data() -> None:
    knots, speeds = np.array([0.4, 1.0]), np.array([1.0, 0.8])
    assert shared_gpu_speed(0.1, knots, speeds) == 1.0
    assert shared_gpu_speed(0.7, knots, speeds) == pytest.approx(0.9)
    assert shared_gpu_speed(2.0, knots, speeds) == pytest.approx(0.4)


def test_ring_all_reduce_and_overlap() -> None:
    assert ring_bytes(8e9, 4) == 12e9
    assert ring_bytes(8e9, 1) == 0.0
    assert ring_time_s(8e9, 4, 12e9, 1e-3) == pytest.approx(1.006)
    # 8-byte all-reduces of 16, 32 and 64 ranks took 163, 319 and 631 µs: 5.0 to 5.4 µs a step.
    for ranks, measured_s in ((16, 163e-6), (32, 319e-6), (64, 631e-6)):
        assert ring_time_s(8.0, ranks, 10e9, 5.15e-6) == pytest.approx(measured_s, rel=0.06)
    assert overlapped_time_s(3.0, 4.0, 1.0) == 7.0
    assert overlapped_time_s(3.0, 4.0, 2.0) == 5.0
    assert overlapped_time_s(0.0, 4.0, 2.0) == 4.0
    assert overlapped_time_s(1.0, 1.0, 1000.0) == pytest.approx(1.0, rel=1e-3)


def test_the_farthest_pair_decides_the_speed_of_a_ring() -> None:
    def places(zone: int, rack: int, node: int, root: int) -> LinkClass:
        return farthest(*(np.array([0, differs]) for differs in (zone, rack, node, root)))

    assert places(0, 0, 0, 0) is LinkClass.SAME_ROOT_COMPLEX
    assert places(0, 0, 0, 1) is LinkClass.SAME_NODE
    assert places(0, 0, 1, 0) is LinkClass.SAME_RACK
    assert places(0, 1, 1, 0) is LinkClass.SAME_ZONE
    assert places(1, 1, 1, 1) is LinkClass.OTHER_ZONE
    speeds = LinkSpeeds()
    times = [speeds.ring_time_s(1e9, 8, distance) for distance in LinkClass]
    assert times[0] < times[3] < times[4]
    with pytest.raises(InvalidInput, match="step_latency_s"):
        LinkSpeeds(step_latency_s=(1.0,))


def test_machine_factors_are_looked_up_by_task_and_never_by_machine_alone() -> None:
    ratios = np.array([[1.0, 0.5], [1.0, 2.0], [1.0, np.nan]])
    factors = MachineFactors({"align": 0, "sort": 1, "merge": 2}, {"local": 0, "n1": 1}, ratios)
    assert factors.speed("align", "n1") == 2.0
    assert factors.speed("sort", "n1") == 0.5
    assert factors.speed("merge", "n1") == factors.speed("unheard of", "n1") == pytest.approx(0.8)
    assert factors.spread("n1") == pytest.approx((0.65, 1.25, 1.85))
    with pytest.raises(UnknownName, match="n1"):
        factors.speed("align", "n2")
    with pytest.raises(InvalidInput, match="measured on m"):
        MachineFactors({"a": 0}, {"m": 0}, np.array([[np.nan]]))
    with pytest.raises(InvalidInput, match="positive"):
        MachineFactors({"a": 0}, {"m": 0}, np.array([[-1.0]]))
    with pytest.raises(InvalidInput, match="shape"):
        MachineFactors({"a": 0}, {"m": 0}, np.ones((2, 1)))


@pytest.mark.parametrize(
    "wrong", [{"dram_saturation": 1.0}, {"solver_sweeps": 0}, {"cfs_period_s": math.nan}]
)
def test_constants_without_a_meaning_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        PhysicsLaws(**wrong)  # type: ignore[arg-type]  # the test hands over wrong types and values
