"""How long the book of workflows keeps the scheduler's thread, with a workflow of 5,000 tasks.

A thread reads the workflow; the event loop's own thread applies what is new, in slices. Measured is the
longest stretch of that thread between two turns of the loop, in its own processor time: what else runs on the
machine, the reading thread too, hardly counts. The interpreter's lock comes on top: it changes hands every
5 ms. So does a full pass of the cyclic collector, which may fall to any thread: 80 ms over the heap of this
program, the upper end of the interval.
"""

import asyncio
import base64
import gzip
import json
import random
import time
from statistics import median
from typing import Any, cast

import msgspec

from bench.argo_reader import TASKS, large_workflow
from bench.harness import Row, median_ci95
from stowplan.core.domain import (
    CPU,
    MEMORY,
    ClassKey,
    ClusterState,
    Node,
    NodeSet,
    PodShape,
    Resources,
    WorkShape,
)
from stowplan.kube.api.client import ApiClient
from stowplan.kube.api.reflection import Identity
from stowplan.kube.api.status import SchedulingStatus
from stowplan.kube.argo import TaskPod, node_id, parse_node_name
from stowplan.kube.live.listener import Listener
from stowplan.kube.live.pod import LivePod, MainContainer, Owner
from stowplan.observe.history import DurationModel, Observation
from stowplan.serve.workflows.book import WorkflowBook

STYLES = ("depends", "chain")
DONE = (0, 50, 100, 2000, 2050, 4900, 4950)  # tasks that have ended, version by version
OBSERVATIONS = 50_000
SHAPE = PodShape(requests=Resources({CPU: 500, MEMORY: 2**28}), score_cpu_milli=500, score_memory_bytes=2**28)

Json = dict[str, Any]


class Cluster:
    """A cluster of one node whose pods are told by hand."""

    is_settled = True

    def __init__(self) -> None:
        self.state = ClusterState()
        self.state.apply(NodeSet(Node("n1", Resources({CPU: 64_000}))))
        self.pods: dict[str, LivePod] = {}

    def listen(self, listener: Listener) -> None:
        """Keep who listens."""
        self.listener = listener


def version(workflow: Json, done: int) -> bytes:
    """The workflow as the controller writes it when `done` tasks have ended and fifty run."""
    nodes: dict[str, Json] = {"large": {"name": "large", "type": "DAG", "phase": "Running"}}
    for number in range(done + 50):
        name = f"large.t{number}"
        nodes[node_id("large", name)] = {
            "id": node_id("large", name),
            "name": name,
            "displayName": f"t{number}",
            "type": "Pod",
            "templateName": f"k{number % 20}",
            "phase": "Succeeded" if number < done else "Running",
            "boundaryID": "large",
            "startedAt": "2026-11-30T12:00:00Z",
            "finishedAt": "2026-11-30T12:00:09Z",
            "hostNodeName": "n1",
            "resourcesDuration": {"cpu": 3, "memory": 9},
            "inputs": {"parameters": [{"name": "file", "value": f"file-{number}"}]},
        }
    packed = base64.b64encode(gzip.compress(json.dumps(nodes).encode(), mtime=0)).decode()
    metadata = {"name": "large", "namespace": "jobs", "uid": "u"}
    status = {"phase": "Running", "compressedNodes": packed}
    return msgspec.json.encode({"metadata": metadata, "spec": workflow["spec"], "status": status})


def pod(number: int) -> LivePod:
    """A pod of the workflow that waits."""
    name = f"large.t{number}"
    identity = TaskPod(
        "jobs", "large", name, node_id("large", name), parse_node_name("large", name), f"k{number % 20}"
    )
    return LivePod(
        key=f"jobs/large-{number}",
        namespace="jobs",
        name=f"large-{number}",
        uid=f"u-{number}",
        shape=SHAPE,
        phase="Pending",
        node_name="",
        is_terminating=False,
        created_s=1.8e9,
        started_s=None,
        status=SchedulingStatus(),
        reason="",
        message="",
        can_preempt=True,
        owner=Owner("Workflow", "large", "u"),
        identity=identity,
        main=MainContainer("i", ("run",), 500, 2**28),
    )


async def longest_stretches_s(book: WorkflowBook, versions: list[bytes]) -> list[float]:
    """The longest stretch of the loop's thread at each version."""
    longest_s = 0.0

    async def turn() -> None:
        nonlocal longest_s
        while True:
            before_s = time.thread_time()
            await asyncio.sleep(0.001)
            longest_s = max(longest_s, time.thread_time() - before_s)

    turning = asyncio.create_task(turn())
    found: list[float] = []
    following = book._following  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - no watch runs here
    for raw in versions:
        await asyncio.sleep(0.01)
        longest_s = 0.0
        following.set(Identity("large", "u", "1", "jobs"), raw)
        await following._empty()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - as the watch would
        await asyncio.sleep(0.01)
        found.append(longest_s)
    turning.cancel()
    return found


def made() -> tuple[Cluster, WorkflowBook]:
    """A book in a cluster without pods."""
    cluster = Cluster()
    return cluster, WorkflowBook(cast("ApiClient", None), cluster)


def observations(generator: random.Random) -> list[Observation]:
    """A history of 500 classes on three kinds of nodes."""
    found: list[Observation] = []
    for number in range(OBSERVATIONS):
        group = number % 500
        key = ClassKey(f"template/w{group % 25}", f"t{group % 20}", f".p{group}")
        found.append(
            Observation(
                key=key,
                elapsed_s=float(round((5.0 + group) * generator.lognormvariate(0.0, 0.2))),
                run=f"r{number // 2500}",
                seen_s=1.8e9 + number,
                item=str(number // 500 % 5),
                node_class=generator.choice("abc"),
                shape=WorkShape(f"image-{group % 20}", "run", 1.0, 2**30),
            )
        )
    return found


def run(*, quick: bool) -> list[Row]:
    """Let the book read large workflows, and ask it what a scheduler asks."""
    rows: list[Row] = []
    for style in STYLES[:1] if quick else STYLES:
        versions = [version(large_workflow(style), done) for done in DONE[: 2 if quick else None]]
        stretches = [
            1000.0 * max(asyncio.run(longest_stretches_s(made()[1], versions)))
            for _ in range(1 if quick else 7)
        ]
        what = f"longest stretch of the scheduler's thread, {TASKS:,} tasks whose order is written as {style}"
        rows.append(Row.of(median_ci95(stretches), name=f"live-book/stretch-{style}", what=what, unit="ms"))
    rows += asked(100 if quick else 1000)
    fits: list[float] = []
    for _ in range(1 if quick else 7):
        seen = observations(random.Random(1))  # noqa: S311 - draws an example
        before_s = time.thread_time()
        DurationModel(seen)
        fits.append(time.thread_time() - before_s)
    what = f"durations learnt anew from {OBSERVATIONS:,} observations; a process of its own does it"
    rows.append(Row.of(median_ci95(fits), name="live-book/fit", what=what, unit="s"))
    return rows


def asked(count: int) -> list[Row]:
    """What pods of a workflow of 5,000 tasks cost: told by the feed, asked by the scheduler."""
    cluster, book = made()
    asyncio.run(longest_stretches_s(book, [version(large_workflow("depends"), 2000)]))
    told: list[float] = []
    answered: list[float] = []
    for number in range(2050, 2050 + count):
        waiting = pod(number)
        cluster.pods[waiting.key] = waiting
        before_s = time.thread_time()
        book.pod_set(None, waiting)
        told.append(1e6 * (time.thread_time() - before_s))
    pods = list(cluster.pods.values())
    for _ in range(20):
        before_s = time.thread_time()
        for waiting in pods:
            book.task_of(waiting, 0.0)
        answered.append(1e6 * (time.thread_time() - before_s) / len(pods))
    assert median(answered) > 0.0  # noqa: S101 - something was measured
    return [
        Row.of(median_ci95(told), name="live-book/pod", what="a pod is told", unit="µs"),
        Row.of(median_ci95(answered), name="live-book/task", what="a waiting pod is asked for", unit="µs"),
    ]
