"""How far apart nodes are, from noisy and sparse pings; which names mislead."""

import math
from dataclasses import replace

import numpy as np
import pytest

from stowplan.core.semantics import (
    UNKNOWN_DISTANCE,
    DistanceClass,
    Distances,
    ModeRule,
    NamedPlaces,
    Origin,
    RttEstimates,
    RttSamples,
    estimate_distances,
    estimate_rtt,
    misleading_pairs,
)
from stowplan.core.semantics.distance_modes import gaps_of
from stowplan.errors import InvalidInput
from tests.unit.semantics.networks import BASES_S, Network, network, pings

MODES = ModeRule()
NOW_S = 1000.0


def samples(*rows: tuple[int, int, float], time_s: float = NOW_S) -> RttSamples:
    origins, targets, rtt_s = zip(*rows, strict=True) if rows else ((), (), ())
    return RttSamples(
        origins=np.array(origins, np.int64),
        targets=np.array(targets, np.int64),
        rtt_s=np.array(rtt_s, np.float64),
        times_s=np.full(len(rows), time_s),
    )


def estimated(
    net: Network, share: float = 1.0, bases_s: tuple[float, ...] = BASES_S, rounds: int = 10
) -> RttEstimates:
    random = np.random.default_rng(7)
    pinged = pings(net, random, share=share, bases_s=bases_s, rounds=rounds, now_s=NOW_S)
    return estimate_rtt(pinged, net.size, now_s=NOW_S)


def found(
    net: Network,
    places: NamedPlaces | None = None,
    share: float = 1.0,
    bases_s: tuple[float, ...] = BASES_S,
    rounds: int = 10,
) -> Distances:
    return estimate_distances(estimated(net, share, bases_s, rounds), places=places, rule=MODES)


# ---- one pair ----


def test_least_median_and_tail_of_a_pair() -> None:
    both_ways = [(1, 0, 1e-3 * step) for step in range(1, 52)] + [(0, 1, 2e-3)] * 50
    one = estimate_rtt(samples(*both_ways), 2, now_s=NOW_S)
    rtt_s = [row[2] for row in both_ways]
    assert one.first.tolist() == [0]
    assert one.second.tolist() == [1]
    assert one.least_s[0] == 1e-3
    assert one.median_s[0] == np.median(rtt_s)
    assert one.tail_s[0] == pytest.approx(np.quantile(rtt_s, 0.99))
    assert one.asymmetry[0] == pytest.approx(2.0)
    assert one.sample_count[0] == 101


def test_few_samples_have_no_tail_and_one_direction_no_asymmetry() -> None:
    one = estimate_rtt(samples(*[(0, 1, 1e-3)] * 19), 2, now_s=NOW_S)
    assert math.isnan(one.tail_s[0])
    assert math.isnan(one.asymmetry[0])
    assert estimate_rtt(samples(*[(0, 1, 1e-3)] * 20), 2, now_s=NOW_S).tail_s[0] == 1e-3


@pytest.mark.parametrize("rtt_s", [math.nan, math.inf, -math.inf, -1e-3, 0.0, 1e-9, 100.0])
def test_impossible_samples_are_refused(rtt_s: float) -> None:
    one = estimate_rtt(samples((0, 1, rtt_s), (0, 1, 2e-3)), 2, now_s=NOW_S)
    assert one.refused_count == 1
    assert one.least_s.tolist() == [2e-3]


def test_old_future_and_own_samples_are_refused() -> None:
    assert estimate_rtt(samples((0, 1, 1e-3), time_s=NOW_S - 301.0), 2, now_s=NOW_S).refused_count == 1
    assert estimate_rtt(samples((0, 1, 1e-3), time_s=NOW_S + 1.0), 2, now_s=NOW_S).refused_count == 1
    assert estimate_rtt(samples((0, 1, 1e-3), time_s=math.nan), 2, now_s=NOW_S).refused_count == 1
    own = estimate_rtt(samples((1, 1, 1e-3)), 2, now_s=NOW_S)
    assert own.refused_count == 1
    assert own.first.size == 0


def test_nodes_that_are_not_there_are_refused() -> None:
    with pytest.raises(InvalidInput, match="nodes 0 … 2; there are 2"):
        estimate_rtt(samples((0, 2, 1e-3)), 2, now_s=NOW_S)
    with pytest.raises(InvalidInput, match="nodes -1"):
        estimate_rtt(samples((-1, 0, 1e-3)), 2, now_s=NOW_S)
    with pytest.raises(InvalidInput, match="shapes"):
        replace(samples((0, 1, 1e-3)), times_s=np.empty(0))
    with pytest.raises(InvalidInput, match="must be usable"):
        estimate_rtt(samples(), 2, now_s=math.nan)


# ---- modes ----


def test_gaps_lie_between_the_distances_in_any_network() -> None:
    random = np.random.default_rng(1)
    for scale in (1.0, 1e-2, 37.0):
        rtt_s = scale * np.concatenate([base * random.uniform(0.85, 1.2, 200) for base in BASES_S])
        gaps = gaps_of(rtt_s, MODES)
        assert len(gaps) == 3
        for gap, low, high in zip(gaps, BASES_S, BASES_S[1:], strict=False):
            assert scale * low * 1.2 < gap < scale * high * 0.85


def test_one_distance_has_no_gap() -> None:
    rtt_s = 1e-3 * np.random.default_rng(2).lognormal(0.0, 0.15, 5000)
    assert gaps_of(rtt_s, MODES).size == 0
    assert gaps_of(np.array([1e-3]), MODES).size == 0
    assert gaps_of(np.empty(0), MODES).size == 0
    assert gaps_of(np.full(50, 1e-3), MODES).size == 0


def test_few_near_pairs_beside_many_far_ones_are_still_a_mode() -> None:
    random = np.random.default_rng(3)
    rtt_s = np.concatenate(
        [60e-6 * random.uniform(0.9, 1.1, 40), 400e-6 * random.lognormal(0.0, 0.1, 10_000)]
    )
    (gap,) = gaps_of(rtt_s, MODES)
    assert 66e-6 < gap < 350e-6


def test_of_too_many_modes_the_smallest_are_closed() -> None:
    rtt_s = np.repeat([1e-4, 1e-3, 1.6e-3, 1e-2, 1e-1], [50, 50, 2, 50, 50])
    gaps = gaps_of(rtt_s, MODES)
    assert len(gaps) == 3
    assert np.searchsorted(gaps, [1e-3, 1.6e-3]).tolist() == [1, 1]
    with pytest.raises(InvalidInput, match="not above 0"):
        gaps_of(np.array([0.0]), MODES)
    with pytest.raises(InvalidInput, match="0 < valley < 1"):
        ModeRule(valley=1.0)


# ---- whole matrix ----


def test_a_full_mesh_is_found_without_labels() -> None:
    net = network(regions=2, zones=2, racks=2, nodes=3)
    result = found(net)
    np.testing.assert_array_equal(result.classes, net.truth)
    assert (result.origins == Origin.MEASURED).all()
    assert np.isnan(np.diagonal(result.rtt_s)).all()
    for level, base_s in enumerate(BASES_S, start=1):
        assert result.centres_s[level] == pytest.approx(base_s, rel=0.2)


def test_sparse_pings_and_labels_give_the_whole_matrix() -> None:
    net = network(regions=1, zones=3, racks=4, nodes=6)
    result = found(net, net.names(), share=0.15)
    np.testing.assert_array_equal(result.classes, net.truth)
    assert {Origin.MEASURED, Origin.LINKED} <= set(result.origins.ravel().tolist())
    np.testing.assert_array_equal(result.classes, result.classes.T)
    off_diagonal = ~np.eye(net.size, dtype=np.bool_)
    assert (result.rtt_s[off_diagonal] > 0.0).all()


def test_sparse_pings_without_labels_are_mostly_right_and_never_too_near() -> None:
    net = network(regions=1, zones=3, racks=4, nodes=6)
    result = found(net, share=0.3)
    assert (result.classes == net.truth).mean() > 0.98
    known = result.classes != UNKNOWN_DISTANCE
    assert (result.classes[known] >= net.truth[known]).all()


def test_labels_name_the_modes() -> None:
    net = network(zones=2, racks=1, nodes=4)  # two modes; without labels the nearest is called a rack
    assert set(np.unique(found(net).classes)) == {0, 1, 2}
    only_zones = NamedPlaces(zones=net.zones, racks=np.full(net.size, -1))
    flat = (250e-6, 250e-6, 900e-6, 900e-6)
    labelled = found(net, only_zones, bases_s=flat)
    zone = net.zones[:, None] == net.zones[None, :]
    expected = np.where(zone, DistanceClass.SAME_ZONE, DistanceClass.OTHER_ZONE)
    np.fill_diagonal(expected, DistanceClass.SAME_NODE)
    np.testing.assert_array_equal(labelled.classes, expected)


def test_without_a_measurement_labels_are_taken_at_their_word() -> None:
    net = network(zones=2, racks=2, nodes=2)
    silent = estimate_rtt(samples(), net.size, now_s=NOW_S)
    result = estimate_distances(silent, places=net.names(), rule=MODES)
    np.testing.assert_array_equal(result.classes, net.truth)
    assert (result.origins[result.classes > 0] == Origin.LABELLED).all()
    assert np.isnan(result.rtt_s).all()
    blind = estimate_distances(silent, rule=MODES)
    off_diagonal = ~np.eye(net.size, dtype=np.bool_)
    assert (blind.classes[off_diagonal] == UNKNOWN_DISTANCE).all()
    assert (blind.origins[off_diagonal] == Origin.UNKNOWN).all()


@pytest.mark.parametrize("node_count", [0, 1])
def test_no_node_and_one_node(node_count: int) -> None:
    alone = estimate_rtt(samples(), node_count, now_s=NOW_S)
    result = estimate_distances(alone, rule=MODES)
    assert result.classes.shape == (node_count, node_count)
    assert (result.classes == DistanceClass.SAME_NODE).all()
    assert misleading_pairs(alone, names_of(node_count), rule=MODES).first.size == 0


def names_of(node_count: int) -> NamedPlaces:
    """All nodes in one zone, without racks."""
    return NamedPlaces(zones=np.zeros(node_count, np.int64), racks=np.full(node_count, -1))


def test_a_node_with_a_wrong_zone_label_is_found_where_it_is() -> None:
    net = network(zones=2, racks=1, nodes=8)
    flat = (250e-6, 250e-6, 900e-6, 900e-6)
    lying = NamedPlaces(zones=np.where(np.arange(net.size) == 0, 1, net.zones), racks=np.full(net.size, -1))
    estimates = estimated(net, share=0.25, bases_s=flat)
    result = estimate_distances(estimates, places=lying, rule=MODES)
    assert Origin.LINKED in result.origins[0, 8:]
    assert (result.classes[0, 1:8] == DistanceClass.SAME_ZONE).all()
    assert (result.classes[0, 8:] == DistanceClass.OTHER_ZONE).all()
    misleading = misleading_pairs(estimates, lying, rule=MODES)
    measured = set(zip(estimates.first.tolist(), estimates.second.tolist(), strict=True))
    expected = {(0, other) for other in range(8, 16)} & measured
    assert set(zip(misleading.first.tolist(), misleading.second.tolist(), strict=True)) == expected
    assert (misleading.claimed == DistanceClass.SAME_ZONE).all()
    assert (np.diff(misleading.excess) <= 0.0).all()
    assert misleading.excess[-1] == pytest.approx(3.6, rel=0.2)


def test_one_wrong_near_pair_does_not_merge_two_zones() -> None:
    net = network(zones=2, racks=1, nodes=6)
    pairs = [
        (one, other) for one in range(12) for other in range(one) if (one, other) not in {(7, 1), (3, 2)}
    ]
    rows = [(one, other, 250e-6 if (one < 6) == (other < 6) else 900e-6) for one, other in pairs]
    wrong = estimate_rtt(samples(*rows, (6, 0, 250e-6)), 12, now_s=NOW_S)
    only_zones = NamedPlaces(zones=net.zones, racks=np.full(12, -1))
    result = estimate_distances(wrong, places=only_zones, rule=MODES)
    assert result.classes[6, 0] == DistanceClass.SAME_ZONE  # what was measured stands
    assert result.classes[7, 1] == DistanceClass.OTHER_ZONE
    assert result.classes[3, 2] == DistanceClass.SAME_ZONE
    blind = estimate_distances(wrong, rule=MODES)
    assert blind.classes[7, 1] == blind.classes[7, 2]  # without labels rather too far than too near


def test_racks_may_be_numbered_anew_in_every_zone() -> None:
    places = NamedPlaces(zones=np.array([0, 0, 1, -1]), racks=np.array([0, 0, 0, 0]))
    first, second = np.array([0, 0, 0]), np.array([1, 2, 3])
    assert places.claimed(first, second).tolist() == [
        DistanceClass.SAME_RACK,
        DistanceClass.OTHER_ZONE,
        DistanceClass.SAME_RACK,
    ]


def test_racks_of_one_zone_that_differ_by_eight_mislead() -> None:
    net = network(zones=1, racks=2, nodes=6)
    estimates = estimated(net, bases_s=(50e-6, 400e-6, 1e-3, 1e-2))
    misleading = misleading_pairs(estimates, names_of(net.size), rule=MODES)
    assert misleading.first.size == 36  # every pair across the racks
    assert (net.racks[misleading.first] != net.racks[misleading.second]).all()
    told = NamedPlaces(zones=net.zones, racks=net.racks)
    assert (
        misleading_pairs(estimates, told, rule=MODES).first.size == 0
    )  # racks that have a name promise less
    with pytest.raises(InvalidInput, match="excess 1"):
        misleading_pairs(estimates, told, rule=MODES, excess=1.0)


def test_one_pair_that_is_oddly_near_promises_nothing_for_the_others() -> None:
    random = np.random.default_rng(4)
    pairs = [(one, other) for one in range(20) for other in range(one)]
    rows = [(one, other, 300e-6 * random.uniform(0.9, 1.1)) for one, other in pairs[1:]]
    odd = estimate_rtt(samples((1, 0, 5e-6), *rows), 20, now_s=NOW_S)
    assert misleading_pairs(odd, names_of(20), rule=MODES).first.size == 0


def test_labels_of_another_cluster_are_refused() -> None:
    estimates = estimated(network())
    with pytest.raises(InvalidInput, match="there are 30 nodes"):
        estimate_distances(estimates, places=names_of(3), rule=MODES)
    with pytest.raises(InvalidInput, match="5 modes"):
        estimate_distances(estimates, rule=ModeRule(most_modes=5))


def test_a_thousand_nodes_with_sparse_pings() -> None:
    net = network(regions=1, zones=4, racks=10, nodes=25)
    result = found(net, net.names(), share=0.02, rounds=3)
    assert result.classes.shape == (1000, 1000)
    assert (result.classes == net.truth).mean() > 0.999
