"""The loop: pods in, placements out, reservations kept and given up as it becomes known what came of them."""

import asyncio
import dataclasses
from collections.abc import Mapping, Sequence

from stowplan.core.domain import PendingTask, RunningTask, validate_state
from stowplan.core.engine import CycleReport
from stowplan.kube.api.binder import Bound, Elsewhere, Gone, NotBound, Unknown
from stowplan.kube.api.errors import KubernetesError
from stowplan.kube.api.status import SchedulingStatus
from stowplan.kube.live.listener import ClusterChange
from stowplan.kube.live.pod import LivePod
from stowplan.serve.scheduler.queue import QueueTimes
from stowplan.serve.scheduler.settings import SchedulerSettings
from tests.scheduler_cases import Bench, live_pod, running, shape, until

QUICK = SchedulerSettings(
    unknown_s=0.05, debounce_s=0.001, queue=QueueTimes(first_backoff_s=0.02, longest_backoff_s=0.1)
)


def bench(*nodes: str, **more: object) -> Bench:
    made = Bench(settings=QUICK, **more)  # pyright: ignore[reportArgumentType]
    for node in nodes:
        made.feed.set_node(node)
    return made


def test_a_burst_of_pods_is_placed_and_all_is_as_the_watch_says() -> None:
    async def test() -> None:
        b = bench("n1", "n2")
        for number in range(10):
            b.feed.set_pod(live_pod(f"p{number}"))
        async with running(b):
            await until(lambda: len(b.actuator.acts) == 10 and not b.scheduler.status.under_way)
            for number in range(10, 15):
                b.feed.set_pod(live_pod(f"p{number}"))
            await until(lambda: len(b.actuator.acts) == 15 and not b.scheduler.status.under_way)
            assert not any(b.scheduler.status.queues.values())
        assert len(b.feed.state.pods) == 15
        validate_state(b.feed.state)
        assert b.value("schedule_attempts_total", result="scheduled", profile="stowplan") == 15
        assert b.value("pod_scheduling_attempts_count") == 15

    asyncio.run(test())


def test_pods_of_others_are_left_alone() -> None:
    async def test() -> None:
        b = bench("n1")
        b.feed.set_pod(live_pod("other", dataclasses.replace(shape(), scheduler_name="default-scheduler")))
        b.feed.set_pod(live_pod("ours"))
        async with running(b):
            await until(lambda: b.actuator.acts)
        assert b.actuator.acts == [("ours", "n1")]

    asyncio.run(test())


def test_arrival_is_by_creation_also_after_a_restart() -> None:
    async def test() -> None:
        b = bench()
        b.feed.set_pod(live_pod("young", created_s=2_000.0))
        b.feed.set_pod(live_pod("old", created_s=1_000.0))
        async with running(b):
            await until(lambda: b.count("unschedulable") == 2)
            b.feed.set_node("n1", cpu_milli=100)
            await until(lambda: b.actuator.acts)
        assert b.actuator.acts == [("old", "n1")]

    asyncio.run(test())


def test_a_pod_that_found_no_node_goes_where_another_ended_and_only_events_that_help_wake_it() -> None:
    async def test() -> None:
        b = bench("n1")
        b.feed.set_pod(live_pod("big", shape(900), node_name="n1", phase="Running"))
        b.feed.set_pod(live_pod("next", shape(500)))
        async with running(b):
            await until(lambda: b.count("unschedulable") == 1)
            cycle = b.scheduler.status.last_cycle
            b.feed.changed(ClusterChange.STORAGE)
            b.feed.changed(ClusterChange.BUDGET)
            await asyncio.sleep(0.05)
            assert b.scheduler.status.last_cycle is cycle
            b.feed.end("default/big")
            await until(lambda: b.actuator.acts == [("next", "n1")])

    asyncio.run(test())


def test_a_refused_binding_gives_its_room_back_and_is_tried_again_after_a_pause() -> None:
    async def test() -> None:
        b = bench("n1")
        error = KubernetesError("the server is busy")
        b.actuator.answers["p"] = [NotBound(error, is_transient=True), NotBound(error, is_transient=False)]
        b.feed.set_pod(live_pod("p"))
        async with running(b):
            await until(lambda: len(b.actuator.acts) == 3 and not b.scheduler.status.under_way)
            assert b.scheduler.status.degraded == {}  # the last one succeeded
        assert b.value("lost_bindings_total", reason="refused") == 2
        assert b.value("schedule_attempts_total", result="error", profile="stowplan") == 2
        assert len(b.feed.state.pods) == 1
        validate_state(b.feed.state)

    asyncio.run(test())


def test_what_is_refused_for_good_shows_as_degraded() -> None:
    async def test() -> None:
        b = bench("n1")
        refused = NotBound(KubernetesError("grant the verb"), is_transient=False)
        b.actuator.answers["p"] = [refused] * 1000
        b.feed.set_pod(live_pod("p"))
        async with running(b):
            await until(lambda: b.scheduler.status.degraded == {"placements": "grant the verb"})

    asyncio.run(test())


def test_a_race_that_is_lost_frees_the_reservation_and_not_what_the_winner_holds() -> None:
    async def test() -> None:
        b = bench("n1", "n2")
        b.actuator.answers["lost"] = [Elsewhere("n2")]
        b.actuator.answers["gone"] = [Gone("deleted")]
        b.feed.set_pod(live_pod("lost"))
        b.feed.set_pod(live_pod("gone"))
        async with running(b):
            await until(lambda: len(b.actuator.acts) == 2 and not b.scheduler.status.under_way)
            assert not b.feed.state.pods
            b.feed.bind("default/lost", "n2")
            b.feed.delete_pod("default/gone")
            assert not any(b.scheduler.status.queues.values())
        assert b.feed.state.pods["default/lost"][1] == b.feed.state.row("n2")
        assert b.value("lost_bindings_total", reason="elsewhere") == 1
        assert b.value("lost_bindings_total", reason="gone") == 1

    asyncio.run(test())


def test_the_watch_may_be_faster_than_the_answer() -> None:
    async def test() -> None:
        b = bench("n1", "n2")
        b.actuator.gate = asyncio.Event()
        b.actuator.answers["moved"] = [Elsewhere("n2")]
        b.actuator.answers["gone"] = [NotBound(KubernetesError("no such pod"), is_transient=True)]
        b.feed.set_pod(live_pod("moved"))
        b.feed.set_pod(live_pod("gone"))
        async with running(b):
            await until(lambda: len(b.actuator.acts) == 2)
            b.feed.bind("default/moved", "n2")
            b.feed.delete_pod("default/gone")
            b.actuator.gate.set()
            await until(lambda: not b.scheduler.status.under_way)
            assert not any(b.scheduler.status.queues.values())
        assert list(b.feed.state.pods) == ["default/moved"]
        validate_state(b.feed.state)

    asyncio.run(test())


def test_an_unknown_outcome_keeps_the_room_and_the_same_node_is_tried_again() -> None:
    async def test() -> None:
        b = bench("n1", "n2")
        b.actuator.answers["p"] = [Unknown("no answer"), Unknown("no answer"), Bound("?")]
        b.feed.set_pod(live_pod("p"))
        async with running(b):
            await until(lambda: len(b.actuator.acts) == 3 and not b.scheduler.status.under_way)
        assert len(set(b.actuator.acts)) == 1
        assert list(b.feed.state.pods) == ["default/p"]
        assert b.value("lost_bindings_total", reason="unknown") == 2

    asyncio.run(test())


def test_the_watch_ends_what_is_unknown() -> None:
    async def test() -> None:
        b = bench("n1", "n2")
        b.settings = dataclasses.replace(QUICK, unknown_s=60.0)
        names = ("bound", "moved", "deleted")
        for name in names:
            b.actuator.answers[name] = [Unknown("no answer")]
            b.feed.set_pod(live_pod(name))
        async with running(b):
            await until(lambda: b.value("lost_bindings_total", reason="unknown") == 3)
            node_of = dict(b.actuator.acts)
            other = {"n1": "n2", "n2": "n1"}[node_of["moved"]]
            b.feed.bind("default/bound", node_of["bound"])
            b.feed.bind("default/moved", other)
            b.feed.delete_pod("default/deleted")
            await until(lambda: not b.scheduler.status.under_way)
        assert {key: b.feed.state.node(row).name for key, (_, row) in b.feed.state.pods.items()} == {
            "default/bound": node_of["bound"],
            "default/moved": other,
        }
        assert b.value("schedule_attempts_total", result="scheduled", profile="stowplan") == 1
        assert b.value("lost_bindings_total", reason="elsewhere") == 1

    asyncio.run(test())


def test_a_namesake_that_comes_while_the_binding_is_under_way_is_placed_on_its_own() -> None:
    async def test() -> None:
        b = bench("n1")
        b.actuator.gate = asyncio.Event()
        b.feed.set_pod(live_pod("p", shape(800)))
        b.actuator.answers["p"] = [Gone("another pod has its name")]
        async with running(b):
            await until(lambda: b.actuator.acts)
            b.feed.set_pod(live_pod("p", shape(800), uid="second"))
            b.actuator.gate.set()
            await until(lambda: len(b.actuator.acts) == 2 and not b.scheduler.status.under_way)
        assert b.feed.pods["default/p"].uid == "second"
        assert b.feed.state.pods["default/p"][0].uid == "second"
        validate_state(b.feed.state)

    asyncio.run(test())


def test_a_stale_watch_event_does_not_place_a_bound_pod_again() -> None:
    async def test() -> None:
        b = bench("n1")
        b.actuator.is_shown = False  # the binding succeeded, the watch lags behind
        b.feed.set_pod(live_pod("p"))
        async with running(b):
            await until(lambda: b.actuator.acts and not b.scheduler.status.under_way)
            b.feed.change_pod("default/p", status=SchedulingStatus("Unschedulable", "old"))
            await asyncio.sleep(0.05)
            assert not any(b.scheduler.status.queues.values())
            b.feed.bind("default/p", "n1")
        assert b.actuator.acts == [("p", "n1")]

    asyncio.run(test())


def test_nothing_is_decided_before_the_cluster_is_known_or_by_who_does_not_lead() -> None:
    async def test() -> None:
        b = bench("n1")
        b.feed.is_settled = False
        b.is_leader = False
        b.feed.set_pod(live_pod("p"))
        async with running(b):
            await asyncio.sleep(0.1)
            assert b.count("active") == 0
            b.feed.is_settled = True
            await until(lambda: b.count("active") == 1)
            await asyncio.sleep(0.05)
            assert not b.actuator.acts
            b.is_leader = True
            b.feed.set_pod(live_pod("q"))
            await until(lambda: len(b.actuator.acts) == 2)

    asyncio.run(test())


def test_after_the_lease_was_lost_and_regained_what_is_unknown_is_tried_again_and_the_rest_goes_on() -> None:
    async def test() -> None:
        b = bench("n1", "n2")
        scheduler = b.make()
        b.actuator.gate = asyncio.Event()
        b.feed.set_pod(live_pod("p", shape(900)))
        first = asyncio.create_task(scheduler.run())
        await until(lambda: b.actuator.acts)
        first.cancel()
        await asyncio.wait({first})
        assert scheduler.status.under_way == 1
        assert list(b.feed.state.pods) == ["default/p"]
        b.feed.set_pod(live_pod("q", shape(900)))
        b.actuator.gate.set()
        second = asyncio.create_task(scheduler.run())
        await until(lambda: len(b.actuator.acts) == 3 and not scheduler.status.under_way)
        assert b.actuator.acts[0] == b.actuator.acts[1]
        assert {name for name, _ in b.actuator.acts} == {"p", "q"}
        validate_state(b.feed.state)
        second.cancel()
        await asyncio.wait({second})

    asyncio.run(test())


def test_a_node_that_goes_takes_with_it_what_is_unknown_there() -> None:
    async def test() -> None:
        b = bench("n1")
        b.actuator.answers["p"] = [Unknown("no answer")] * 3
        b.feed.set_pod(live_pod("p"))
        async with running(b):
            await until(lambda: b.actuator.acts)
            b.feed.set_node("n2")
            b.feed.lose_assumption("default/p")
            b.feed.remove_node("n1")
            await until(lambda: b.actuator.acts[-1] == ("p", "n2"))
            await until(lambda: not b.scheduler.status.under_way)
        assert b.feed.state.pods["default/p"][1] == b.feed.state.row("n2")

    asyncio.run(test())


def test_a_node_that_went_while_another_led_leaves_its_pods_to_be_placed_once() -> None:
    async def test() -> None:
        b = bench("n1")
        scheduler = b.make()
        b.actuator.gate = asyncio.Event()
        b.feed.set_pod(live_pod("p"))
        first = asyncio.create_task(scheduler.run())
        await until(lambda: b.actuator.acts)
        first.cancel()
        await asyncio.wait({first})
        b.feed.set_node("n2")
        b.feed.lose_assumption("default/p")
        b.feed.remove_node("n1")
        b.actuator.gate.set()
        second = asyncio.create_task(scheduler.run())
        await until(lambda: len(b.actuator.acts) == 2 and not scheduler.status.under_way)
        await asyncio.sleep(0.02)
        assert b.actuator.acts == [("p", "n1"), ("p", "n2")]
        second.cancel()
        await asyncio.wait({second})

    asyncio.run(test())


def test_what_another_leader_did_meanwhile_is_taken_over() -> None:
    async def test() -> None:
        b = bench("n1", "n2")
        scheduler = b.make()
        b.actuator.gate = asyncio.Event()
        b.feed.set_pod(live_pod("p"))
        first = asyncio.create_task(scheduler.run())
        await until(lambda: b.actuator.acts)
        first.cancel()
        await asyncio.wait({first})
        b.feed.bind("default/p", {"n1": "n2", "n2": "n1"}[b.actuator.acts[0][1]])
        assert scheduler.status.under_way == 0
        second = asyncio.create_task(scheduler.run())
        b.feed.set_pod(live_pod("q"))
        b.actuator.gate.set()
        await until(lambda: len(b.actuator.acts) == 2)
        assert b.actuator.acts[1][0] == "q"
        second.cancel()
        await asyncio.wait({second})

    asyncio.run(test())


def test_draining_begins_nothing_new_and_waits_for_what_is_under_way() -> None:
    async def test() -> None:
        b = bench("n1")
        b.actuator.gate = asyncio.Event()
        b.feed.set_pod(live_pod("p"))
        async with running(b) as scheduler:
            await until(lambda: b.actuator.acts)
            assert await scheduler.drain(0.02) == 1
            b.feed.set_pod(live_pod("q"))
            b.actuator.gate.set()
            assert await scheduler.drain(20.0) == 0
            await asyncio.sleep(0.05)
            assert scheduler.status.is_draining
        assert [name for name, _ in b.actuator.acts] == ["p"]

    asyncio.run(test())


def test_one_cycle_looks_at_so_many_and_the_next_takes_the_rest() -> None:
    async def test() -> None:
        b = bench(*(f"n{number}" for number in range(20)))
        b.settings = dataclasses.replace(QUICK, placements_per_cycle=64)
        for number in range(150):
            b.feed.set_pod(live_pod(f"p{number:03}"))
        reports: list[CycleReport] = []

        class Sink:
            def begin(
                self, now_s: float, pending: Sequence[PendingTask], running: Mapping[str, RunningTask]
            ) -> object:
                del now_s, running
                return len(pending)

            def end(self, begun: object, report: CycleReport, pods: Mapping[str, LivePod]) -> None:
                assert begun == len(pods) == len(report.placed) + len(report.deferred)
                reports.append(report)

        b.more["decisions"] = Sink()
        async with running(b):
            await until(lambda: len(b.actuator.acts) == 150)
        assert [len(report.placed) for report in reports] == [64, 64, 22]
        assert [len(report.deferred) for report in reports] == [86, 22, 0]
        assert [name for name, _ in b.actuator.acts] == sorted(name for name, _ in b.actuator.acts)

    asyncio.run(test())


def test_no_more_is_decided_while_too_much_waits_for_the_api_server() -> None:
    async def test() -> None:
        b = bench("n1")
        b.actuator.backlog = QUICK.bindings
        b.feed.set_pod(live_pod("p"))
        async with running(b):
            await asyncio.sleep(0.05)
            assert (b.count("active"), b.actuator.acts) == (1, [])
            b.actuator.backlog = 0
            b.feed.set_pod(live_pod("q"))
            await until(lambda: len(b.actuator.acts) == 2)

    asyncio.run(test())
