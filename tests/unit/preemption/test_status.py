"""Scheduler and preemptor both write a waiting pod's status: the nomination one, the condition the other."""

import asyncio

from stowplan.kube.api.client import ApiClient
from stowplan.kube.api.recorder import EventRecorder
from stowplan.kube.api.status import StatusWriter
from stowplan.serve.preemption import Preemptor
from stowplan.serve.scheduler.settings import SchedulerSettings
from tests.scheduler_cases import Bench, live_pod, running, shape, until
from tests.unit.preemption.pod_server import PodServer, TableCluster


def test_a_nomination_is_written_once_and_by_the_preemptor() -> None:
    cluster = TableCluster()
    bench = Bench(feed=cluster, settings=SchedulerSettings(debounce_s=0.001))
    cluster.set_node("n")
    cluster.set_pod(live_pod("a", shape(1000), node_name="n", phase="Running"))

    async def story() -> None:
        async with PodServer() as server, ApiClient(server.access) as client:
            statuses, events = StatusWriter(client), EventRecorder(client, "stowplan-scheduler", "test")
            preemptor = Preemptor(
                cluster=cluster,
                filters_of=bench.engine.filters_of,
                client=client,
                statuses=statuses,
                events=events,
                metrics=bench.metrics,
            )
            bench.more |= {"statuses": statuses, "events": events, "preemptor": preemptor}
            async with running(bench):
                cluster.set_pod(live_pod("urgent", shape(1000, priority=10)))
                await until(lambda: len(server.told("urgent")) > 1 and "delete uid-a" in server.told("a"))
                cluster.set_pod(cluster.pods["default/urgent"])  # the watch tells what was written
                cluster.delete_pod("default/a")
                await until(lambda: bench.actuator.acts)
            assert bench.actuator.acts == [("urgent", "n")]
            assert server.told("urgent") == ["nominate n", "mark Unschedulable False"]

    asyncio.run(story())
