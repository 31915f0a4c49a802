"""What is done to make room, in which order, and what is taken back when it fails."""

import asyncio
import dataclasses
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random

import pytest
from structlog.testing import capture_logs

from stowplan.core.constraints import CompiledFilters
from stowplan.core.preemption import SearchSettings
from stowplan.kube.api.client import ApiClient
from stowplan.kube.api.errors import KubernetesError
from stowplan.kube.api.recorder import EventRecorder
from stowplan.kube.api.status import StatusWriter
from stowplan.kube.live.pod import LivePod
from stowplan.serve.metrics import SchedulerMetrics
from stowplan.serve.preemption import Preemptor, PreemptorSettings
from tests.preemption_cases import budget
from tests.scheduler_cases import BareTasks, live_pod, shape
from tests.unit.kube_api.server import cut, status
from tests.unit.preemption.pod_server import PodServer, TableCluster

GONE = status(404, "NotFound", "no such pod")
OTHER = status(409, "Conflict", "the UID in the precondition does not match")
FORBIDDEN = status(403, "Forbidden", "may not delete pods")
BUSY = status(503, "ServiceUnavailable", "soon")

MARK = "mark PreemptionByScheduler True"


@dataclass
class Room:
    """A preemptor and what is around it."""

    server: PodServer
    cluster: TableCluster
    preemptor: Preemptor
    metrics: SchedulerMetrics
    events: EventRecorder

    def add(self, name: str, cpu_milli: int, priority: int = 0, on: str = "", **fields: object) -> LivePod:
        pod = live_pod(name, shape(cpu_milli, priority=priority), node_name=on, **fields)
        self.cluster.set_pod(pod)
        return pod

    async def consider(self, pod: LivePod) -> str:
        return await self.preemptor.consider(pod, BareTasks().task_of(pod, 0.0))

    def value(self, name: str) -> float:
        return self.metrics.registry.get_sample_value(f"stowplan_preemption_{name}") or 0.0


@asynccontextmanager
async def room(*nodes: str, within_s: float = 5.0) -> AsyncGenerator[Room]:
    cluster, metrics = TableCluster(), SchedulerMetrics()
    for node in nodes or ("n",):
        cluster.set_node(node)
    async with PodServer() as server, ApiClient(server.access) as client:
        events = EventRecorder(client, "stowplan-scheduler", "test")
        settings = PreemptorSettings(
            SearchSettings(examines_all=True), within_s=within_s, first_pause_s=0.001, longest_pause_s=0.01
        )
        preemptor = Preemptor(
            cluster=cluster,
            filters_of=lambda one: CompiledFilters(cluster.state, one),
            client=client,
            statuses=StatusWriter(client),
            events=events,
            metrics=metrics,
            settings=settings,
            generator=Random(1),  # noqa: S311  (a test that can be repeated)
        )
        yield Room(server, cluster, preemptor, metrics, events)


def tell(story: Callable[[Room], Awaitable[None]], *nodes: str, within_s: float = 5.0) -> None:
    async def run() -> None:
        async with room(*nodes, within_s=within_s) as made:
            await story(made)

    asyncio.run(run())


def test_first_the_nomination_then_each_victim_is_marked_and_deleted_and_told() -> None:
    async def story(room: Room) -> None:
        room.add("a", 500, on="n")
        room.add("b", 500, on="n")
        assert await room.consider(room.add("urgent", 1000, 10)) == "n"
        assert room.server.sent[0][1] == "urgent"
        assert room.server.told("urgent") == ["nominate n"]
        assert room.server.told("a") == [MARK, "delete uid-a"]
        assert room.server.told("b") == [MARK, "delete uid-b"]
        condition = room.server.sent[1][2]["status"]["conditions"][0]
        assert condition["type"] == "DisruptionTarget"
        assert condition["message"] == "stowplan: preempting to accommodate a higher priority pod"
        assert room.events.health.waiting == 2
        assert (room.value("attempts_total"), room.value("victims_sum")) == (1.0, 2.0)

    tell(story)


def test_who_is_asked_again_waits_for_its_victims() -> None:
    async def story(room: Room) -> None:
        room.add("a", 1000, on="n")
        urgent = room.add("urgent", 1000, 10)
        assert await room.consider(urgent) == "n"
        sent = len(room.server.sent)
        assert await room.consider(urgent) == "n"  # before the watch has told
        room.cluster.change_pod("default/a", is_terminating=True, is_preempted=True)
        assert await room.consider(urgent) == "n"
        assert len(room.server.sent) == sent
        # Another pod of that name is no victim of ours.
        room.cluster.delete_pod("default/a")
        room.add("a", 1000, on="n", uid="another")
        assert await room.consider(urgent) == "n"
        assert room.server.told("a")[2:] == [MARK, "delete another"]

    tell(story)


def test_victims_that_are_being_deleted_already_are_left_to_it() -> None:
    async def story(room: Room) -> None:
        room.add("a", 1000, on="n", is_terminating=True)
        assert await room.consider(room.add("urgent", 1000, 10)) == "n"
        assert room.server.told("a") == []

    tell(story)


@pytest.mark.parametrize("answer", [BUSY, cut], ids=["busy", "cut"])
def test_what_may_succeed_a_moment_later_is_tried_again(answer: object) -> None:
    async def story(room: Room) -> None:
        room.add("a", 1000, on="n")
        room.server.faults["PATCH", "a"] = [answer, answer]  # pyright: ignore[reportArgumentType]
        room.server.faults["DELETE", "a"] = [answer, answer]  # pyright: ignore[reportArgumentType]
        assert await room.consider(room.add("urgent", 1000, 10)) == "n"
        told = room.server.told("a")
        assert set(told) == {MARK, "delete uid-a"}
        assert len(told) >= 6
        assert room.cluster.pods["default/urgent"].status.nominated_node == "n"

    tell(story)


@pytest.mark.parametrize(
    ("method", "answer"),
    [("PATCH", GONE), ("DELETE", GONE), ("DELETE", OTHER)],
    ids=["mark", "delete", "uid"],
)
def test_a_victim_that_is_gone_is_no_fault_and_no_event(method: str, answer: object) -> None:
    async def story(room: Room) -> None:
        room.add("a", 1000, on="n")
        room.server.faults[method, "a"] = [answer]  # pyright: ignore[reportArgumentType]
        assert await room.consider(room.add("urgent", 1000, 10)) == "n"
        assert "unmark" not in room.server.told("a")
        assert room.events.health.waiting == 0

    tell(story)


def test_when_nobody_can_be_ended_all_is_taken_back() -> None:
    async def story(room: Room) -> None:
        room.add("a", 1000, on="n")
        room.server.faults["DELETE", "a"] = [FORBIDDEN]
        with capture_logs() as logs:
            assert await room.consider(room.add("urgent", 1000, 10)) == ""
        assert room.server.told("a") == [MARK, "delete uid-a", "unmark"]
        assert room.server.told("urgent") == ["nominate n", "nominate nowhere"]
        assert room.cluster.pods["default/urgent"].status.nominated_node == ""
        assert not room.cluster.state.nominations.on
        (said,) = [entry for entry in logs if entry["event"] == "room is not made"]
        assert "may not delete pods" in said["failed"]["default/a"]

    tell(story)


def test_when_some_cannot_be_ended_it_says_who_was_and_keeps_the_place() -> None:
    async def story(room: Room) -> None:
        room.add("a", 500, on="n")
        room.add("b", 500, on="n")
        room.server.faults["DELETE", "a"] = [FORBIDDEN]
        with capture_logs() as logs:
            assert await room.consider(room.add("urgent", 1000, 10)) == "n"
        assert room.server.told("a")[-1] == "unmark"
        assert room.server.told("b") == [MARK, "delete uid-b"]
        assert room.server.told("urgent") == ["nominate n"]
        (said,) = [entry for entry in logs if entry["event"] == "room is made in part"]
        assert said["ended"] == ["default/b"]
        assert list(said["failed"]) == ["default/a"]

    tell(story)


def test_a_server_that_stays_away_is_given_up_after_a_while() -> None:
    async def story(room: Room) -> None:
        room.add("a", 1000, on="n")
        room.server.faults["DELETE", "a"] = [BUSY] * 1000
        assert await room.consider(room.add("urgent", 1000, 10)) == ""
        assert room.server.told("a")[-1] == "unmark"

    tell(story, within_s=0.1)


def test_without_a_nomination_nobody_is_ended() -> None:
    async def story(room: Room) -> None:
        room.add("a", 1000, on="n")
        urgent = room.add("urgent", 1000, 10)
        room.server.faults["PATCH", "urgent"] = [FORBIDDEN]
        with pytest.raises(KubernetesError, match="may not delete pods"):
            await room.consider(urgent)
        room.server.faults["PATCH", "urgent"] = [GONE]
        assert await room.consider(urgent) == ""
        assert room.server.told("a") == []
        assert not room.cluster.state.nominations.on

    tell(story)


def test_pods_that_need_no_room_or_may_not_have_it_cost_nothing() -> None:
    async def story(room: Room) -> None:
        room.add("a", 800, on="n")
        assert await room.consider(room.add("fits", 100, 10)) == ""
        assert await room.consider(room.add("polite", 1000, 10, can_preempt=False)) == ""
        assert await room.consider(room.add("low", 1000)) == ""
        assert await room.consider(live_pod("unknown", shape(1000, priority=10))) == ""
        placed = room.add("placed", 100, 10, on="n")
        assert await room.consider(placed) == ""
        old = room.add("new", 1000, 10)
        room.cluster.change_pod(old.key, is_terminating=True)
        assert await room.consider(old) == ""
        assert room.server.sent == []

    tell(story)


def test_a_nomination_that_leads_nowhere_is_withdrawn() -> None:
    async def story(room: Room) -> None:
        room.add("a", 1000, 10, on="n")
        pod = room.add("urgent", 1000, 10)
        room.cluster.nominate(pod, "n")
        assert await room.consider(room.cluster.pods[pod.key]) == ""
        assert room.server.told("urgent") == ["nominate nowhere"]
        assert not room.cluster.state.nominations.on

    tell(story)


def test_lower_pods_lose_their_nomination_for_the_node_and_it_is_no_harm_if_not() -> None:
    async def story(room: Room) -> None:
        room.add("a", 1000, on="n")
        for name, priority in (("low", 5), ("stubborn", 5), ("equal", 10)):
            pod = room.add(name, 1, priority)
            room.cluster.nominate(pod, "n")
        room.server.faults["PATCH", "stubborn"] = [FORBIDDEN]
        assert await room.consider(room.add("urgent", 999, 10)) == "n"
        assert room.server.told("low") == ["nominate nowhere"]
        assert room.server.told("equal") == []
        assert room.server.told("a") == [MARK, "delete uid-a"]
        assert set(room.cluster.state.nominations.on["n"]) == {
            "default/stubborn",
            "default/equal",
            "default/urgent",
        }

    tell(story)


def test_two_at_once_do_not_count_on_the_same_room() -> None:
    async def story(room: Room) -> None:
        room.add("a", 1000, on="n")
        room.add("b", 1000, on="m")
        pods = [room.add(name, 1000, 10) for name in ("one", "two")]
        assert set(await asyncio.gather(*map(room.consider, pods))) == {"n", "m"}
        assert room.server.told("a") == [MARK, "delete uid-a"]
        assert room.server.told("b") == [MARK, "delete uid-b"]

    tell(story, "n", "m")


def test_budgets_and_start_times_come_from_the_cluster() -> None:
    async def story(room: Room) -> None:
        kept = dataclasses.replace(shape(1000), labels=(("app", "kept"),))
        room.cluster.set_pod(live_pod("a", kept, node_name="n"))
        room.add("b", 1000, 9, on="m", started_s=5.0)
        room.add("c", 1000, 9, on="o", started_s=7.0)
        room.cluster.budgets["default/of-kept"] = budget("kept", 0)
        assert await room.consider(room.add("urgent", 1000, 10)) == "o"
        assert room.server.told("c") == [MARK, "delete uid-c"]
        assert room.value("pdb_violations_total") == 0.0

    tell(story, "n", "m", "o")
