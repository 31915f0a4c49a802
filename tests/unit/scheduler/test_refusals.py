"""Pods that get no node: what they are told, room that is made, nodes that are closed, policies that fail."""

import asyncio
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from stowplan.core.domain import NodeSet, PendingTask, Taint, TaintEffect
from stowplan.core.policy import CycleView, make_policy
from stowplan.errors import InvalidInput
from stowplan.kube.api.binder import Elsewhere
from stowplan.kube.api.errors import KubernetesError
from stowplan.kube.api.recorder import Event, RecorderHealth
from stowplan.kube.api.status import PodReference, SchedulingStatus, Written
from stowplan.kube.live.pod import LivePod
from stowplan.serve.scheduler.queue import QueueTimes
from stowplan.serve.scheduler.settings import SchedulerSettings
from tests.scheduler_cases import Bench, live_pod, running, shape, until

QUICK = SchedulerSettings(
    debounce_s=0.001,
    status_refresh_s=0.0,
    status_counts_s=0.0,
    status_retry_s=0.02,
    first_hold_s=0.1,
    queue=QueueTimes(first_backoff_s=0.02, longest_backoff_s=0.1),
)


@dataclass
class Statuses:
    """Keeps what is written, and shows it to the watch."""

    bench: Bench
    written: list[tuple[str, SchedulingStatus]] = field(default_factory=list[tuple[str, SchedulingStatus]])
    error: KubernetesError | None = None

    async def write(self, pod: PodReference, now: SchedulingStatus, wanted: SchedulingStatus) -> Written:
        if self.error is not None:
            raise self.error
        assert now != wanted
        self.written.append((pod.name, wanted))
        assert not wanted.nominated_node
        self.bench.feed.change_pod(f"{pod.namespace}/{pod.name}", status=wanted)
        return Written.WRITTEN


@dataclass
class Events:
    """Keeps what is recorded."""

    recorded: list[Event] = field(default_factory=list[Event])
    dropped: dict[str, int] = field(default_factory=dict[str, int])

    def record(self, event: Event) -> None:
        self.recorded.append(event)

    @property
    def health(self) -> RecorderHealth:
        return RecorderHealth(0, 0, 0, self.dropped, "")

    def of(self, reason: str) -> list[str]:
        return [event.note for event in self.recorded if event.reason == reason]


class TellingBench(Bench):
    """A bench whose scheduler tells."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.statuses, self.events = Statuses(self), Events()
        self.more |= {"statuses": self.statuses, "events": self.events}


def bench(**nodes: int) -> TellingBench:
    made = TellingBench(settings=QUICK)
    for name, cpu_milli in nodes.items():
        made.feed.set_node(name, cpu_milli)
    return made


def story(b: Bench, test: Callable[[], object]) -> None:
    """Run the scheduler until something holds."""

    async def run() -> None:
        async with running(b):
            await until(test)

    asyncio.run(run())


def test_a_pod_that_waits_is_told_why_in_kube_schedulers_words() -> None:
    b = bench(n1=1000, n2=1000, n3=4000)
    taints = (Taint("k", "v", TaintEffect.NO_SCHEDULE),)
    b.feed.state.apply(NodeSet(dataclasses.replace(b.feed.state.node(b.feed.state.row("n3")), taints=taints)))
    b.feed.set_pod(live_pod("holder", shape(800), node_name="n1", phase="Running"))
    b.feed.set_pod(live_pod("p", shape(900)))
    b.feed.set_pod(live_pod("q", shape(900)))
    story(b, lambda: b.statuses.written)
    message = "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu."
    (name, status), *_ = b.statuses.written
    assert (name, status.reason, status.message) == ("q", "Unschedulable", message)
    assert b.events.of("FailedScheduling") == [message]
    (scheduled,) = b.events.of("Scheduled")
    assert scheduled.startswith("Successfully assigned default/p to n2: fifo chose n2 of 1 candidates")
    assert b.value("unschedulable_pods", plugin="TaintToleration", profile="stowplan") == 1
    assert b.value("schedule_attempts_total", result="unschedulable", profile="stowplan") >= 1


def test_where_others_bind_it_is_told_whose_turn_had_come_and_where_it_went() -> None:
    b = bench(n1=1000)
    b.actuator.binds = False
    b.actuator.answers["moved"] = [Elsewhere("n9")]
    for name in ("p", "moved"):
        b.feed.set_pod(live_pod(name))
    story(b, lambda: len(b.events.of("Ungated")) == 2)
    notes = sorted(note.partition(": ")[0] for note in b.events.of("Ungated"))
    assert notes == ["Let go for n1", "Let go for n1 (kube-scheduler chose n9)"]
    assert not b.events.of("Scheduled")


def test_a_pod_that_fits_no_node_even_if_it_were_empty_says_so() -> None:
    b = bench(n1=1000)
    b.feed.set_pod(live_pod("p", shape(9000)))
    story(b, lambda: b.statuses.written)
    assert b.statuses.written[0][1].message == (
        "0/1 nodes are available: 1 Insufficient cpu. No node could take it if it were empty."
    )


def test_nothing_is_written_that_the_status_says_already() -> None:
    b = bench(n1=1000)
    message = "0/1 nodes are available: 1 Insufficient cpu. No node could take it if it were empty."
    b.feed.set_pod(live_pod("old", shape(9000), status=SchedulingStatus("Unschedulable", message)))
    b.feed.set_pod(live_pod("new", shape(9000), created_s=2e6))
    story(b, lambda: b.statuses.written)
    assert [name for name, _ in b.statuses.written] == ["new"]


def test_a_cluster_without_nodes_says_so_and_the_first_node_takes_the_pod() -> None:
    b = bench()
    b.feed.set_pod(live_pod("p"))

    async def run() -> None:
        async with running(b):
            await until(lambda: b.statuses.written)
            b.feed.set_node("n1")
            await until(lambda: b.actuator.acts)

    asyncio.run(run())
    assert b.statuses.written[0][1].message == "no nodes available to schedule pods"


def test_pods_with_resource_claims_are_left_to_kube_scheduler_with_the_mend() -> None:
    b = bench(n1=1000)
    b.feed.set_pod(live_pod("p", shape(resource_claims=("gpu",))))
    story(b, lambda: b.statuses.written)
    message = b.statuses.written[0][1].message
    assert message.startswith("pod has resource claims (gpu)")
    assert message.endswith("let its template say schedulerName: default-scheduler")
    assert b.actuator.acts == []


def test_gated_pods_get_no_attempts_and_no_words() -> None:
    b = bench(n1=1000)
    b.feed.set_pod(live_pod("gated", shape(scheduling_gates=("g",))))
    b.feed.set_pod(live_pod("p"))
    story(b, lambda: b.actuator.acts)
    assert b.count("gated") == 1
    assert b.actuator.acts == [("p", "n1")]
    assert b.statuses.written == []


def test_what_has_no_place_in_the_queue_is_counted_and_told_at_the_next_occasion() -> None:
    b = bench(n1=1000)
    b.settings = dataclasses.replace(QUICK, statuses=1, queue=QueueTimes(flush_s=0.05))
    for name in ("p", "q", "r"):
        b.feed.set_pod(live_pod(name, shape(9000)))

    async def run() -> None:
        async with running(b):
            await until(lambda: b.value("api_writes_dropped_total", kind="condition") >= 2)
            await until(lambda: len({name for name, _ in b.statuses.written}) > 1)

    asyncio.run(run())


def test_conditions_that_cannot_be_written_are_a_degraded_state_until_one_can() -> None:
    b = bench(n1=1000)
    b.statuses.error = KubernetesError("grant patch on pods/status")
    b.feed.set_pod(live_pod("p", shape(9000)))

    async def run() -> None:
        async with running(b):
            await until(lambda: b.scheduler.status.degraded)
            assert b.scheduler.status.degraded == {"conditions": "grant patch on pods/status"}
            b.statuses.error = None
            await until(lambda: b.statuses.written)
            assert not b.scheduler.status.degraded

    asyncio.run(run())
    assert b.value("api_writes_dropped_total", kind="condition") == 0


# ── room for pods of higher priority ──


@dataclass
class Preemptor:
    """Ends the pods it is told of, and nominates."""

    bench: Bench
    victim_of: dict[str, str] = field(default_factory=dict[str, str])
    asked: list[str] = field(default_factory=list[str])
    on_ask: Callable[[], None] = lambda: None

    async def consider(self, pod: LivePod, task: PendingTask) -> str:
        assert task.key == pod.key
        self.asked.append(pod.name)
        self.on_ask()
        await asyncio.sleep(0)
        victim = self.victim_of.get(pod.name)
        if victim is None:
            return ""
        node_name = self.bench.feed.pods[victim].node_name
        asyncio.get_running_loop().call_later(0.01, self.bench.feed.delete_pod, victim)
        return node_name


def full_bench() -> tuple[TellingBench, Preemptor]:
    b = bench(n1=1000)
    preemptor = Preemptor(b)
    b.more["preemptor"] = preemptor
    b.feed.set_pod(live_pod("low", shape(900), node_name="n1", phase="Running"))
    return b, preemptor


def test_room_is_sought_for_a_pod_of_higher_priority_which_then_goes_there() -> None:
    b, preemptor = full_bench()
    preemptor.victim_of["high"] = "default/low"
    b.feed.set_pod(live_pod("high", shape(500, priority=10)))
    b.feed.set_pod(live_pod("equal", shape(500)))
    b.feed.set_pod(live_pod("meek", shape(500, priority=10), can_preempt=False))
    story(b, lambda: ("high", "n1") in b.actuator.acts)
    assert preemptor.asked == ["high"]
    assert not any(status.nominated_node for _, status in b.statuses.written)  # that is the preemptor's


def test_what_happens_while_room_is_sought_is_not_lost() -> None:
    b, preemptor = full_bench()
    preemptor.on_ask = lambda: b.feed.end("default/low")  # the room comes by itself, during the search
    b.feed.set_pod(live_pod("high", shape(500, priority=10)))
    story(b, lambda: b.actuator.acts == [("high", "n1")])


def test_equals_are_not_asked_for_again_in_the_same_round() -> None:
    b, preemptor = full_bench()
    for number in range(5):
        b.feed.set_pod(live_pod(f"h{number}", shape(500, priority=10)))
    story(b, lambda: b.count("unschedulable") == 5)
    assert preemptor.asked == ["h0"]


def test_those_for_whom_there_was_no_place_are_asked_for_in_the_next_round() -> None:
    b, preemptor = full_bench()
    b.settings = dataclasses.replace(QUICK, searches=2)
    for number in range(5):
        b.feed.set_pod(live_pod(f"h{number}", shape(500 + number, priority=10)))
    story(b, lambda: len(set(preemptor.asked)) == 5 and b.count("unschedulable") == 5)
    assert sorted(preemptor.asked) == [f"h{number}" for number in range(5)]


# ── nodes that are fuller than they look ──


@pytest.mark.parametrize("is_ours", [True, False])
def test_a_kubelet_that_refuses_a_pod_closes_its_node_for_a_moment(is_ours: bool) -> None:
    b = bench(n1=1000)
    name = "stowplan" if is_ours else "default-scheduler"
    refused = live_pod("refused", dataclasses.replace(shape(), scheduler_name=name), node_name="n1")

    async def run() -> None:
        async with running(b):
            b.feed.set_pod(refused)
            b.feed.end("default/refused", "Failed", "OutOfcpu")
            b.feed.set_pod(live_pod("retry"))
            await until(lambda: b.statuses.written)
            assert b.scheduler.status.closed == ("n1",)
            assert "take no pods for a moment" in b.statuses.written[0][1].message
            assert not b.actuator.acts
            await until(lambda: b.actuator.acts == [("retry", "n1")])
            assert b.scheduler.status.closed == ()

    asyncio.run(run())
    assert b.value("kubelet_rejections_total", reason="OutOfcpu") == 1


def test_what_a_controller_makes_in_place_of_a_refused_pod_goes_elsewhere() -> None:
    b = bench(n1=2000, n2=1000)  # n1 has more room
    b.settings = dataclasses.replace(QUICK, first_hold_s=60.0)

    async def run() -> None:
        async with running(b):
            b.feed.set_pod(live_pod("first"))
            await until(lambda: b.actuator.acts == [("first", "n1")])
            b.feed.end("default/first", "Failed", "OutOfmemory")
            b.feed.set_pod(live_pod("second"))
            await until(lambda: b.actuator.acts[1:] == [("second", "n2")])

    asyncio.run(run())


# ── what fails ──


class Failing:
    """A policy that fails until it is mended."""

    name = "model"
    is_mended = False

    def plan(self, view: CycleView) -> object:
        if not self.is_mended:
            raise InvalidInput("the model is gone")
        return make_policy("fifo").plan(view)


def test_a_policy_that_fails_is_replaced_and_seen_to_be_until_it_recovers() -> None:
    b = bench(n1=1000)
    policy = Failing()
    b.engine.policy = policy  # pyright: ignore[reportAttributeAccessIssue]

    async def run() -> None:
        async with running(b):
            b.feed.set_pod(live_pod("p"))
            await until(lambda: b.actuator.acts)
            assert b.scheduler.status.degraded == {"policy model": "the model is gone"}
            policy.is_mended = True
            b.feed.set_pod(live_pod("q"))
            await until(lambda: len(b.actuator.acts) == 2)
            assert not b.scheduler.status.degraded

    asyncio.run(run())


def test_a_cycle_that_breaks_is_seen_and_tried_again() -> None:
    b = bench(n1=1000)

    class Sink:
        is_broken = True

        def begin(self, *_: object) -> object:
            if self.is_broken:
                raise OSError("disk full")
            return None

        def end(self, *_: object) -> None:
            pass

    sink = Sink()
    b.more["decisions"] = sink

    async def run() -> None:
        async with running(b):
            b.feed.set_pod(live_pod("p"))
            await until(lambda: b.scheduler.status.degraded)
            assert b.scheduler.status.degraded == {"engine": "OSError: disk full"}
            sink.is_broken = False
            await until(lambda: b.actuator.acts)
            assert not b.scheduler.status.degraded

    asyncio.run(run())


def test_one_pod_that_cannot_be_made_out_does_not_hold_up_the_others() -> None:
    b = bench(n1=1000)
    b.tasks.poison = "default/bad"
    for name in ("bad", "good"):
        b.feed.set_pod(live_pod(name))
    story(b, lambda: b.actuator.acts == [("good", "n1")])


def test_an_actuator_that_breaks_gives_the_room_back() -> None:
    b = bench(n1=1000)
    b.actuator.breaks = "p"
    b.feed.set_pod(live_pod("p", shape(900)))

    async def run() -> None:
        async with running(b):
            await until(lambda: b.scheduler.status.degraded)
            assert b.scheduler.status.degraded == {"placements": "ZeroDivisionError: a defect"}
            assert not b.feed.state.pods
            b.actuator.breaks = ""
            await until(lambda: not b.scheduler.status.degraded)
            assert list(b.feed.state.pods) == ["default/p"]

    asyncio.run(run())
