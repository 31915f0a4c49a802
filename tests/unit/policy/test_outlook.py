"""Workloads summed up: requests, what filling GPU needs beside, and the load of each model."""

import math

import numpy as np
import pytest

from stowplan.core.domain import GpuRequest, PodShape, Resources
from stowplan.core.policy.nodes.outlook import Need, Outlook

GIB = 1 << 30


def shape(cpu_milli: int, memory_gib: int, gpu: GpuRequest | None) -> PodShape:
    return PodShape(
        requests=Resources({"cpu": cpu_milli, "memory": memory_gib * GIB}),
        score_cpu_milli=cpu_milli,
        score_memory_bytes=memory_gib * GIB,
        gpu=gpu,
    )


def outlook(pods: dict[PodShape, float]) -> Outlook:
    summed = Outlook.of(pods)
    assert summed is not None
    return summed


def test_rates_and_shares_are_per_gpu_asked_for() -> None:
    summed = outlook(
        {
            shape(4000, 8, GpuRequest(1, 500)): 6,  # 3 GPUs
            shape(8000, 8, GpuRequest(1, 1000, ("A",))): 3,
            shape(16000, 8, GpuRequest(2, 1000, ("A",))): 1,
            shape(32000, 8, None): 100,  # asks for no GPU: no matter
        }
    )
    assert summed.rates == pytest.approx({(1, 500): 6 / 8000, (1, 1000): 3 / 8000, (2, 1000): 1 / 8000})
    assert summed.shares == pytest.approx({(): 3 / 8, ("A",): 5 / 8})
    assert summed.pod_milli == pytest.approx(800.0)
    cpu = summed.needs[0]
    assert (cpu.name, cpu.mean) == ("cpu", pytest.approx((24 + 24 + 16) / 8))
    assert cpu.deviation == 0.0  # 8 cores per GPU, each


def test_a_share_of_several_gpus_counts_as_several_requests() -> None:
    assert outlook({shape(1000, 1, GpuRequest(3, 400)): 2}).rates == pytest.approx({(1, 400): 6 / 2400})


def test_without_gpus_there_is_nothing_to_expect() -> None:
    assert Outlook.of({}) is None
    assert Outlook.of({shape(1000, 1, None): 3}) is None
    assert Outlook.of({shape(1000, 1, GpuRequest(1)): 0}) is None


def test_the_variance_is_that_of_pods_apart_from_the_mean() -> None:
    # Whole GPUs with 4 or 12 cores: 8 in the mean, ±4. Over 9 GPUs the sum deviates by 4·√9.
    cpu = outlook({shape(4000, 1, GpuRequest(1)): 1, shape(12000, 1, GpuRequest(1)): 1}).needs[0]
    assert cpu.mean == pytest.approx(8.0)
    assert cpu.deviation * math.sqrt(9000) == pytest.approx(4000 * 3)


def shortage_by_summation(mean: float, deviation: float, left: float) -> float:
    """Return E[max(D - left, 0)] of a normal D, as a sum over a fine grid."""
    points = np.linspace(mean - 9 * deviation, mean + 9 * deviation, 200_001)
    weights = np.exp(-(((points - mean) / deviation) ** 2) / 2)
    return float((np.maximum(points - left, 0.0) * weights).sum() / weights.sum())


@pytest.mark.parametrize("left", [0, 20_000, 30_000, 33_000, 50_000])
def test_stranded_gpu_is_the_expected_shortage(left: int) -> None:
    need = Need("cpu", 0, mean=10.0, deviation=150.0)  # 3000 thousandths: 30 cores ± 8.2
    stranded = need.stranded_milli(np.array([3000]), np.array([left]))[0]
    expected = shortage_by_summation(30_000.0, 150.0 * math.sqrt(3000), left) / 10.0
    assert stranded == pytest.approx(expected, rel=2e-3, abs=0.5)


def test_stranded_gpu_at_the_edges() -> None:
    exact = Need("cpu", 0, mean=10.0, deviation=0.0)
    free, left = np.array([0, 1000, 1000, 1000]), np.array([0, 0, 4000, 20_000])
    assert exact.stranded_milli(free, left) == pytest.approx([0.0, 1000.0, 600.0, 0.0], abs=1e-6)
    unused = Need("memory", 1, mean=0.0, deviation=0.0)
    assert unused.stranded_milli(free, left).tolist() == [0.0] * 4


def test_the_load_of_a_model_counts_what_only_it_can_serve_in_full() -> None:
    any_model = shape(1000, 1, GpuRequest(1))
    only_a = shape(1000, 1, GpuRequest(1, 1000, ("A",)))
    unknown = shape(1000, 1, GpuRequest(1, 1000, ("X",)))
    free = np.array([1000, 2000], dtype=np.int64) * 1000
    # Free are 3000 GPUs. Half of the demand, 1500, may go anywhere: 0.5 each; the other 1500 to 1000 of A.
    load = outlook({any_model: 1, only_a: 1}).model_load(["A", "B"], free)
    assert load == pytest.approx([2.0, 0.5], rel=2e-3)
    assert outlook({unknown: 1}).model_load(["A", "B"], free).tolist() == [0.0, 0.0]
