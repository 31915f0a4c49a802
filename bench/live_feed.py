"""Pod events per second that the live cluster takes on one core, and the memory that it holds pods in.

Beside a server (`bench/live/roles.py`) runs a process with the whole feed: reflectors of all kinds, the
state, the pods and one listener. Twenty pods are one workflow, of one template. Status updates change what
the feed keeps of pods that it knows; lives show pods from their creation to their end: created, bound,
running, succeeded, deleted. The rate is events per second of the process's own processor time.
"""

import asyncio
import gc
import sys
from time import perf_counter

from bench.harness import Row, median_ci95
from bench.live.roles import (
    EVENTS,
    PODS_HELD,
    Server,
    listen,
    measured,
    memory,
    memory_row,
    play,
    resident_bytes,
    until_done,
)
from bench.live.templates import NODES_HELD, Json, Template, node, pod
from stowplan.core.domain import ClusterState
from stowplan.kube.api.access import Access
from stowplan.kube.api.client import ApiClient
from stowplan.kube.api.resources import NODES, PODS
from stowplan.kube.live.feed import ClusterFeed
from stowplan.kube.live.listener import ClusterChange
from stowplan.kube.live.pod import LivePod

MODULE = "bench.live_feed"
STAGES = ("created", "bound", "running", "succeeded")


# ── what is served ──


def task(stage: str) -> Json:
    """A pod of a workflow as it is at one stage of its life; `@W@` is its workflow, `@K@` its node."""
    made = pod()
    name = "workflow-@W@"
    made["metadata"]["name"] = f"{name}-task-@N@"
    made["metadata"]["labels"] = {
        "workflows.argoproj.io/completed": str(stage == "succeeded").lower(),
        "workflows.argoproj.io/workflow": name,
    }
    made["metadata"]["annotations"] = {
        "workflows.argoproj.io/node-name": f"{name}.stage-3.task(17:@N@)",
    }
    made["metadata"]["ownerReferences"][0] |= {"name": name, "uid": "9-@W@", "controller": True}
    made["spec"]["nodeName"] = "node-@K@"
    status = made["status"]
    if stage == "created":
        del made["spec"]["nodeName"]
        made["status"] = {"phase": "Pending", "qosClass": "Guaranteed"}
    elif stage == "bound":
        made["status"] = {
            "phase": "Pending",
            "qosClass": "Guaranteed",
            "conditions": [{"type": "PodScheduled", "status": "True"}],
        }
    elif stage == "succeeded":
        status["phase"] = "Succeeded"
        ended = {"exitCode": 0, "reason": "Completed", "startedAt": "2026-11-30T12:00:02Z"}
        ended["finishedAt"] = "2026-11-30T12:01:32Z"
        for one in status["containerStatuses"]:
            one["state"] = {"terminated": ended}
    else:
        status["startTime"] = "2026-11-30T12:00:01Z"
        if stage == "noted":
            status["message"] = "step @V@"
    return made


class WorkflowServer(Server):
    """Serves pods of workflows on nodes; its watch tells status updates, or whole lives of further pods."""

    def __init__(self, pods: int, nodes: int, events: int, *, has_lives: bool) -> None:
        super().__init__(pods, nodes, events)
        self._held = {
            PODS.path(): (Template(task("running")), pods),
            NODES.path(): (Template(node()), nodes),
        }
        self._lives = [Template(task(stage)) for stage in STAGES] if has_lives else []
        self._noted = Template(task("noted"))
        self._kinds = len(ClusterFeed(ApiClient(Access(server="")), ClusterState()).health)

    async def _change(self, writer: asyncio.StreamWriter, template: Template, count: int) -> None:
        del template  # what is listed; other templates show the changes
        while self.watches < self._kinds:  # noqa: ASYNC110 - all is listed before anything changes
            await asyncio.sleep(0.01)
        if not self._lives:
            await super()._change(writer, self._noted, count)
            return
        stages = [(b"MODIFIED", life) for life in self._lives]
        stages.append((b"DELETED", self._lives[-1]))
        batch = 500  # lives overlap: all of a batch are created, then all are bound …
        for number in range(self._events):
            begin = count + number // (batch * len(stages)) * batch
            event, life = stages[number // batch % len(stages)]
            self._tell(writer, event, life.fill(begin + number % batch, count + number + 1))
            await writer.drain()


async def serve(pods: int, nodes: int, events: int, has_lives: int) -> None:
    """Serve pods of workflows that change, or live."""
    await listen(WorkflowServer(pods, nodes, events, has_lives=bool(has_lives)))


# ── what is measured ──


class Counting:
    """A listener that notes when a number of changes of pods came."""

    def __init__(self, changes: int) -> None:
        self.is_done = asyncio.Event()
        self._left = changes

    def pod_set(self, before: LivePod | None, now: LivePod) -> None:
        """A pod is new, or changed."""
        del before, now
        self._count()

    def pod_gone(self, last: LivePod) -> None:
        """A pod is gone."""
        del last
        self._count()

    def cluster_changed(self, change: ClusterChange) -> None:
        """Something else changed: not counted."""

    def _count(self) -> None:
        self._left -= 1
        if self._left == 0:
            self.is_done.set()


async def settled(feed: ClusterFeed) -> None:
    """Wait until all kinds are listed."""
    while not feed.is_settled:  # noqa: ASYNC110 - a property is what there is
        await asyncio.sleep(0.01)


async def count_events(port: int, pods: int, events: int) -> Json:
    """Take all events of the server; seconds of processor and of the clock."""
    async with ApiClient(Access(server=f"http://127.0.0.1:{port}")) as client:
        feed = ClusterFeed(client, ClusterState())
        counting = Counting(pods + events)
        feed.listen(counting)
        running = asyncio.create_task(feed.run())
        await settled(feed)
        if len(feed.state.pods) != pods:
            raise ValueError(f"{len(feed.state.pods)} pods are bound, not {pods}")
        taken = await until_done(counting.is_done)
        running.cancel()
        await asyncio.wait([running])
        return taken


async def hold_cluster(port: int) -> Json:
    """List all pods and nodes and keep them; resident bytes then, at most, and before."""
    async with ApiClient(Access(server=f"http://127.0.0.1:{port}")) as client:
        feed = ClusterFeed(client, ClusterState())
        before_bytes = resident_bytes()
        begin_s = perf_counter()
        running = asyncio.create_task(feed.run())
        await settled(feed)
        listed_s = perf_counter() - begin_s
        gc.collect()
        taken = {
            "pods": len(feed.pods),
            "bound": len(feed.state.pods),
            "nodes": feed.state.node_count,
            **memory(before_bytes, listed_s),
        }
        running.cancel()
        await asyncio.wait([running])
        return taken


def run(*, quick: bool = False) -> list[Row]:
    """Measure the rates several times and the memory once."""
    events, repeats, known = (2_500, 1, 500) if quick else (EVENTS, 6, 5_000)
    nodes = NODES_HELD
    updates, lives = (
        [
            measured(MODULE, "events", served=(known, nodes, events, has_lives), asked=(known, events))
            for _ in range(repeats)
        ]
        for has_lives in (0, 1)
    )
    pods = 1_000 if quick else PODS_HELD
    held, alone = (measured(MODULE, "hold", served=(count, nodes, 0, 0)) for count in (pods, 0))
    if (held["pods"], held["nodes"]) != (pods, nodes):
        raise ValueError(f"{held} is held, not {pods} pods and {nodes} nodes")
    return [
        Row.of(
            median_ci95([events / each["cpu_s"] for each in updates]),
            name="live/status-updates",
            what="status updates of known pods: read, compared, kept, told",
            unit="1/s",
            note="per second of one core's time, the reflector's share included",
        ),
        Row.of(
            median_ci95([events / each["cpu_s"] for each in lives]),
            name="live/lives",
            what="events of pods that are created, bound, run, succeed and are deleted",
            unit="1/s",
            note="per second of one core's time, with all changes of the state",
        ),
        Row.exact(
            (held["bytes"] - alone["bytes"]) / pods,
            name="live/bytes-per-pod",
            what=f"resident memory of each of {pods:,} running pods in {pods // 20:,} workflows",
            unit="B",
            note="reflector, pods and state together",
        ),
        memory_row(
            held,
            name="live/memory",
            what=f"resident memory of a process that holds {pods:,} pods and {nodes:,} nodes in a state",
        ),
    ]


if __name__ == "__main__":
    play({"serve": serve, "events": count_events, "hold": hold_cluster}, sys.argv[1:])
