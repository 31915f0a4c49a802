"""kube-scheduler's scores, cached and incremental, equal a plain evaluation after any history of events."""

import importlib.util
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.core.domain import (
    HOSTNAME_LABEL,
    ZONE_LABEL,
    BoundPod,
    ClusterState,
    LabelSelector,
    NamespaceSet,
    Node,
    NodeAffinity,
    NodeSelectorTerm,
    NodeSet,
    Operator,
    PodAffinityTerm,
    PodBound,
    PodRemoved,
    PodShape,
    PreferredNodeTerm,
    Requirement,
    Resources,
    SpreadConstraint,
    Taint,
    TaintEffect,
    Toleration,
    TolerationOperator,
    WeightedPodAffinityTerm,
    WhenUnsatisfiable,
    freeze_labels,
)
from stowplan.core.policy import CycleView
from stowplan.core.policy.kube import KubeScoring

_spec = importlib.util.spec_from_file_location(
    "kube_reference", Path(__file__).with_name("kube_reference.py")
)
assert _spec is not None
assert _spec.loader is not None
kube_reference = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(kube_reference)

MIB = 1024 * 1024
ZONES = ["a", "b", None]
APPS = ["web", "db"]
NAMESPACES = ["default", "other"]


@st.composite
def nodes(draw: st.DrawFn, name: str) -> Node:
    labels = {HOSTNAME_LABEL: name, "disk": draw(st.sampled_from(["ssd", "hdd"]))}
    zone = draw(st.sampled_from(ZONES))
    if zone is not None:
        labels[ZONE_LABEL] = zone
    taints = draw(
        st.lists(
            st.builds(
                Taint,
                st.sampled_from(["k", "l"]),
                st.sampled_from(["", "v"]),
                st.sampled_from([TaintEffect.PREFER_NO_SCHEDULE, TaintEffect.NO_SCHEDULE]),
            ),
            max_size=2,
        )
    )
    images = draw(st.lists(st.sampled_from(["img:1", "img:2"]), unique=True, max_size=2))
    return Node(
        name,
        Resources(
            {
                "cpu": draw(st.sampled_from([0, 3000, 8000])),
                "memory": draw(st.sampled_from([0, 4096 * MIB, 10000 * MIB])),
                "pods": 110,
            }
        ),
        labels=freeze_labels(labels),
        taints=tuple(taints),
        images=tuple((image, draw(st.sampled_from([30, 400, 3000])) * MIB) for image in images),
    )


selectors = st.sampled_from(
    [
        None,
        LabelSelector(),
        LabelSelector.from_labels({"app": "web"}),
        LabelSelector((Requirement("app", Operator.NOT_IN, ("web",)),)),
    ]
)
terms = st.builds(
    PodAffinityTerm,
    topology_key=st.sampled_from([HOSTNAME_LABEL, ZONE_LABEL, "disk"]),
    selector=selectors,
    namespaces=st.sampled_from([(), ("other",)]),
    namespace_selector=st.sampled_from(
        [None, None, LabelSelector(), LabelSelector.from_labels({"team": "x"})]
    ),
)
weighted = st.builds(WeightedPodAffinityTerm, st.integers(1, 100), terms)
constraints = st.builds(
    SpreadConstraint,
    max_skew=st.integers(1, 3),
    topology_key=st.sampled_from([HOSTNAME_LABEL, ZONE_LABEL]),
    when_unsatisfiable=st.sampled_from(list(WhenUnsatisfiable)),
    selector=selectors,
    honor_node_affinity=st.booleans(),
)
shapes = st.builds(
    PodShape,
    namespace=st.sampled_from(NAMESPACES),
    labels=st.sampled_from([(), *(freeze_labels({"app": app}) for app in APPS)]),
    requests=st.builds(
        lambda cpu, memory: Resources({"cpu": cpu, "memory": memory * MIB}),
        st.sampled_from([0, 100, 700]),
        st.sampled_from([0, 200, 900]),
    ),
    score_cpu_milli=st.sampled_from([100, 700]),
    score_memory_bytes=st.sampled_from([200 * MIB, 900 * MIB]),
    node_selector=st.sampled_from([(), (Requirement("disk", Operator.IN, ("ssd",)),)]),
    node_affinity=st.builds(
        NodeAffinity,
        preferred=st.lists(
            st.builds(
                PreferredNodeTerm,
                st.integers(1, 50),
                st.sampled_from(
                    [
                        NodeSelectorTerm(),
                        NodeSelectorTerm((Requirement("disk", Operator.IN, ("ssd",)),)),
                        NodeSelectorTerm((), (Requirement("metadata.name", Operator.IN, ("n1",)),)),
                    ]
                ),
            ),
            max_size=2,
        ).map(tuple),
    ),
    affinity=st.lists(terms, max_size=1).map(tuple),
    anti_affinity=st.lists(terms, max_size=1).map(tuple),
    preferred_affinity=st.lists(weighted, max_size=2).map(tuple),
    preferred_anti_affinity=st.lists(weighted, max_size=1).map(tuple),
    tolerations=st.lists(
        st.builds(
            Toleration,
            st.sampled_from(["", "k"]),
            st.just(TolerationOperator.EXISTS),
            st.just(""),
            st.sampled_from([None, TaintEffect.PREFER_NO_SCHEDULE, TaintEffect.NO_SCHEDULE]),
        ),
        max_size=1,
    ).map(tuple),
    spread=st.lists(constraints, max_size=2).map(tuple),
    images=st.lists(st.sampled_from(["img:1", "img:2", "img:3"]), max_size=2).map(tuple),
    default_spread_selector=selectors,
)


@settings(max_examples=120)
@given(data=st.data())
def test_cached_totals_equal_a_plain_evaluation_after_any_history(data: st.DataObject) -> None:
    state = ClusterState()
    state.apply(NamespaceSet("other", freeze_labels({"team": "x"})))
    names = [f"n{i}" for i in range(data.draw(st.integers(2, 6), label="nodes"))]
    for name in names:
        state.apply(NodeSet(data.draw(nodes(name))))
    kinds = data.draw(st.lists(shapes, min_size=2, max_size=4), label="shapes")
    scoring = KubeScoring()
    scoring.begin(CycleView(state, 0.0, [], np.random.default_rng(0)))
    feed = scoring.feed
    scores = [scoring._of(shape) for shape in kinds]
    bound: list[str] = []
    for step in range(data.draw(st.integers(1, 8), label="steps")):
        action = data.draw(st.sampled_from(["bind", "bind", "bind", "remove", "node"]), label="action")
        if action == "bind":
            key = f"p{step}"
            pod = BoundPod(key, data.draw(st.sampled_from(kinds)), is_terminating=data.draw(st.booleans()))
            state.apply(PodBound(pod, data.draw(st.sampled_from(names))))
            bound.append(key)
        elif action == "remove" and bound:
            state.apply(PodRemoved(bound.pop()))
        elif action == "node":
            state.apply(NodeSet(data.draw(nodes(data.draw(st.sampled_from(names))))))
        if data.draw(st.booleans(), label="looks"):
            feed.catch_up()
            for shape, score in zip(kinds, scores, strict=True):
                feasible = data.draw(
                    st.lists(st.sampled_from(names), unique=True, min_size=1), label="feasible"
                )
                mask = np.zeros(state.capacity, dtype=np.bool_)
                mask[[state.row(name) for name in feasible]] = True
                expected = kube_reference.totals(state, shape, feasible)
                total = score.total(mask)
                assert {name: int(total[state.row(name)]) for name in feasible} == expected
                for name in feasible:
                    constant = (
                        300 if score._taints is None else 0
                    )  # tells no nodes apart, so it is not a part
                    assert sum(score.parts(state.row(name)).values()) + constant == expected[name]
