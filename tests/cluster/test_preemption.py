"""Room made on a real API server: our preemptor does what the real kube-scheduler does, pod for pod."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import pytest

from stowplan.core.constraints import CompiledFilters
from stowplan.core.domain import ClusterState
from stowplan.core.preemption import SearchSettings
from stowplan.kube.api.access import from_kubeconfig
from stowplan.kube.api.client import ApiClient
from stowplan.kube.api.recorder import EventRecorder
from stowplan.kube.api.resources import EVENTS
from stowplan.kube.api.status import StatusWriter
from stowplan.kube.live.feed import ClusterFeed
from stowplan.kube.manifest import load_objects
from stowplan.serve.metrics import SchedulerMetrics
from stowplan.serve.preemption import Preemptor, PreemptorSettings
from testbed.differential.generator import generate
from testbed.differential.preemption import Crowd, Emptying
from testbed.differential.real_room import RoomMade
from testbed.differential.real_scheduler import RealScheduler
from testbed.errors import MissingPrerequisite
from testbed.spec import Json
from tests.scheduler_cases import BareTasks, until

FIRST_SEED = 2_000_000
NODES = 6
CASES = 4


@pytest.fixture(scope="module")
def real(request: pytest.FixtureRequest, repository: Path) -> Iterator[RealScheduler]:
    failed_before = request.session.testsfailed
    try:
        with RealScheduler() as running:
            yield running
            if request.session.testsfailed > failed_before:
                running.keep_logs(repository / "out" / "cluster-logs")
    except MissingPrerequisite as missing:
        pytest.skip(str(missing))


def is_clear(said: Emptying) -> bool:
    """Whether preemption has one answer, and it is not the simplest."""
    return not said.ineligible and len(said.victims) > 1 and len(said.equally_good) == 1


def cases(wanted: int) -> Iterator[tuple[Sequence[Json], str, Emptying]]:
    """Clusters with a pod that needs room, what we expect, and all other pods that are nominated."""
    found = 0
    for seed in range(FIRST_SEED, FIRST_SEED + 200):
        objects = generate(seed, NODES, "preemption").objects
        loaded = load_objects(objects)
        crowd = Crowd(loaded, objects)
        for pod in loaded.pending:
            compiled = CompiledFilters(loaded.state, pod.shape)
            if pod.shape.scheduling_gates or pod.shape.resource_claims or compiled.feasible.any():
                continue
            said = crowd.emptying(pod.key, compiled)
            if is_clear(said):
                yield objects, pod.key, said
                found += 1
                break
        if found == wanted:
            return
    raise AssertionError(f"only {found} of {wanted} clusters have a pod that needs room")


def expected(objects: Sequence[Json], key: str, said: Emptying) -> RoomMade:
    (node,) = said.equally_good
    loaded = load_objects(objects)
    mine = next(pod for pod in loaded.pending if pod.key == key)
    there = loaded.state.nominations.on.get(node, {})
    ended = {
        f"{one['metadata']['namespace']}/{one['metadata']['name']}"
        for one in objects
        if one["kind"] == "Pod" and "deletionTimestamp" in one["metadata"]
    }
    return RoomMade(
        node,
        frozenset(said.victims[node][0]) - ended,
        frozenset(one for one, pod in there.items() if pod.shape.priority < mine.shape.priority),
    )


async def ours(real: RealScheduler, key: str) -> tuple[str, list[str], SchedulerMetrics]:
    """Let our preemptor make room; return the node, whom the events are about, and the metrics."""
    metrics = SchedulerMetrics()
    async with ApiClient(from_kubeconfig([real.kubeconfig])) as client:
        feed = ClusterFeed(client, ClusterState())
        events = EventRecorder(client, "stowplan-scheduler", "test")
        preemptor = Preemptor(
            cluster=feed,
            filters_of=lambda shape: CompiledFilters(feed.state, shape),
            client=client,
            statuses=StatusWriter(client),
            events=events,
            metrics=metrics,
            settings=PreemptorSettings(search=SearchSettings(examines_all=True)),
            generator=Random(1),  # noqa: S311  (a test that can be repeated)
        )
        following = asyncio.create_task(feed.run())
        try:
            await until(lambda: feed.is_settled and key in feed.pods, 30.0)
            pod = feed.pods[key]
            node = await preemptor.consider(pod, BareTasks().task_of(pod, 0.0))
            # Asked again at once, before the watch has told of anything: it waits for its victims.
            assert await preemptor.consider(pod, BareTasks().task_of(pod, 0.0)) == node
            await events.flush()
            page = await client.page(EVENTS, query={"fieldSelector": "reason=Preempted"})
            told = [item for item in page.items if pod.uid.encode() in bytes(item)]
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
    return node, [bytes(one).decode() for one in told], metrics


def test_what_kube_scheduler_does_for_a_pod_is_what_we_do(real: RealScheduler) -> None:
    for objects, key, said in cases(CASES):
        wanted = expected(objects, key, said)
        theirs = real.make_room(objects, key)
        assert theirs == wanted, key
        with real.holding(objects) as held:
            pod = held.pending[key]
            held.release(pod)
            node, events, metrics = asyncio.run(ours(real, key))
            assert node == wanted.node
            assert held.room_made(pod) == theirs, key
        assert len(events) == len(wanted.victims)
        assert metrics.registry.get_sample_value("stowplan_preemption_attempts_total") == 2.0
        assert metrics.registry.get_sample_value("stowplan_preemption_victims_sum") == len(
            said.victims[node][0]
        )
