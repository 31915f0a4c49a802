"""Whatever is answered and whatever the watch shows, in whatever order: no pod is lost, no node overfull."""

import asyncio
import random
from collections.abc import Iterator

import numpy as np
import pytest
import structlog
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.core.decoder import Placed
from stowplan.core.domain import ClusterState, validate_state
from stowplan.kube.api.binder import Bound, Elsewhere, Gone, NotBound, Unknown
from stowplan.kube.api.errors import KubernetesError
from stowplan.kube.live.pod import LivePod
from stowplan.serve.scheduler.interface import ActOutcome, Released
from stowplan.serve.scheduler.queue import Place, QueueTimes
from stowplan.serve.scheduler.settings import SchedulerSettings
from tests.scheduler_cases import Bench, TableActuator, live_pod, shape, until

QUICK = SchedulerSettings(
    unknown_s=0.004,
    debounce_s=0.0005,
    longest_pause_s=0.002,
    first_hold_s=0.01,
    longest_hold_s=0.02,
    queue=QueueTimes(first_backoff_s=0.002, longest_backoff_s=0.01, flush_s=0.2),
)
STEPS = (
    "add",
    "add",
    "add",
    "delete",
    "end",
    "refuse",
    "steal",
    "node",
    "unnode",
    "elect",
    "pause",
    "replace",
)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with structlog.testing.capture_logs():
        yield


class ErraticActuator(TableActuator):
    """Answers what may happen, with what the watch shows before, after, or never."""

    luck: random.Random
    is_good = False

    async def act(self, pod: LivePod, placed: Placed) -> ActOutcome:
        await asyncio.sleep(self.luck.choice([0.0, 0.0, 0.001, 0.003]))
        feed, node = self.feed, placed.node_name
        now = feed.pods.get(pod.key)
        if now is None or now.uid != pod.uid:
            return Gone("not there")
        if now.node_name:
            return Bound(node) if now.node_name == node else Elsewhere(now.node_name)
        if self.is_good or self.luck.random() < 0.5:
            return self._bind(pod, node)
        return self._misbehave(pod, node)

    def _misbehave(self, pod: LivePod, node: str) -> ActOutcome:
        match self.luck.choice(["refused", "forbidden", "unknown", "bound", "elsewhere", "breaks"]):
            case "refused" | "forbidden" as how:
                return NotBound(KubernetesError(how), is_transient=how == "refused")
            case "unknown":
                return Unknown("no answer")
            case "bound":
                self._bind(pod, node)
                return Unknown("no answer")
            case "elsewhere":
                return self._lose(pod, node)
            case _:
                raise ZeroDivisionError("a defect")

    def _lose(self, pod: LivePod, node: str) -> ActOutcome:
        state = self.feed.state
        others = sorted(name for name, row in state.rows() if _has_room(state, row, pod))
        if not others:
            return Released("nobody has room", "not bound in time")
        other = self.luck.choice(others)
        self.feed.bind(pod.key, other)
        return Bound(node) if other == node else Elsewhere(other)

    def _bind(self, pod: LivePod, node: str) -> Bound:
        if self.luck.random() < 0.5:
            self.feed.bind(pod.key, node)
        else:  # the watch lags behind
            loop = asyncio.get_running_loop()
            loop.call_later(0.002, self._show, pod, node)
        return Bound(node)

    def _show(self, pod: LivePod, node: str) -> None:
        now = self.feed.pods.get(pod.key)
        if now is not None and now.uid == pod.uid and not now.node_name:
            self.feed.bind(pod.key, node)


def _has_room(state: ClusterState, row: int, pod: LivePod) -> bool:
    free = state.allocatable[row] - state.requested[row]
    return bool(free[0] >= pod.shape.requests["cpu"])


class Story:
    """One run: random steps, then a world in which everything works."""

    def __init__(self, seed: int) -> None:
        self.luck = random.Random(seed)  # noqa: S311 - chooses steps
        self.bench = Bench(settings=QUICK)
        self.actuator = ErraticActuator(self.bench.feed)
        self.actuator.luck = self.luck
        self.bench.actuator = self.actuator
        self.numbers = 0

    async def run(self, steps: list[str]) -> None:
        self.scheduler = self.bench.make()
        self.running = asyncio.create_task(self.scheduler.run())
        self.add_node()
        for step in steps:
            self.step(step)
            self.check()
            if self.luck.random() < 0.5:
                await asyncio.sleep(self.luck.choice([0.0, 0.001, 0.004]))
                self.check()
            if step == "elect":
                await self.elect()
        await self.calm_down()
        self.running.cancel()
        await asyncio.wait({self.running})

    def add_node(self) -> None:
        self.numbers += 1
        self.bench.feed.set_node(f"n{self.numbers}", self.luck.choice([300, 1000]))

    def step(self, step: str) -> None:
        feed, luck = self.bench.feed, self.luck
        waiting = sorted(key for key, pod in feed.pods.items() if pod.is_waiting)
        there = sorted(key for key, pod in feed.pods.items() if pod.node_name and not pod.has_ended)
        match step:
            case "add":
                self.numbers += 1
                of = shape(luck.choice([100, 250, 900]), priority=luck.choice([0, 5]))
                feed.set_pod(live_pod(f"p{self.numbers}", of))
            case "replace" if waiting:
                key = luck.choice(waiting)
                self.numbers += 1
                feed.set_pod(live_pod(feed.pods[key].name, shape(100), uid=f"again-{self.numbers}"))
            case "delete" if waiting or there:
                feed.delete_pod(luck.choice(waiting + there))
            case "end" if there:
                feed.end(luck.choice(there))
            case "refuse" if there:
                feed.end(luck.choice(there), "Failed", "OutOfcpu")
            case "steal" if waiting:
                key = luck.choice(waiting)
                rows = [row for _, row in feed.state.rows() if _has_room(feed.state, row, feed.pods[key])]
                if rows:
                    feed.bind(key, feed.state.node(luck.choice(rows)).name)
            case "node":
                self.add_node()
            case "unnode" if feed.state.node_count > 1:
                self.remove_node(luck.choice(sorted(name for name, _ in feed.state.rows())))
            case _:
                return

    def remove_node(self, name: str) -> None:
        feed = self.bench.feed
        row = feed.state.row(name)
        for key in list(feed.state.pods_on[row]):
            if feed.pods[key].node_name:
                feed.delete_pod(key)
            else:
                feed.lose_assumption(key)
        feed.remove_node(name)

    async def elect(self) -> None:
        """The lease is lost and regained."""
        self.running.cancel()
        await asyncio.wait({self.running})
        self.running = asyncio.create_task(self.scheduler.run())

    def check(self) -> None:
        """What holds at every moment."""
        feed, scheduler = self.bench.feed, self.scheduler
        validate_state(feed.state)
        assert np.all(feed.state.requested <= feed.state.allocatable)
        queued = {key: scheduler._queue.get(key) for key in feed.pods}
        for key, pod in feed.pods.items():
            entry = queued[key]
            if not pod.is_waiting:
                assert entry is None or entry.place is Place.IN_FLIGHT
            elif entry is not None:
                assert entry.pod.uid == pod.uid
                if entry.place is not Place.IN_FLIGHT:
                    assert not feed.is_assumed(pod)

    async def calm_down(self) -> None:
        """With room for all and an API server that works, every pod gets a node."""
        self.actuator.is_good = True
        self.bench.feed.set_node("large", 1_000_000)
        await until(lambda: not self.scheduler.status.under_way, 30.0)
        # Who was released is others' to place. Nobody else is here, so the watch shows it as new once more.
        for key, pod in list(self.bench.feed.pods.items()):
            if pod.is_waiting and not self.bench.feed.is_assumed(pod):
                self.bench.feed.set_pod(self.bench.feed.pods[key])
        await until(lambda: not any(pod.is_waiting for pod in self.bench.feed.pods.values()), 30.0)
        await until(lambda: not any(self.scheduler.status.queues.values()), 30.0)
        await until(lambda: len(self.scheduler._flights) == 0, 30.0)  # the watch may tell before the answer
        self.check()


@given(steps=st.lists(st.sampled_from(STEPS), min_size=5, max_size=40), seed=st.integers(0, 10_000))
@settings(max_examples=60, deadline=None)
def test_no_pod_is_lost_and_no_node_overfull(steps: list[str], seed: int) -> None:
    asyncio.run(Story(seed).run(steps))
