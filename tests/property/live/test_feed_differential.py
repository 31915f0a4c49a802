"""Whatever order events come in, the feed's state is what `load_objects` makes of the same objects.

Each kind is watched apart, so it has a queue of events that the feed has not heard of yet. What happens is
drawn from one seed; hypothesis chooses seeds, and shortens a story that fails.
"""

from collections import deque
from collections.abc import Mapping
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.core.domain import BoundPod, PodBound, PodRemoved, validate_state
from stowplan.kube.live.pod import LivePod
from stowplan.kube.manifest import load_objects
from tests.property.live.making import KINDS, NODES, THEMES, Maker
from tests.unit.live.described import described
from tests.unit.live.objects import Json
from tests.unit.live.wire import Key, World, key_of


class Story:
    """A cluster to which things happen, and a feed that hears of them in its own time."""

    def __init__(self, kinds: tuple[str, ...], seed: int) -> None:
        self.world = World()
        self._kinds = kinds
        self._random = Random(seed)  # noqa: S311 - draws what happens
        self._maker = Maker(self._random)
        self._queues: Mapping[str, deque[tuple[str, Json]]] = {kind: deque() for kind in KINDS}
        self._listed: set[str] = set()
        self._uids = 0
        self._assumed: dict[str, str] = {}

    def go_on(self) -> None:
        """One thing happens."""
        happenings = (
            (self._put_any, 8),
            (self._change_part_of_a_pod, 4),
            (self._remove_one, 3),
            (self._hear_some, 8),
            (self._relist, 1),
            (self._assume, 3),
            (self._give_up, 1),
            (self._bind, 2),
        )
        calls, weights = zip(*happenings, strict=True)
        self._random.choices(calls, weights)[0]()
        feed, state = self.world.feed, self.world.state
        for pod in feed.pods.values():
            if feed.is_assumed(pod):
                assert pod.key in state.pods  # so that Engine.forget may be called

    # ---- at the server ----

    def _put_any(self) -> None:
        document = self._maker.make(self._random.choice(("Pod", *self._kinds)))
        if self._random.random() < 0.3 and key_of(document) in self.world.server.objects:
            self._remove(key_of(document))
        self._put(document)

    def _put(self, document: Json) -> None:
        known = self.world.server.objects.get(key_of(document))
        if known is None:
            self._uids += 1
            uid = f"u{self._uids}"
        else:
            uid = known["metadata"]["uid"]
            if document["kind"] == "Pod" and "nodeName" in known["spec"]:
                document = {**document, "spec": {**document["spec"], "nodeName": known["spec"]["nodeName"]}}
        document = {**document, "metadata": {**document["metadata"], "uid": uid}}
        self._queues[document["kind"]].append(("MODIFIED", self.world.server.put(document)))

    def _change_part_of_a_pod(self) -> None:
        """As most changes are: all else stays as it is."""
        key = self._pod_at_the_server(is_unbound=False)
        if key is None:
            return
        known, drawn = self.world.server.objects[key], self._maker.make("Pod")
        part = self._random.choice(("metadata", "spec", "status", "status"))
        same = {name: known["metadata"][name] for name in ("name", "namespace")} if part == "metadata" else {}
        self._put({**known, part: {**drawn[part], **same}})

    def _bind(self) -> None:
        key = self._pod_at_the_server(is_unbound=True)
        if key is not None:
            known = self.world.server.objects[key]
            self._put({**known, "spec": {**known["spec"], "nodeName": self._random.choice(NODES)}})

    def _pod_at_the_server(self, *, is_unbound: bool) -> Key | None:
        keys = [
            key
            for key, each in self.world.server.objects.items()
            if key[0] == "Pod" and not (is_unbound and "nodeName" in each["spec"])
        ]
        return self._random.choice(keys) if keys else None

    def _remove_one(self) -> None:
        if self.world.server.objects:
            self._remove(self._random.choice(list(self.world.server.objects)))

    def _remove(self, key: Key) -> None:
        self._queues[key[0]].append(("DELETED", self.world.server.remove(key)))

    # ---- at the feed ----

    def _hear_some(self) -> None:
        self._hear(self._random.choice(("Pod", "Pod", *self._kinds)), self._random.randrange(1, 5))

    def _hear(self, kind: str, most: int) -> None:
        if kind not in self._listed:  # what is watched was listed before
            self._list(kind)
        for _ in range(min(most, len(self._queues[kind]))):
            self.world.tell(*self._queues[kind].popleft())

    def _relist(self) -> None:
        self._list(self._random.choice(("Pod", *self._kinds)))

    def _list(self, kind: str) -> None:
        self._queues[kind].clear()
        self._listed.add(kind)
        self.world.relist(kind)

    def _pods(self, *, is_assumed: bool) -> list[LivePod]:
        feed = self.world.feed
        return [pod for pod in feed.pods.values() if pod.is_waiting and feed.is_assumed(pod) == is_assumed]

    def _assume(self) -> None:
        waiting, node = self._pods(is_assumed=False), self._random.choice(NODES)
        if waiting and self.world.state.row(node) >= 0:
            pod = self._random.choice(waiting)
            self.world.state.apply(PodBound(BoundPod(pod.key, pod.shape), node))  # as the engine does
            self.world.feed.assume(pod, node)
            self._assumed[pod.uid] = node

    def _give_up(self) -> None:
        assumed = self._pods(is_assumed=True)
        if assumed:
            pod = self._random.choice(assumed)
            self.world.state.apply(PodRemoved(pod.key))  # as Engine.forget does
            self.world.feed.drop(pod)

    # ---- in the end ----

    def hear_all(self) -> None:
        """The feed hears of all that happened, kind by kind."""
        for kind in self._random.sample(KINDS, len(KINDS)):
            self._hear(kind, len(self._queues[kind]))

    def objects(self) -> list[Json]:
        """All objects, where those that are assumed on a node are on it."""
        found: list[Json] = []
        for key, document in self.world.server.objects.items():
            pod = self.world.feed.pods.get("/".join(key[1:])) if key[0] == "Pod" else None
            if pod is not None and self.world.feed.is_assumed(pod):
                assert not pod.node_name
                placed = {**document["spec"], "nodeName": self._assumed[pod.uid]}
                found.append({**document, "spec": placed, "status": {}})  # nobody has run it yet
            else:
                found.append(document)
        return found


@given(st.sampled_from((*THEMES, KINDS[1:])), st.integers(0, 2**32 - 1), st.integers(1, 150))
@settings(max_examples=200)
def test_the_feed_ends_where_the_loader_does(kinds: tuple[str, ...], seed: int, steps: int) -> None:
    story = Story(kinds, seed)
    for _ in range(steps):
        story.go_on()
    story.hear_all()
    feed, state = story.world.feed, story.world.state
    loaded = load_objects(story.objects())
    validate_state(state)
    held, wanted = described(state), described(loaded.state)
    for part, of_wanted in wanted.items():
        assert held[part] == of_wanted, part
    waiting = {pod.key: (pod.shape, pod.uid) for pod in feed.pods.values() if pod.is_waiting}
    pending = {pod.key: (pod.shape, pod.uid) for pod in loaded.pending}
    assert {key: waiting[key] for key in pending} == pending
    assert all(feed.is_assumed(feed.pods[key]) for key in waiting.keys() - pending.keys())
    assert not any(health.unusable for health in feed.health.values())
