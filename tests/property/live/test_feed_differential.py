"""Whatever order events come in, the feed's state is what `load_objects` makes of the same objects."""

from collections import deque
from collections.abc import Mapping

from hypothesis import note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from stowplan.core.domain import BoundPod, PodBound, PodRemoved, validate_state
from stowplan.kube.manifest import load_objects
from tests.property.live.strategies import KINDS, NODES, objects
from tests.unit.live.described import described
from tests.unit.live.objects import Json
from tests.unit.live.wire import Key, World, key_of


class Cluster(RuleBasedStateMachine):
    """Kinds are watched apart: each has a queue of events that the feed has not heard of yet."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.queues: Mapping[str, deque[tuple[str, Json]]] = {kind: deque() for kind in KINDS}
        self.uids = 0
        self.assumed: dict[str, str] = {}

    @rule(document=objects(), anew=st.booleans())
    def put(self, document: Json, *, anew: bool) -> None:
        key = key_of(document)
        known = self.world.server.objects.get(key)
        if known is not None and anew:
            self.remove(key)
            known = None
        if known is None:
            self.uids += 1
            document["metadata"]["uid"] = f"u{self.uids}"
        else:
            document["metadata"]["uid"] = known["metadata"]["uid"]
            if document["kind"] == "Pod" and "nodeName" in known["spec"]:
                document["spec"]["nodeName"] = known["spec"]["nodeName"]
        self.queues[document["kind"]].append(("MODIFIED", self.world.server.put(document)))

    @precondition(lambda self: self.world.server.objects)
    @rule(data=st.data())
    def remove_one(self, data: st.DataObject) -> None:
        self.remove(data.draw(st.sampled_from(sorted(self.world.server.objects))))

    def remove(self, key: Key) -> None:
        self.queues[key[0]].append(("DELETED", self.world.server.remove(key)))

    @rule(kind=st.sampled_from([*KINDS, "Pod", "Pod", "Node"]), most=st.integers(1, 4))
    def hear(self, kind: str, most: int) -> None:
        for _ in range(min(most, len(self.queues[kind]))):
            self.world.tell(*self.queues[kind].popleft())

    @rule(kind=st.sampled_from([*KINDS, "Pod"]))
    def relist(self, kind: str) -> None:
        self.queues[kind].clear()
        self.world.relist(kind)

    @rule(data=st.data(), node=st.sampled_from(NODES))
    def assume(self, data: st.DataObject, node: str) -> None:
        world = self.world
        waiting = [
            pod for pod in world.feed.pods.values() if pod.is_waiting and not world.feed.is_assumed(pod)
        ]
        if waiting and world.state.row(node) >= 0:
            pod = data.draw(st.sampled_from(sorted(waiting, key=lambda each: each.key)))
            note(f"assume {pod.key} on {node}")
            world.state.apply(PodBound(BoundPod(pod.key, pod.shape), node))  # as the engine does
            world.feed.assume(pod, node)
            self.assumed[pod.uid] = node

    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
        feed = self.world.feed
        assumed = [pod for pod in feed.pods.values() if feed.is_assumed(pod)]
        if assumed:
            pod = data.draw(st.sampled_from(sorted(assumed, key=lambda each: each.key)))
            note(f"give up {pod.key}")
            self.world.state.apply(PodRemoved(pod.key))  # as `Engine.forget` does
            feed.drop(pod)

    @rule(data=st.data(), node=st.sampled_from(NODES))
    def bind(self, data: st.DataObject, node: str) -> None:
        """Binds a pod at the server, to the node that was assumed or to another."""
        unbound = [
            key
            for key, each in self.world.server.objects.items()
            if key[0] == "Pod" and "nodeName" not in each["spec"]
        ]
        if unbound:
            document = self.world.server.objects[data.draw(st.sampled_from(sorted(unbound)))]
            bound = {**document, "spec": {**document["spec"], "nodeName": node}}
            self.queues["Pod"].append(("MODIFIED", self.world.server.put(bound)))

    @invariant()
    def what_is_assumed_is_held(self) -> None:
        world = self.world
        for pod in world.feed.pods.values():
            if world.feed.is_assumed(pod):
                assert pod.key in world.state.pods

    def teardown(self) -> None:
        for kind in KINDS:
            self.hear(kind, len(self.queues[kind]))
        world = self.world
        documents: list[Json] = []
        for document in world.server.objects.values():
            pod = world.feed.pods.get("/".join(key_of(document)[1:])) if document["kind"] == "Pod" else None
            if pod is not None and world.feed.is_assumed(pod):
                assert not pod.node_name
                placed = {**document["spec"], "nodeName": self.assumed[pod.uid]}
                documents.append({**document, "spec": placed})
            else:
                documents.append(document)
        loaded = load_objects(documents)
        validate_state(world.state)
        held, wanted = described(world.state), described(loaded.state)
        for part, of_wanted in wanted.items():
            assert held[part] == of_wanted, part
        waiting = {pod.key: (pod.shape, pod.uid) for pod in world.feed.pods.values() if pod.is_waiting}
        pending = {pod.key: (pod.shape, pod.uid) for pod in loaded.pending}
        assert {key: waiting[key] for key in pending} == pending
        assert all(world.feed.is_assumed(world.feed.pods[key]) for key in waiting.keys() - pending.keys())
        assert not any(health.unusable for health in world.feed.health.values())


TestCluster = Cluster.TestCase
TestCluster.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
