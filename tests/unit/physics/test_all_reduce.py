"""All-reduce: rings alone, rings that share a link, and links that others use too, against closed forms."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from stowplan.core.physics.all_reduce import Rings, step_rates

NO_LIMIT = math.inf


def rings(
    *links: tuple[int, ...],
    compute_s: float = 1.0,
    size: float = 10.0,
    own: float = NO_LIMIT,
    overlap: float = 1.0,
    latency_s: float = 0.0,
) -> Rings:
    """Equal rings, each over the links named."""
    count = len(links)
    pairs = [(ring, link) for ring, of_ring in enumerate(links) for link in of_ring]
    return Rings(
        compute_s=np.full(count, compute_s),
        latency_s=np.full(count, latency_s),
        overlap=np.full(count, overlap),
        ring_bytes=np.full(count, size),
        own_bytes_per_s=np.full(count, own),
        ring=np.array([ring for ring, _ in pairs], dtype=np.int64),
        link=np.array([link for _, link in pairs], dtype=np.int64),
    )


def solve(
    some: Rings, *capacity: float, other: tuple[float, ...] = ()
) -> tuple[list[float], list[float], list[int]]:
    use = np.array(other) if other else np.zeros(len(capacity))
    rate, reduce_s, decides = step_rates(some, np.array(capacity), use)
    return rate.tolist(), reduce_s.tolist(), decides.tolist()


def test_a_ring_alone_takes_its_bytes_over_the_slowest_link() -> None:
    rate, reduce_s, decides = solve(rings((0, 1)), 20.0, 5.0)
    assert reduce_s == pytest.approx([10.0 / 5.0])
    assert rate == pytest.approx([1.0 / (1.0 + 2.0)])
    assert decides == [1]


def test_the_speed_of_the_rings_own_edges_and_its_latency_count() -> None:
    rate, reduce_s, decides = solve(rings((0,), own=4.0, latency_s=0.5), 20.0)
    assert reduce_s == pytest.approx([10.0 / 4.0 + 0.5])
    assert rate == pytest.approx([1.0 / 4.0])
    assert decides == [-1]


def test_a_single_gpu_reduces_nothing() -> None:
    rate, reduce_s, decides = solve(rings((), size=0.0, latency_s=0.1))
    assert (rate, reduce_s, decides) == ([1.0], [0.0], [-1])


def test_overlap_takes_the_longer_when_it_is_perfect() -> None:
    assert solve(rings((0,), overlap=60.0), 5.0)[0] == pytest.approx([1.0 / 2.0], rel=1e-6)


def test_what_others_send_is_taken_off_the_link_but_a_fair_share_remains() -> None:
    assert solve(rings((0,)), 20.0, other=(5.0,))[1] == pytest.approx([10.0 / 15.0])
    assert solve(rings((0,)), 20.0, other=(19.0,))[1] == pytest.approx([10.0 / 10.0])


def test_two_rings_on_one_link_meet_as_often_as_each_reduces() -> None:
    rate, reduce_s, _ = solve(rings((0,), (0,)), 40.0)
    duty = reduce_s[0] * rate[0]
    assert 0.0 < duty < 1.0
    assert reduce_s == pytest.approx([10.0 * (1.0 + duty) / 40.0] * 2)
    assert rate == pytest.approx([1.0 / (1.0 + reduce_s[0])] * 2)


def test_many_rings_that_only_reduce_share_a_link_fairly() -> None:
    rate, reduce_s, _ = solve(rings(*[(0,)] * 4, compute_s=1e-6), 40.0)
    assert reduce_s == pytest.approx([1.0] * 4, rel=1e-4)
    assert sum(rate) * 10.0 == pytest.approx(40.0, rel=1e-4)


def test_a_dead_link_stops_the_ring_all_but() -> None:
    assert solve(rings((0,)), 0.0)[0][0] < 1.0


def some_rings(seed: int) -> tuple[Rings, NDArray[np.float64], NDArray[np.float64]]:
    rng = np.random.default_rng(seed)
    count, links = int(rng.integers(1, 9)), int(rng.integers(1, 7))
    pairs = [(ring, link) for ring in range(count) for link in range(links) if rng.random() < 0.5]
    some = Rings(
        compute_s=rng.uniform(0.01, 1.0, count),
        latency_s=rng.uniform(0.0, 0.01, count),
        overlap=rng.uniform(1.0, 4.0, count),
        ring_bytes=rng.uniform(0.0, 1e9, count),
        own_bytes_per_s=rng.uniform(1e8, 1e10, count),
        ring=np.array([ring for ring, _ in pairs], dtype=np.int64),
        link=np.array([link for _, link in pairs], dtype=np.int64),
    )
    capacity = rng.uniform(1e8, 1e10, links)
    return some, capacity, capacity * rng.uniform(0.0, 0.9, links) * (rng.random(links) < 0.5)


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_rates_settle_where_each_ring_gets_what_the_others_leave_it(seed: int) -> None:
    some, capacity, other = some_rings(seed)
    rate, reduce_s, decides = step_rates(some, capacity, other)
    longer, shorter = np.maximum(some.compute_s, reduce_s), np.minimum(some.compute_s, reduce_s)
    step_s = longer * (1.0 + (shorter / longer) ** some.overlap) ** (1.0 / some.overlap)
    assert rate == pytest.approx(1.0 / step_s, rel=1e-6)
    duty = rate * reduce_s
    met = np.bincount(some.link, duty[some.ring], capacity.size)
    for ring in range(rate.size):
        links = some.link[some.ring == ring]
        shares = [
            max(left / sharing, whole / (sharing + 1.0)) if used > 0.0 else whole / sharing
            for left, whole, used, sharing in zip(
                (capacity - other)[links],
                capacity[links],
                other[links],
                1.0 + met[links] - duty[ring],
                strict=True,
            )
        ]
        slowest = min([some.own_bytes_per_s[ring], *shares])
        if some.ring_bytes[ring] > 0.0:
            expected_s = some.ring_bytes[ring] / slowest + some.latency_s[ring]
            assert reduce_s[ring] == pytest.approx(expected_s, rel=1e-6)
        assert decides[ring] in (-1, *links.tolist())
