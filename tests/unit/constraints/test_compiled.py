"""Compiled filters, by hand: order, reasons, counts, and what can never fit."""

import dataclasses

import numpy as np
import pytest

from stowplan.core.constraints import FILTERS, CompiledFilters
from stowplan.core.domain import (
    BoundPod,
    ClusterState,
    Gpu,
    GpuRequest,
    Hardware,
    HostPort,
    LabelSelector,
    NamespaceSet,
    Node,
    NodeSet,
    PodAffinityTerm,
    PodBound,
    PodRemoved,
    PodShape,
    Requirement,
    Resources,
    SpreadConstraint,
    Taint,
    TaintEffect,
    Toleration,
    TolerationOperator,
    WhenUnsatisfiable,
)
from stowplan.core.domain.selectors import Operator

EVERY = "0.0.0.0"  # noqa: S104  (a value of the API, nothing is bound)
HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
APP = LabelSelector.from_labels({"app": "x"})
LABELS = (("app", "x"),)


def cluster(count: int = 3, **changes: object) -> ClusterState:
    state = ClusterState()
    for number in range(count):
        node = Node(
            f"n{number}",
            Resources({"cpu": 4000, "memory": 1000, "pods": 3}),
            labels=((HOST, f"n{number}"), (ZONE, f"z{number % 2}")),
        )
        state.apply(NodeSet(dataclasses.replace(node, **changes)))
    return state


def names(state: ClusterState, compiled: CompiledFilters) -> list[str]:
    return sorted(name for name, row in state.rows() if compiled.feasible[row])


def bind(state: ClusterState, key: str, shape: PodShape, node: str, gpus: tuple[int, ...] = ()) -> None:
    state.apply(PodBound(BoundPod(key, shape, gpus), node))


def test_rows_without_a_node_are_neither_feasible_nor_refused() -> None:
    state = cluster(1)
    compiled = CompiledFilters(state, PodShape())
    assert compiled.feasible.sum() == 1
    assert (compiled.refused_by == -1).sum() == state.capacity - 1
    assert compiled.counts() == {}


def test_the_first_filter_in_order_is_reported() -> None:
    state = cluster(1, unschedulable=True, taints=(Taint("t", "v", TaintEffect.NO_SCHEDULE),))
    shape = PodShape(requests=Resources({"cpu": 5000}), node_name="elsewhere")
    compiled = CompiledFilters(state, shape)
    assert compiled.all_refusing(0) == (
        "NodeName",
        "NodeUnschedulable",
        "TaintToleration",
        "NodeResourcesFit",
    )
    assert FILTERS[compiled.refused_by[0] - 1] == "NodeName"
    assert compiled.counts() == {"NodeName": 1}


def test_reasons_say_what_and_how_much() -> None:
    state = cluster(1)
    bind(state, "default/a", PodShape(requests=Resources({"cpu": 3500})), "n0")
    compiled = CompiledFilters(state, PodShape(requests=Resources({"cpu": 2000})))
    assert compiled.reason(0) == "Insufficient cpu: requests 2, free 500m of 4"
    state = cluster(1, taints=(Taint("gpu", "a", TaintEffect.NO_EXECUTE),))
    assert CompiledFilters(state, PodShape()).reason(0) == "untolerated taint gpu=a:NoExecute"
    selector = PodShape(node_selector=(Requirement("disk", Operator.IN, ("ssd",)),))
    reason = CompiledFilters(cluster(1), selector).reason(0)
    assert reason == "nodeSelector wants disk = ssd; the node lacks the label"


def test_a_request_of_zero_fits_a_node_that_is_overcommitted() -> None:
    state = cluster(1)
    bind(state, "a", PodShape(requests=Resources({"cpu": 5000})), "n0")
    assert names(state, CompiledFilters(state, PodShape(requests=Resources({"cpu": 0})))) == ["n0"]
    assert names(state, CompiledFilters(state, PodShape(requests=Resources({"cpu": 1})))) == []


def test_the_pod_count_is_a_resource_of_every_pod() -> None:
    state = cluster(1)
    compiled = CompiledFilters(state, PodShape())
    for number in range(3):
        bind(state, f"p{number}", PodShape(), "n0")
    assert compiled.refresh() is not None
    assert names(state, compiled) == []
    assert compiled.reason(0) == "Too many pods: the node takes 3 and has 3"
    assert compiled.could_ever_fit()


@pytest.mark.parametrize(
    ("operator", "tolerated"),
    [(TolerationOperator.GT, False), (TolerationOperator.LT, False), (TolerationOperator.EXISTS, True)],
)
def test_numeric_tolerations_tolerate_nothing_while_their_gate_is_off(
    operator: TolerationOperator, tolerated: bool
) -> None:
    state = cluster(1, taints=(Taint("n", "5", TaintEffect.NO_SCHEDULE),))
    shape = PodShape(tolerations=(Toleration("n", operator, "" if tolerated else "4"),))
    assert CompiledFilters(state, shape).feasible.any() == tolerated


@pytest.mark.parametrize(
    ("held", "wanted", "conflicts"),
    [
        (EVERY, "10.0.0.1", True),
        ("10.0.0.1", EVERY, True),
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("::", "10.0.0.1", False),
    ],
)
def test_host_ports_conflict_by_address(held: str, wanted: str, conflicts: bool) -> None:
    state = cluster(2)
    compiled = CompiledFilters(state, PodShape(host_ports=(HostPort("TCP", wanted, 80),)))
    bind(state, "default/a", PodShape(host_ports=(HostPort("TCP", held, 80),)), "n0")
    bind(state, "default/b", PodShape(host_ports=(HostPort("UDP", held, 80),)), "n1")
    compiled.refresh()
    assert names(state, compiled) == (["n1"] if conflicts else ["n0", "n1"])
    if conflicts:
        assert compiled.reason(0) == "host port 80/TCP is taken by pod default/a"
    state.apply(PodRemoved("default/a"))
    compiled.refresh()
    assert names(state, compiled) == ["n0", "n1"]


def test_spread_waits_for_the_emptiest_domain() -> None:
    state = cluster(4)
    spread = SpreadConstraint(1, ZONE, WhenUnsatisfiable.DO_NOT_SCHEDULE, APP)
    shape = PodShape(labels=LABELS, spread=(spread,))
    compiled = CompiledFilters(state, shape)
    bind(state, "a", shape, "n0")
    compiled.refresh()
    assert names(state, compiled) == ["n1", "n3"]
    assert "maxSkew 1" in (compiled.reason(0) or "")
    bind(state, "b", shape, "n3")
    assert compiled.refresh() is not None
    assert names(state, compiled) == ["n0", "n1", "n2", "n3"]
    few = dataclasses.replace(shape, spread=(dataclasses.replace(spread, min_domains=3),))
    assert names(state, CompiledFilters(state, few)) == []
    assert CompiledFilters(state, few).could_ever_fit()


def test_an_empty_spread_selector_counts_nothing_and_terminating_pods_do_not_count() -> None:
    state = cluster(2)
    everything = SpreadConstraint(1, HOST, WhenUnsatisfiable.DO_NOT_SCHEDULE, LabelSelector())
    for key in ("a", "b"):
        bind(state, key, PodShape(labels=LABELS), "n0")
    assert names(state, CompiledFilters(state, PodShape(labels=LABELS, spread=(everything,)))) == ["n0", "n1"]
    ours = dataclasses.replace(everything, selector=APP)
    assert names(state, CompiledFilters(state, PodShape(labels=LABELS, spread=(ours,)))) == ["n1"]
    state.apply(PodRemoved("a"))
    state.apply(PodRemoved("b"))
    compiled = CompiledFilters(state, PodShape(labels=LABELS, spread=(ours,)))
    state.apply(PodBound(BoundPod("a", PodShape(labels=LABELS), is_terminating=True), "n0"))
    compiled.refresh()
    assert names(state, compiled) == ["n0", "n1"]
    assert names(state, CompiledFilters(state, PodShape(labels=LABELS, spread=(ours,)))) == ["n0", "n1"]


def test_the_first_pod_of_a_group_may_start_anywhere_the_second_joins_it() -> None:
    state = cluster(4)
    shape = PodShape(labels=LABELS, affinity=(PodAffinityTerm(ZONE, APP),))
    stranger = dataclasses.replace(shape, labels=())
    compiled, alone = CompiledFilters(state, shape), CompiledFilters(state, stranger)
    assert names(state, compiled) == ["n0", "n1", "n2", "n3"]
    assert names(state, alone) == []
    bind(state, "a", shape, "n1")
    assert compiled.refresh() is None
    alone.refresh()
    assert names(state, compiled) == names(state, alone) == ["n1", "n3"]
    state.apply(PodRemoved("a"))
    compiled.refresh()
    assert names(state, compiled) == ["n0", "n1", "n2", "n3"]


def test_anti_affinity_works_from_both_sides() -> None:
    state = cluster(4)
    plain = PodShape(labels=LABELS)
    hermit = PodShape(anti_affinity=(PodAffinityTerm(ZONE, APP),))
    shy, visitor = CompiledFilters(state, hermit), CompiledFilters(state, plain)
    bind(state, "a", plain, "n0")
    bind(state, "h", hermit, "n1")
    shy.refresh()
    visitor.refresh()
    assert names(state, shy) == ["n1", "n3"]
    assert names(state, visitor) == ["n0", "n2"]
    assert "anti-affinity excludes" in (visitor.reason(1) or "")


def test_a_namespace_selector_sees_only_namespaces_that_exist_from_its_own_side() -> None:
    state = cluster(2)
    selector = LabelSelector((Requirement("team", Operator.DOES_NOT_EXIST),))
    term = PodAffinityTerm(HOST, APP, namespace_selector=selector)
    ours = CompiledFilters(state, PodShape(anti_affinity=(term,)))
    theirs = CompiledFilters(state, PodShape(namespace="unknown", labels=LABELS))
    bind(state, "u", PodShape(namespace="unknown", labels=LABELS), "n0")
    bind(state, "o", PodShape(anti_affinity=(term,)), "n1")
    ours.refresh()
    theirs.refresh()
    assert names(state, ours) == ["n0", "n1"]
    assert names(state, theirs) == ["n0"]


def test_shared_gpus() -> None:
    state = cluster(2, hardware=Hardware(gpus=(Gpu("A"), Gpu("A"))))
    half = PodShape(gpu=GpuRequest(1, 600))
    compiled = CompiledFilters(state, half)
    bind(state, "a", half, "n0", (0,))
    bind(state, "b", half, "n0", (1,))
    compiled.refresh()
    assert names(state, compiled) == ["n1"]
    assert compiled.reason(0) == "wants 1 GPU(s) with 600/1000 free each; the node has A with 400, 400 free"
    assert not CompiledFilters(state, PodShape(gpu=GpuRequest(3))).could_ever_fit()
    assert not CompiledFilters(state, PodShape(gpu=GpuRequest(1, 100, ("B",)))).could_ever_fit()


def test_what_never_fits_and_what_only_waits() -> None:
    state = cluster(2)
    bind(state, "a", PodShape(requests=Resources({"cpu": 4000})), "n0")
    bind(state, "b", PodShape(requests=Resources({"cpu": 4000})), "n1")
    fits_later = CompiledFilters(state, PodShape(requests=Resources({"cpu": 4000})))
    assert not fits_later.feasible.any()
    assert fits_later.could_ever_fit()
    assert not CompiledFilters(state, PodShape(requests=Resources({"cpu": 4001}))).could_ever_fit()
    assert not CompiledFilters(state, PodShape(requests=Resources({"example.com/x": 1}))).could_ever_fit()
    assert CompiledFilters(state, PodShape(scheduling_gates=("wait",))).could_ever_fit()
    assert not CompiledFilters(state, PodShape(scheduling_gates=("wait",))).feasible.any()
    assert not CompiledFilters(state, PodShape(resource_claims=("gpu",))).could_ever_fit()
    assert not CompiledFilters(ClusterState(), PodShape()).could_ever_fit()


def test_refresh_says_which_rows_it_looked_at() -> None:
    state = cluster(3)
    compiled = CompiledFilters(state, PodShape())
    assert compiled.refresh() is not None
    assert len(compiled.refresh()) == 0  # pyright: ignore[reportArgumentType]
    bind(state, "a", PodShape(), "n1")
    assert np.array_equal(compiled.refresh(), [state.row("n1")])  # pyright: ignore[reportArgumentType]


def test_many_nodes_more_than_there_was_room_for() -> None:
    state = cluster(3)
    compiled = CompiledFilters(state, PodShape())
    for number in range(40):
        state.apply(NodeSet(Node(f"m{number}", Resources({"pods": 1}))))
    assert compiled.refresh() is None
    assert int(compiled.feasible.sum()) == 43
    assert len(compiled.feasible) == state.capacity


def test_features_that_a_node_does_not_declare() -> None:
    state = cluster(2)
    state.apply(NodeSet(Node("f", Resources({"pods": 1}), declared_features=("VolumeBindMountOptions",))))
    compiled = CompiledFilters(state, PodShape(required_features=("VolumeBindMountOptions",)))
    assert names(state, compiled) == ["f"]
    assert compiled.counts() == {"NodeDeclaredFeatures": 2}


def test_a_namespace_that_gets_labels_changes_who_repels() -> None:
    state = cluster(2)
    red = LabelSelector.from_labels({"team": "red"})
    hermit = PodShape(namespace="h", anti_affinity=(PodAffinityTerm(HOST, APP, namespace_selector=red),))
    visitor = CompiledFilters(state, PodShape(namespace="v", labels=LABELS))
    for batch in range(
        2
    ):  # many changes at once, so that they are digested; the digest starts with the second
        bind(state, f"h{batch}", hermit, "n0")
        for number in range(12):
            bind(state, f"p{batch}-{number}", PodShape(namespace=f"x{number}"), "n1")
        visitor.refresh()
        assert "InterPodAffinity" not in visitor.all_refusing(0)
    state.apply(NamespaceSet("v", (("team", "red"),)))
    assert visitor.refresh() is None
    assert "InterPodAffinity" in visitor.all_refusing(0)
    for key in list(state.pods):
        state.apply(PodRemoved(key))
    visitor.refresh()
    assert visitor.all_refusing(0) == ()
