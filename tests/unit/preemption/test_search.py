"""How far is looked, and who may look at all."""

from random import Random

import pytest

from stowplan.core.constraints import CompiledFilters
from stowplan.core.domain import ClusterState, NodeSet, PodNominated, Resources
from stowplan.core.domain.events import BoundPod
from stowplan.core.domain.node import Node
from stowplan.core.preemption import Search, SearchSettings, search, why_not_eligible
from tests.preemption_cases import bound, budget, cluster, filters, started, wants


class Fixed(Random):
    """A generator whose offset is known."""

    def __init__(self, offset: int) -> None:
        super().__init__(0)
        self._offset = offset

    def randrange(self, *_: object) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self._offset


def crowded(nodes: int) -> ClusterState:
    return cluster({f"n{number}": [bound(f"p{number}", 1000, number % 3)] for number in range(nodes)})


def looked(state: ClusterState, compiled: CompiledFilters, settings: SearchSettings, offset: int) -> Search:
    return search(state, compiled, [], started(), settings=settings, generator=Fixed(offset))


@pytest.mark.parametrize(
    ("settings", "nodes", "expected"),
    [
        (SearchSettings(), 50, 50),
        (SearchSettings(), 101, 100),
        (SearchSettings(), 5000, 500),
        (SearchSettings(percent_of_nodes=3, minimum_nodes=1), 199, 5),
        (SearchSettings(examines_all=True), 5000, 5000),
    ],
)
def test_how_many_candidates_are_enough(settings: SearchSettings, nodes: int, expected: int) -> None:
    assert settings.candidates_of(nodes) == expected


def test_it_begins_at_the_offset_goes_round_and_stops_when_there_are_enough() -> None:
    state = crowded(10)
    compiled = filters(state, wants(500))
    few = SearchSettings(percent_of_nodes=0, minimum_nodes=4)
    found = looked(state, compiled, few, 8)
    assert [one.node_name for one in found.candidates] == ["n8", "n9", "n0", "n1"]
    assert (found.potential, found.examined) == (10, 4)
    assert found.best is not None
    assert found.best.node_name == "n9"
    everywhere = looked(state, compiled, SearchSettings(examines_all=True), 8)
    assert everywhere.examined == 10


def test_it_goes_on_while_every_candidate_breaks_a_budget() -> None:
    state = crowded(10)
    compiled = filters(state, wants(500))
    kept = [budget("p", 0)]
    few = SearchSettings(percent_of_nodes=0, minimum_nodes=2)
    found = search(state, compiled, kept, started(), settings=few, generator=Fixed(0))
    assert found.examined == 10
    assert len(found.candidates) == 10
    disrupted = [budget("p", 0, "p5")]
    found = search(state, compiled, disrupted, started(), settings=few, generator=Fixed(0))
    assert found.examined == 6
    assert found.candidates[0].node_name == "n5"
    assert found.best is found.candidates[0]


def test_nodes_on_which_fewer_pods_are_no_help_are_not_tried() -> None:
    state = crowded(3)
    small = Node("small", Resources({"cpu": 100, "pods": 10}))
    cordoned = Node("cordoned", Resources({"cpu": 1000, "pods": 10}), unschedulable=True)
    for node in (small, cordoned):
        state.apply(NodeSet(node))
    compiled = filters(state, wants(500))
    found = looked(state, compiled, SearchSettings(), 0)
    assert (found.potential, found.examined) == (3, 3)
    nobody = looked(state, filters(state, wants(5000)), SearchSettings(), 0)
    assert nobody == Search(None, (), 0, 0)
    in_vain = looked(state, filters(state, wants(500, 0)), SearchSettings(), 0)
    assert (in_vain.best, in_vain.potential) == (None, 3)


def why_not(state: ClusterState, nominated: str = "", *leaving: str, can_preempt: bool = True) -> str:
    return why_not_eligible(
        state,
        filters(state, wants(500, own_nomination="default/me" if nominated else "")),
        can_preempt=can_preempt,
        nominated=nominated,
        is_leaving=lambda key: key.partition("/")[2] in leaving,
    )


def test_who_may_preempt() -> None:
    state = cluster({"n": [bound("a", 500), bound("b", 500, 100)], "m": [bound("c", 1000)]})
    state.apply(PodNominated(BoundPod("default/me", wants(500, own_nomination="default/me")), "n"))
    assert why_not(state) == ""
    assert why_not(state, can_preempt=False) == "preemptionPolicy is Never"
    assert why_not(state, "n") == ""
    assert "a is still being ended on node n" in why_not(state, "n", "a")
    assert why_not(state, "n", "b", "c") == ""  # one is none of its victims, the other elsewhere
    assert why_not(state, "gone", "a") == ""


def test_a_node_that_can_never_take_it_is_not_waited_for() -> None:
    state = cluster({"n": [bound("a", 1000)]})
    assert why_not(state, "n", "a")
    old = state.node(0)
    state.apply(NodeSet(Node("n", old.allocatable, unschedulable=True)))
    assert why_not(state, "n", "a") == ""
