"""Whatever happens in whatever order: every waiting pod is in exactly one state, and none is forgotten."""

import dataclasses
import itertools

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from stowplan.core.constraints import FILTERS
from stowplan.core.domain import PodShape
from stowplan.serve.scheduler.hints import POLICY, Happening, that_help
from stowplan.serve.scheduler.queue import Place, QueuedPod, SchedulingQueue
from tests.scheduler_cases import live_pod, shape

NAMES = ("a", "b", "c", "d", "e")
SHAPES = (shape(100), shape(200))
GATED = shape(100, scheduling_gates=("other/gate",))
filters = st.sets(st.sampled_from([*FILTERS, POLICY]), max_size=3).map(frozenset)


class Queue(RuleBasedStateMachine):
    """The queue beside what must be true of it, kept by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.moves: list[tuple[Place, str]] = []
        self.queue = SchedulingQueue(on_move=lambda place, event: self.moves.append((place, event)))
        self.now_s = 0.0
        self.uids: dict[str, str] = {}
        self.numbers = 0
        self.in_flight: list[QueuedPod] = []
        self.missed: dict[QueuedPod, Happening] = {}
        self.refused_at: dict[QueuedPod, float] = {}
        self.failed_at: dict[QueuedPod, float] = {}

    def entry(self, name: str) -> QueuedPod:
        entry = self.queue.get(f"default/{name}")
        assert entry is not None
        return entry

    # ---- the watch ----

    @rule(name=st.sampled_from(NAMES), of=st.sampled_from([*SHAPES, GATED]))
    def appears_or_is_replaced(self, name: str, of: PodShape) -> None:
        self.numbers += 1
        uid = f"{name}-{self.numbers}"
        pod = live_pod(name, of, uid=uid)
        entry = self.queue.set(pod, self.now_s)
        assert entry.place is (Place.GATED if pod.is_gated else Place.ACTIVE)
        assert entry.attempts == 0
        self.uids[name] = uid

    @precondition(lambda self: self.uids)
    @rule(data=st.data(), of=st.sampled_from(SHAPES))
    def changes(self, data: st.DataObject, of: PodShape) -> None:
        name = data.draw(st.sampled_from(sorted(self.uids)))
        before = self.entry(name)
        place, had = before.place, before.pod.shape
        pod = dataclasses.replace(before.pod, shape=of)
        entry = self.queue.set(pod, self.now_s)
        assert entry is before
        if place is Place.GATED or (place is Place.UNSCHEDULABLE and had != of):
            assert entry.place is Place.ACTIVE
        else:
            assert entry.place is place
        if place is Place.IN_FLIGHT and had != of:
            self.missed[entry] = ~Happening(0)

    @precondition(lambda self: self.uids)
    @rule(data=st.data())
    def is_gone(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.uids)))
        del self.uids[name]
        assert self.queue.remove(f"default/{name}")
        assert not self.queue.remove(f"default/{name}")

    @rule(happened=st.sampled_from(list(Happening)), fits=st.sampled_from([SHAPES, SHAPES[:1], ()]))
    def happens(self, happened: Happening, fits: tuple[PodShape, ...]) -> None:
        waiting = [entry for entry in self.waiting() if entry.place is Place.UNSCHEDULABLE]
        helped = [entry for entry in waiting if that_help(entry.refused_by) & happened]
        assert self.queue.wake(happened, "event") is bool(helped)
        admitted = [e for e in helped if e.pod.shape in fits or POLICY in e.refused_by]
        assert self.queue.admit(lambda shape: shape in fits) == len(admitted)
        assert all(entry.place is Place.ACTIVE for entry in admitted)
        assert all(entry.place is Place.UNSCHEDULABLE for entry in waiting if entry not in admitted)
        assert self.queue.admit(lambda _: True) == 0
        for entry in self.in_flight:
            self.missed[entry] = self.missed.get(entry, Happening(0)) | happened

    @rule(seconds=st.sampled_from([0.0, 0.5, 1.0, 3.0, 11.0, 301.0]))
    def time_passes(self, seconds: float) -> None:
        self.now_s += seconds
        self.queue.advance(self.now_s)
        for entry in self.waiting():
            if entry.place is Place.BACKOFF:
                assert 0.0 <= self.now_s - self.failed_at[entry] < 10.0
            if entry.place is Place.UNSCHEDULABLE:
                assert self.now_s - self.refused_at[entry] < 300.0
        due_s = self.queue.next_due_s()
        assert due_s is None or due_s > self.now_s

    # ---- the scheduler ----

    @rule(data=st.data())
    def cycles(self, data: st.DataObject) -> None:
        for entry in self.queue.ready():
            match data.draw(st.sampled_from(["place", "refuse", "seek", "defer"])):
                case "place":
                    self.queue.placed(entry)
                    self.in_flight.append(entry)
                    self.missed[entry] = Happening(0)
                case "seek":
                    self.queue.begin(entry)
                    self.in_flight.append(entry)
                    self.missed[entry] = Happening(0)
                case "refuse":
                    self.queue.refuse(entry, data.draw(filters), self.now_s)
                    self.refused_at[entry] = self.now_s
                    assert entry.place is Place.UNSCHEDULABLE
                case _:
                    assert entry.place is Place.ACTIVE

    @precondition(lambda self: self.in_flight)
    @rule(data=st.data(), how=st.sampled_from(["bound", "failed", "refused"]))
    def lands(self, data: st.DataObject, how: str) -> None:
        entry = data.draw(st.sampled_from(self.in_flight))
        self.in_flight.remove(entry)
        missed = self.missed.pop(entry)
        name, is_ours = entry.pod.name, self.queue.get(entry.pod.key) is entry
        if how == "bound":
            if is_ours:
                self.queue.remove(entry.pod.key)
                del self.uids[name]
        elif how == "failed":
            self.queue.fail(entry, self.now_s)
            self.failed_at[entry] = self.now_s
            assert not is_ours or entry.place is Place.BACKOFF
        else:
            names = data.draw(filters)
            self.queue.refuse(entry, names, self.now_s)
            self.refused_at[entry] = self.now_s
            if is_ours:
                was_helped = that_help(names) & missed or missed == ~Happening(0)
                assert entry.place is (Place.ACTIVE if was_helped else Place.UNSCHEDULABLE)

    @precondition(lambda self: self.uids)
    @rule(data=st.data())
    def is_retried(self, data: st.DataObject) -> None:
        entry = self.entry(data.draw(st.sampled_from(sorted(self.uids))))
        place = entry.place
        assert self.queue.retry(entry) is (place is Place.UNSCHEDULABLE)
        assert entry.place is (Place.ACTIVE if place is Place.UNSCHEDULABLE else place)

    # ---- what always holds ----

    def waiting(self) -> list[QueuedPod]:
        return [self.entry(name) for name in self.uids]

    @invariant()
    def every_waiting_pod_is_in_exactly_one_state(self) -> None:
        assert len(self.queue) == len(self.uids)
        assert sum(self.queue.count(place) for place in Place) == len(self.uids)
        for name, uid in self.uids.items():
            assert self.entry(name).pod.uid == uid
        for place in Place:
            assert self.queue.count(place) == sum(entry.place is place for entry in self.waiting())

    @invariant()
    def arrival_is_a_total_order(self) -> None:
        orders = [entry.order for entry in self.queue.ready()]
        assert all(one < next_one for one, next_one in itertools.pairwise(orders))

    @invariant()
    def refusals_are_those_of_the_unschedulable(self) -> None:
        names = [n for e in self.waiting() if e.place is Place.UNSCHEDULABLE for n in e.refused_by]
        assert self.queue.refusals() == {name: names.count(name) for name in names}

    def teardown(self) -> None:
        """Nothing is stuck: all that is neither gated nor in flight comes to its turn in time."""
        self.queue.advance(self.now_s + 300.0)
        for entry in self.waiting():
            assert entry.place in (Place.ACTIVE, Place.GATED, Place.IN_FLIGHT)


TestQueue = Queue.TestCase
TestQueue.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
