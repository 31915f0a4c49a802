"""Distances do not depend on how nodes are numbered, on the unit of time, or on the order of samples."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from stowplan.core.semantics import (
    UNKNOWN_DISTANCE,
    DistanceClass,
    ModeRule,
    NamedPlaces,
    Origin,
    RttSamples,
    estimate_distances,
    estimate_rtt,
    misleading_pairs,
)

MODES = ModeRule()
Mesh = tuple[int, RttSamples, NamedPlaces]


@st.composite
def meshes(draw: st.DrawFn) -> Mesh:
    """Up to 14 nodes with labels that may lie, and random pings, some of them nonsense."""
    count, pings = draw(st.integers(0, 14)), draw(st.integers(0, 120))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    pings = pings if count else 0
    origins, targets = random.integers(0, max(count, 1), (2, pings))
    bases_s = np.array(draw(st.sampled_from([(1e-4, 1e-3, 1e-2), (1e-4,), (5e-5, 3e-4, 1e-3, 4e-2)])))
    kinds = np.abs(origins - targets) % bases_s.size
    rtt_s = bases_s[kinds] * random.lognormal(0.0, 0.1, pings)
    rtt_s[random.random(pings) < 0.05] = np.nan
    samples = RttSamples(
        origins=origins.astype(np.int64),
        targets=targets.astype(np.int64),
        rtt_s=rtt_s,
        times_s=random.uniform(0.0, 100.0, pings),
    )
    zones, racks = random.integers(-1, 3, (2, count))
    return count, samples, NamedPlaces(zones=zones.astype(np.int64), racks=racks.astype(np.int64))


@given(meshes())
def test_every_matrix_is_whole_and_symmetric(mesh: Mesh) -> None:
    count, samples, places = mesh
    estimates = estimate_rtt(samples, count, now_s=100.0)
    found = estimate_distances(estimates, places=places, rule=MODES)
    assert found.classes.shape == found.origins.shape == found.rtt_s.shape == (count, count)
    np.testing.assert_array_equal(found.classes, found.classes.T)
    np.testing.assert_array_equal(found.origins, found.origins.T)
    np.testing.assert_array_equal(found.rtt_s, found.rtt_s.T)
    np.testing.assert_array_equal(found.classes == DistanceClass.SAME_NODE, np.eye(count, dtype=np.bool_))
    np.testing.assert_array_equal(found.classes == UNKNOWN_DISTANCE, found.origins == Origin.UNKNOWN)
    assert (found.origins[estimates.first, estimates.second] == Origin.MEASURED).all()
    # Nearer classes have shorter round trips.
    measured = found.classes[estimates.first, estimates.second]
    for near, far in ((1, 2), (2, 3), (3, 4)):
        least, most = estimates.least_s[measured >= far], estimates.least_s[measured <= near]
        assert not least.size or not most.size or least.min() > most.max()


def renumbered(matrix: NDArray[np.generic], new: NDArray[np.int64]) -> NDArray[np.generic]:
    moved = np.empty_like(matrix)
    moved[np.ix_(new, new)] = matrix
    return moved


@given(meshes(), st.integers(0, 2**32 - 1))
def test_renumbering_nodes_renumbers_their_distances(mesh: Mesh, seed: int) -> None:
    count, samples, places = mesh
    random = np.random.default_rng(seed)
    new, order = random.permutation(count), random.permutation(samples.rtt_s.size)
    moved = RttSamples(
        origins=new[samples.origins][order],
        targets=new[samples.targets][order],
        rtt_s=samples.rtt_s[order],
        times_s=samples.times_s[order],
    )
    zones, racks = np.empty_like(places.zones), np.empty_like(places.racks)
    zones[new], racks[new] = places.zones, places.racks
    moved_places = NamedPlaces(zones=zones, racks=racks)
    before, after = (
        estimate_distances(estimate_rtt(pinged, count, now_s=100.0), places=named, rule=MODES)
        for pinged, named in ((samples, places), (moved, moved_places))
    )
    np.testing.assert_array_equal(after.classes, renumbered(before.classes, new))
    np.testing.assert_array_equal(after.origins, renumbered(before.origins, new))
    np.testing.assert_array_equal(after.rtt_s, renumbered(before.rtt_s, new))
    worst = [
        misleading_pairs(estimate_rtt(pinged, count, now_s=100.0), named, rule=MODES).excess.tolist()
        for pinged, named in ((samples, places), (moved, moved_places))
    ]
    assert worst[0] == worst[1]


@given(meshes(), st.sampled_from([2.0**-6, 0.25, 2.0, 64.0]))
def test_a_slower_network_has_the_same_classes(mesh: Mesh, scale: float) -> None:
    count, samples, places = mesh
    slower = replace(samples, rtt_s=samples.rtt_s * scale)
    before, after = (
        estimate_distances(estimate_rtt(pinged, count, now_s=100.0), places=places, rule=MODES)
        for pinged in (samples, slower)
    )
    np.testing.assert_array_equal(after.classes, before.classes)
