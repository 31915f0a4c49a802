"""Nodes for which other pods are nominated: judged with those of no lower priority, and without them."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from stowplan.core.constraints import CompiledFilters
from stowplan.core.domain import (
    BoundPod,
    ClusterState,
    LabelSelector,
    NodeSet,
    NominationRemoved,
    Operator,
    PendingTask,
    Phase,
    PodAffinityTerm,
    PodBound,
    PodNominated,
    PodShape,
    Requirement,
    Task,
    WeightedPodAffinityTerm,
    Workflow,
    WorkflowProgress,
    WorkProfile,
)
from stowplan.core.policy import CycleView
from stowplan.core.policy.kube import KubeScoring
from stowplan.errors import StateConflict
from stowplan.kube.manifest import feasible_report, load_objects

Object = dict[str, Any]


def node(name: str, cpu: str = "4", **labels: str) -> Object:
    allocatable = {"cpu": cpu, "memory": "8Gi", "pods": "10"}
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
        "status": {"allocatable": allocatable},
    }


def pod(name: str, cpu: str = "3", *, on: str = "", nominated: str = "", **spec: object) -> Object:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    metadata: Object = {"name": name, "namespace": "x", "uid": name, "labels": {"app": name[0]}}
    made: Object = {"kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}
    if on:
        made["spec"]["nodeName"] = on
    if nominated:
        made["status"] = {"nominatedNodeName": nominated}
    return made


def refused(*objects: Object) -> dict[str, dict[str, str]]:
    """Return by pod the refused nodes with the filter that is named."""
    loaded = load_objects(objects)
    report: Any = feasible_report(loaded.state, loaded.pending)
    return {
        key.removeprefix("x/"): {name: one["filter"] for name, one in answer["refused"].items()}
        for key, answer in report["pods"].items()
    }


def test_a_nominated_pod_holds_its_room_against_pods_of_no_higher_priority() -> None:
    given = [node("n"), pod("first", nominated="n", priority=5)]
    assert refused(*given, pod("equal", priority=5))["equal"] == {"n": "NodeResourcesFit"}
    assert refused(*given, pod("lower", priority=1))["lower"] == {"n": "NodeResourcesFit"}
    assert refused(*given, pod("higher", priority=6))["higher"] == {}
    assert refused(*given, pod("tiny", "500m", priority=1))["tiny"] == {}


def test_it_does_not_stand_in_its_own_way() -> None:
    answers = refused(node("n"), pod("a", nominated="n"), pod("b", nominated="n"))
    assert answers == {"a": {"n": "NodeResourcesFit"}, "b": {"n": "NodeResourcesFit"}}
    assert refused(node("n"), pod("a", nominated="n"), node("other"))["a"] == {}


def test_affinity_to_a_nominated_pod_is_not_met_yet() -> None:
    """It may end up elsewhere: so the second pass, without it, refuses."""
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "f"}}}
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    away = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    given = [node("n"), node("m"), pod("first", "1", nominated="n")]
    assert refused(*given, pod("near", "1", affinity=near))["near"] == dict.fromkeys("nm", "InterPodAffinity")
    assert refused(*given, pod("away", "1", affinity=away))["away"] == {"n": "InterPodAffinity"}


def test_ports_and_spread_see_it() -> None:
    port = [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]
    holder = {**pod("first", nominated="n"), "spec": {"containers": port}}
    wanting = {**pod("second"), "spec": {"containers": port}}
    assert refused(node("n"), node("m"), holder, wanting)["second"] == {"n": "NodePorts"}
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "s"}},
    }
    given = [
        node("n"),
        node("m"),
        pod("s1", "1", nominated="n"),
        pod("s2", "1", on="n"),
        pod("s3", "1", on="m"),
    ]
    answers = refused(*given, pod("s4", "1", topologySpreadConstraints=[spread]))
    assert answers["s4"] == {"n": "PodTopologySpread"}


def test_the_reason_names_who_goes_first() -> None:
    loaded = load_objects([node("n"), pod("first", nominated="n"), pod("second")])
    compiled = CompiledFilters(loaded.state, loaded.pending[1].shape)
    assert compiled.reason(loaded.state.row("n")) == (
        "would be refused beside the pods that are nominated for this node and go first: x/first"
    )


def test_nominations_come_and_go() -> None:
    loaded = load_objects([node("n"), node("m")])
    state: ClusterState = loaded.state
    big = load_objects([pod("q")]).pending[0].shape
    compiled = CompiledFilters(state, big)

    def feasible() -> set[str]:
        compiled.refresh()
        return {name for name, row in state.rows() if compiled.feasible[row]}

    assert feasible() == {"n", "m"}
    state.apply(PodNominated(BoundPod("a", big), "n"))
    assert feasible() == {"m"}
    state.apply(PodNominated(BoundPod("a", big), "m"))  # in place of the first
    assert feasible() == {"n"}
    state.apply(PodNominated(BoundPod("b", big), "later"))  # a node that is not there yet
    assert feasible() == {"n"}
    state.apply(NominationRemoved("a"))
    assert feasible() == {"n", "m"}
    state.apply(PodNominated(BoundPod("a", big), "n"))
    state.apply(PodBound(BoundPod("a", PodShape()), "m"))  # bound, and so promised no node any more
    assert feasible() == {"n", "m"}
    later = load_objects([node("later")]).state
    state.apply(NodeSet(later.node(later.row("later"))))
    assert feasible() == {"n", "m"}
    assert state.copy().nominations.node_of("b") == "later"


def test_contradictions_are_refused() -> None:
    state = load_objects([node("n"), pod("a", on="n")]).state
    with pytest.raises(StateConflict, match="'x/a' is bound already"):
        state.apply(PodNominated(BoundPod("x/a", PodShape()), "n"))
    with pytest.raises(StateConflict, match="'x/b' is not nominated"):
        state.apply(NominationRemoved("x/b"))


def scores(state: ClusterState, shape: PodShape) -> dict[str, float]:
    """Return kube-scheduler's totals of the feasible nodes, by our policy of that name."""
    task = Task("t", shape, WorkProfile((Phase(1.0),)), 1.0)
    pending = PendingTask("t", WorkflowProgress("w", Workflow("w", (task,)), 0.0), 0, 0.0)
    rule = KubeScoring()
    rule.begin(CycleView(state, 0.0, [pending], np.random.default_rng(0)))
    compiled = CompiledFilters(state, shape)
    totals = rule.scores(pending, compiled)
    return {name: float(totals[row]) for name, row in state.rows() if compiled.feasible[row]}


def test_kube_scheduler_sends_a_pod_to_the_node_that_it_is_promised_while_that_is_feasible() -> None:
    given = [node("small"), node("large", "64")]
    loaded = load_objects([*given, pod("a", nominated="small")])
    assert scores(loaded.state, loaded.pending[0].shape) == {"small": 0.0, "large": -np.inf}
    loaded = load_objects([*given, pod("a", nominated="small"), pod("b", on="small")])
    assert scores(loaded.state, loaded.pending[0].shape)["large"] > 0
    loaded = load_objects([*given, pod("a", nominated="gone")])
    totals = scores(loaded.state, loaded.pending[0].shape)
    assert totals["large"] > totals["small"] > 0


def test_a_namespace_that_is_not_known_has_no_labels_for_the_terms_of_bound_pods_only() -> None:
    """The API server knows all; a watch may be late."""
    shape = load_objects([pod("a", "1")]).pending[0].shape
    selector = LabelSelector((Requirement("team", Operator.DOES_NOT_EXIST),))
    term = PodAffinityTerm("kubernetes.io/hostname", LabelSelector(), namespace_selector=selector)
    drawn = dataclasses.replace(shape, preferred_affinity=(WeightedPodAffinityTerm(100, term),))

    def lead_of_n(bound: PodShape, waiting: PodShape) -> float:
        state = load_objects([node("n"), node("m")]).state
        assert "x" not in state.namespaces
        state.apply(PodBound(BoundPod("bound", bound), "n"))
        totals = scores(state, waiting)
        return totals["n"] - totals["m"]

    plain = lead_of_n(shape, shape)
    assert lead_of_n(drawn, shape) == plain + 200
    assert lead_of_n(shape, drawn) == plain
