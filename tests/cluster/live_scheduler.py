"""A scheduler of ours on a test cluster, in this process: feed, engine, actuator and loop, for a block."""

import asyncio
import dataclasses
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import numpy as np

from stowplan.core.domain import ClusterState
from stowplan.core.engine import Engine
from stowplan.core.policy import make_policy
from stowplan.kube.api.access import Access
from stowplan.kube.api.binder import Binder
from stowplan.kube.api.client import ApiClient
from stowplan.kube.api.recorder import EventRecorder
from stowplan.kube.api.reflection import ReflectorState
from stowplan.kube.api.resources import EVENTS, PODS
from stowplan.kube.api.status import StatusWriter
from stowplan.kube.live.feed import ClusterFeed
from stowplan.kube.live.pod import LivePod
from stowplan.serve.metrics import SchedulerMetrics
from stowplan.serve.preemption import Preemptor
from stowplan.serve.scheduler.bind import BinderActuator
from stowplan.serve.scheduler.gate import GateActuator
from stowplan.serve.scheduler.interface import Actuator, Mode, ShadowComparison
from stowplan.serve.scheduler.loop import Scheduler
from stowplan.serve.scheduler.settings import SchedulerSettings
from stowplan.serve.scheduler.shadow import ShadowActuator
from stowplan.serve.scheduler.volumes import VolumeClaimer
from tests.scheduler_cases import BareTasks, until

Json = dict[str, Any]

_GOOD_BYE_S = 0.3
_AT_REST = (ReflectorState.WATCHING, ReflectorState.ABSENT)


@dataclasses.dataclass
class Live:
    """A running scheduler and what a test asks of it and of the cluster."""

    client: ApiClient
    feed: ClusterFeed
    scheduler: Scheduler
    metrics: SchedulerMetrics
    compared: list[ShadowComparison]

    async def pod(self, namespace: str, name: str) -> Json:
        return msgspec.json.decode(await self.client.get(PODS, name, namespace))

    async def create(self, manifest: Json) -> None:
        await self.client.create(PODS, manifest, manifest["metadata"]["namespace"])

    async def events(self, namespace: str, reason: str) -> list[str]:
        """Notes of the events with a reason."""
        query = {"fieldSelector": f"reason={reason}"}
        page = await self.client.page(EVENTS, namespace, query=query)
        return [msgspec.json.decode(item)["note"] for item in page.items]

    async def wait(self, holds: Callable[[], object], within_s: float = 60.0) -> None:
        await until(holds, within_s)

    def is_on(self, key: str) -> str:
        """The node of a pod, as the watch has shown it."""
        pod = self.feed.pods.get(key)
        return pod.node_name if pod is not None else ""

    def status_of(self, key: str) -> str:
        pod = self.feed.pods.get(key)
        return pod.status.message if pod is not None else ""


@asynccontextmanager
async def scheduling(
    access: Access,
    namespace: str,
    mode: Mode = Mode.BINDER,
    settings: SchedulerSettings | None = None,
    *,
    makes_room: bool = False,
    **options: Any,  # noqa: ANN401 - of the actuator
) -> AsyncGenerator[Live]:
    """Run a scheduler for the pods of one namespace for the duration of a block."""
    metrics = SchedulerMetrics()
    compared: list[ShadowComparison] = []
    async with ApiClient(access) as client:
        feed = ClusterFeed(client, ClusterState())
        engine = Engine(
            feed.state,
            make_policy("srpt"),
            rng=np.random.default_rng(1),
            fallback=make_policy("kube-scheduler"),
            explains=True,
        )
        tasks = BareTasks()
        events = EventRecorder(client, "stowplan-scheduler", "test")
        actuator: Actuator
        match mode:
            case Mode.GATE:
                actuator = GateActuator(client, feed, **options)
            case Mode.SHADOW:
                actuator = ShadowActuator(feed, engine, tasks, compared.append)
            case _:
                actuator = BinderActuator(Binder(client), VolumeClaimer(client, feed, **options))
        preemptor = None
        if makes_room:
            preemptor = Preemptor(
                cluster=feed,
                filters_of=engine.filters_of,
                client=client,
                statuses=StatusWriter(client),
                events=events,
                metrics=metrics,
            )
        scheduler = Scheduler(
            feed=feed,
            engine=engine,
            tasks=tasks,
            actuator=actuator,
            selects=_selection(mode, namespace),
            statuses=None if mode is Mode.SHADOW else StatusWriter(client),
            events=None if mode is Mode.SHADOW else events,
            preemptor=preemptor,
            metrics=metrics,
            settings=settings,
        )
        running = [asyncio.create_task(work) for work in (feed.run(), events.run(), scheduler.run())]
        try:
            # All watches stand: a connection that is cancelled while it is made is never closed by asyncio.
            await until(lambda: all(one.state in _AT_REST for one in feed.health.values()), 60.0)
            yield Live(client, feed, scheduler, metrics, compared)
        finally:
            await scheduler.drain(5.0)
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
    # Requests that were cancelled say good-bye by TLS; asyncio has no way to wait for that.
    await asyncio.sleep(_GOOD_BYE_S)


def _selection(mode: Mode, namespace: str) -> Callable[[LivePod], bool]:
    def selects(pod: LivePod) -> bool:
        if pod.namespace != namespace:
            return False
        if mode is Mode.GATE:
            return "stowplan.io/placement" in pod.shape.scheduling_gates
        return mode is Mode.SHADOW or pod.shape.scheduler_name == "stowplan"

    return selects
