"""Whatever happens to the live state: the copy is the live state plus what is foreseen."""

import itertools

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from stowplan.core.domain import (
    BoundPod,
    ClusterState,
    NamespaceRemoved,
    NamespaceSet,
    Node,
    NodeRemoved,
    NodeSet,
    NominationRemoved,
    PersistentVolumeClaim,
    PodBound,
    PodNominated,
    PodRemoved,
    PodShape,
    Resources,
    StorageClass,
    StorageRemoved,
    StorageSet,
    validate_state,
)
from stowplan.serve.extender.inflight import InFlight

LIFETIME_S = 2.0
NAMES = [f"n{number}" for number in range(6)]

names = st.sampled_from(NAMES)
pods = st.integers(0, 12).map(lambda number: f"ns/p{number}")
shapes = st.builds(
    PodShape,
    namespace=st.just("ns"),
    labels=st.sampled_from([(), (("app", "x"),)]),
    requests=st.integers(0, 4).map(lambda cpu: Resources({"cpu": cpu})),
)


class Following(RuleBasedStateMachine):
    """Random events, and questions in between."""

    def __init__(self) -> None:
        super().__init__()
        self.live = ClusterState()
        self.live.apply(NodeSet(Node("n0", Resources({"cpu": 8, "pods": 10}))))
        self.in_flight = InFlight(self.live, lifetime_s=LIFETIME_S)
        self.foreseen: dict[str, tuple[str, float]] = {}
        self.now_s = 0.0
        self.numbers = itertools.count()
        self.more: list[str] = []

    # ---- what happens to the live cluster ----

    @rule(name=names, cpu=st.integers(1, 9), label=st.sampled_from(["", "a", "b"]))
    def set_node(self, name: str, cpu: int, label: str) -> None:
        labels = (("zone", label),) if label else ()
        self.live.apply(NodeSet(Node(name, Resources({"cpu": cpu, "pods": 10}), labels)))

    @rule(count=st.integers(5, 20))
    def add_many_nodes(self, count: int) -> None:
        for _ in range(count):
            node = Node(f"more-{next(self.numbers)}", Resources({"cpu": 4, "pods": 10}))
            self.live.apply(NodeSet(node))
            self.more.append(node.name)

    @precondition(lambda self: self.more)
    @rule(data=st.data(), count=st.integers(1, 12))
    def remove_some_nodes(self, data: st.DataObject, count: int) -> None:
        for _ in range(min(count, len(self.more))):
            self.live.apply(NodeRemoved(self.more.pop(data.draw(st.integers(0, len(self.more) - 1)))))

    @rule(name=names)
    def remove_node(self, name: str) -> None:
        row = self.live.row(name)
        if row >= 0:
            for key in list(self.live.pods_on[row]):
                self.live.apply(PodRemoved(key))
            self.live.apply(NodeRemoved(name))

    @rule(key=pods, shape=shapes, name=names, is_terminating=st.booleans())
    def bind(self, key: str, shape: PodShape, name: str, is_terminating: bool) -> None:
        if self.live.row(name) >= 0:
            if key in self.live.pods:
                self.live.apply(PodRemoved(key))
            pod = BoundPod(key, shape, is_terminating=is_terminating, uid=str(next(self.numbers)))
            self.live.apply(PodBound(pod, name))

    @rule(key=pods)
    def unbind(self, key: str) -> None:
        if key in self.live.pods:
            self.live.apply(PodRemoved(key))

    @rule(key=pods, shape=shapes, name=names)
    def nominate(self, key: str, shape: PodShape, name: str) -> None:
        if key not in self.live.pods:
            self.live.apply(PodNominated(BoundPod(key, shape), name))

    @rule(key=pods)
    def withdraw(self, key: str) -> None:
        if key in self.live.nominations:
            self.live.apply(NominationRemoved(key))

    @rule(name=names, is_there=st.booleans())
    def change_others(self, name: str, is_there: bool) -> None:
        if is_there:
            self.live.apply(NamespaceSet(name, (("x", str(next(self.numbers))),)))
            self.live.apply(StorageSet(StorageClass(name, f"driver-{next(self.numbers)}")))
            self.live.apply(StorageSet(PersistentVolumeClaim("ns", name, ())))
        elif name in self.live.namespaces:
            self.live.apply(NamespaceRemoved(name))
            self.live.apply(StorageRemoved(StorageClass, name))
            self.live.apply(StorageRemoved(PersistentVolumeClaim, f"ns/{name}"))

    # ---- questions ----

    @rule(after_s=st.sampled_from([0.0, 0.5, 3.0]))
    def ask(self, after_s: float) -> None:
        self.now_s += after_s
        self.in_flight.catch_up(self.now_s)
        self.check()

    @rule(key=pods, shape=shapes, name=names)
    def foresee(self, key: str, shape: PodShape, name: str) -> None:
        self.in_flight.catch_up(self.now_s)
        if self.in_flight.state.row(name) >= 0:
            self.in_flight.foresee(BoundPod(key, shape, uid="foreseen"), name, self.now_s)
            if key not in self.live.pods and key not in self.live.nominations:
                self.foreseen[key] = (name, self.now_s + LIFETIME_S)
                assert self.in_flight.state.pods[key][0].uid == "foreseen"

    @rule(key=pods)
    def forget(self, key: str) -> None:
        self.in_flight.forget(key)
        self.foreseen.pop(key, None)

    def check(self) -> None:
        copy, live = self.in_flight.state, self.live
        validate_state(copy)
        validate_state(live)
        assert copy is not live
        assert dict(copy.rows()) == dict(live.rows())
        assert all(copy.nodes[row] is live.nodes[row] for _, row in live.rows())
        assert copy.namespaces == live.namespaces
        assert copy.storage.classes == live.storage.classes
        assert copy.storage.claims == live.storage.claims
        assert copy.nominations.on == live.nominations.on
        extra = {key: copy.node(row).name for key, (_, row) in copy.pods.items() if key not in live.pods}
        assert all(copy.pods[key][0] is pod for key, (pod, _) in live.pods.items())
        assert all(copy.pods[key][1] == row for key, (_, row) in live.pods.items())
        assert len(extra) == self.in_flight.count
        # Nothing is foreseen but what was said, where it was said, and not for longer than it may be.
        for key, name in extra.items():
            where, until_s = self.foreseen[key]
            assert (name, until_s > self.now_s) == (where, True)
            assert key not in live.nominations


TestFollowing = Following.TestCase
TestFollowing.settings = settings(max_examples=30, stateful_step_count=30, deadline=None)
