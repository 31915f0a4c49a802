"""Any events leave indexes that agree with the pods, and snapshots equal a state built afresh."""

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from stowplan.core.domain import (
    BoundPod,
    ClusterState,
    HostPort,
    LabelSelector,
    Node,
    NodeRemoved,
    NodeSet,
    PodAffinityTerm,
    PodBound,
    PodRemoved,
    PodShape,
    PodVolume,
    Resources,
    Snapshot,
    SnapshotPool,
    Taint,
    TaintEffect,
    validate_state,
)

names = st.integers(0, 30).map(lambda i: f"n{i}")
labels = st.dictionaries(st.sampled_from(["zone", "rack", "disk"]), st.sampled_from("abc")).map(
    lambda d: tuple(sorted(d.items()))
)
resources = st.dictionaries(
    st.sampled_from(["cpu", "memory", "x.io/a", "x.io/b"]), st.integers(0, 10**6)
).map(Resources)
taints = st.lists(st.builds(Taint, st.sampled_from("ab"), st.just(""), st.sampled_from(TaintEffect))).map(
    tuple
)
nodes = st.builds(Node, names, resources, labels, taints, st.booleans())
terms = st.builds(
    PodAffinityTerm, st.sampled_from(["zone", "rack"]), st.just(LabelSelector.from_labels({"app": "x"}))
)
shapes = st.builds(
    PodShape,
    namespace=st.sampled_from(["default", "team"]),
    labels=labels,
    requests=resources,
    affinity=st.lists(terms, max_size=1).map(tuple),
    anti_affinity=st.lists(terms, max_size=1).map(tuple),
    host_ports=st.lists(
        st.builds(HostPort, st.just("TCP"), st.just("127.0.0.1"), st.integers(1, 3)), max_size=2
    ).map(tuple),
    volumes=st.lists(st.builds(PodVolume, st.just("v"), st.sampled_from(["c1", "c2"])), max_size=1).map(
        tuple
    ),
)


def describe(state: ClusterState) -> dict[str, object]:
    """Everything a reader can see, by node name: independent of the order of rows and columns."""
    return {
        name: (
            state.node(row),
            {
                r: int(state.allocatable[row, c])
                for r, c in state.columns.items()
                if state.allocatable[row, c]
            },
            {r: int(state.requested[row, c]) for r, c in state.columns.items() if state.requested[row, c]},
            state.scored[row].tolist(),
            state.taint_sets[state.taint_set_ids[row]],
            {k: c.values[c.value_ids[row]] for k, c in state.labels.items() if c.value_ids[row] >= 0},
            sorted(state.pods_on[row]),
        )
        for name, row in sorted(state.rows())
    }


class Cluster(RuleBasedStateMachine):
    bound = Bundle("bound")
    known = Bundle("known")

    def __init__(self) -> None:
        super().__init__()
        self.pool = SnapshotPool()
        self.next_pod = 0
        self.kept: list[tuple[Snapshot, dict[str, object]]] = []

    @rule(target=known, node=nodes)
    def set_node(self, node: Node) -> str:
        self.pool.apply(NodeSet(node))
        return node.name

    @rule(target=bound, name=known, shape=shapes, terminating=st.booleans())
    def bind(self, name: str, shape: PodShape, *, terminating: bool) -> str:
        key = f"p{self.next_pod}"
        self.next_pod += 1
        if self.pool.state.row(name) >= 0:
            self.pool.apply(PodBound(BoundPod(key, shape, is_terminating=terminating), name))
        return key

    @rule(key=consumes(bound))
    def unbind(self, key: str) -> None:
        if key in self.pool.state.pods:
            self.pool.apply(PodRemoved(key))

    @rule(name=known)
    def remove_node(self, name: str) -> None:
        row = self.pool.state.row(name)
        if row >= 0:
            for key in list(self.pool.state.pods_on[row]):
                self.pool.apply(PodRemoved(key))
            self.pool.apply(NodeRemoved(name))

    @rule(keep=st.booleans())
    def take_snapshot(self, *, keep: bool) -> None:
        snapshot = self.pool.snapshot()
        assert describe(snapshot.state) == describe(self.pool.state)
        validate_state(snapshot.state)
        if keep and len(self.kept) < 4:
            self.kept.append((snapshot, describe(snapshot.state)))

    @rule()
    def drop_snapshot(self) -> None:
        if self.kept:
            self.kept.pop(0)

    @invariant()
    def indexes_agree_with_pods(self) -> None:
        validate_state(self.pool.state)

    @invariant()
    def kept_snapshots_never_change(self) -> None:
        for snapshot, seen in self.kept:
            assert describe(snapshot.state) == seen

    def teardown(self) -> None:
        fresh = ClusterState()
        live = self.pool.state
        for _, row in live.rows():
            fresh.apply(NodeSet(live.node(row)))
        for pod, row in live.pods.values():
            fresh.apply(PodBound(pod, live.node(row).name))
        assert describe(fresh) == describe(live)
        assert np.array_equal(live.requested[~live.is_node], np.zeros_like(live.requested[~live.is_node]))


TestCluster = Cluster.TestCase
TestCluster.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
