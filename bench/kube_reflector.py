"""Events per second of a reflector on one core, and the memory that it takes to hold a large cluster.

Three processes (`bench/live/roles.py`): a server of the loopback that serves pods of 7 KB as fast as they are
taken, and the one that is measured. A pod here is what Argo makes of a task: two containers, an init
container, volumes, labels, annotations, managed fields and a status. Of each, what a scheduler needs is
decoded into structs.
"""

import asyncio
import random
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

import msgspec

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
from bench.live.templates import NODES_HELD, Json, Template, pod
from stowplan.kube.api.access import Access
from stowplan.kube.api.client import ApiClient
from stowplan.kube.api.reflection import Identity
from stowplan.kube.api.reflector import Reflector
from stowplan.kube.api.resources import NODES, PODS, Resource

MODULE = "bench.kube_reflector"
POD_BYTES = range(6_800, 7_800)


class Requests(msgspec.Struct):
    """What a container asks for."""

    requests: dict[str, str] = {}


class Container(msgspec.Struct):
    """A container, as a scheduler sees it."""

    resources: Requests = msgspec.field(default_factory=Requests)


class Toleration(msgspec.Struct, gc=False):
    """A toleration."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class PodSpec(msgspec.Struct, rename="camel"):
    """Where a pod wants to go."""

    containers: list[Container]
    init_containers: list[Container] = []
    node_name: str = ""
    scheduler_name: str = ""
    priority: int = 0
    tolerations: list[Toleration] = []
    node_selector: dict[str, str] = {}


class PodMetadata(msgspec.Struct):
    """What a pod belongs to."""

    labels: dict[str, str] = {}


class PodStatus(msgspec.Struct):
    """How far a pod is."""

    phase: str = ""


class Pod(msgspec.Struct):
    """A pod, as a scheduler sees it."""

    metadata: PodMetadata
    spec: PodSpec
    status: PodStatus


class NodeStatus(msgspec.Struct):
    """What a node offers."""

    allocatable: dict[str, str] = {}


class Node(msgspec.Struct):
    """A node, as a scheduler sees it."""

    metadata: PodMetadata
    status: NodeStatus


class Holder:
    """Holds what it is told and notes when a number of changes came."""

    def __init__(self, changes: int) -> None:
        self.held: dict[str, Any] = {}
        self.is_synced = asyncio.Event()
        self.is_done = asyncio.Event()
        self._left = changes

    def set(self, identity: Identity, item: object) -> None:
        """An object is new or changed."""
        self.held[identity.key] = item
        if self.is_synced.is_set():
            self._left -= 1
            if self._left == 0:
                self.is_done.set()

    def delete(self, identity: Identity) -> None:
        """An object is gone."""
        del self.held[identity.key]

    def synced(self) -> None:
        """All is there."""
        self.is_synced.set()


def reflector_of(client: ApiClient, resource: Resource, kind: type, holder: Holder) -> Reflector[Any]:
    """A reflector that decodes into structs of that kind."""
    decode: Callable[[bytes | msgspec.Raw], Any] = msgspec.json.Decoder(kind).decode
    return Reflector(client, resource, decode, holder, generator=random.Random(1))  # noqa: S311 - pauses


async def serve(pods: int, nodes: int, events: int) -> None:
    """Serve pods that change."""
    await listen(Server(pods, nodes, events))


async def count_events(port: int, events: int) -> Json:
    """Take all events of the server; seconds of processor and of the clock."""
    async with ApiClient(Access(server=f"http://127.0.0.1:{port}")) as client:
        holder = Holder(events)
        running = asyncio.create_task(reflector_of(client, PODS, Pod, holder).run())
        await holder.is_synced.wait()
        taken = await until_done(holder.is_done)
        running.cancel()
        return taken


async def hold_cluster(port: int) -> Json:
    """List all pods and nodes and keep them; resident bytes then, at most, and before."""
    before_bytes = resident_bytes()
    async with ApiClient(Access(server=f"http://127.0.0.1:{port}")) as client:
        holders = {PODS: Holder(0), NODES: Holder(0)}
        kinds = {PODS: Pod, NODES: Node}
        begin_s = perf_counter()
        running = [
            asyncio.create_task(reflector_of(client, of, kinds[of], holder).run())
            for of, holder in holders.items()
        ]
        for holder in holders.values():
            await holder.is_synced.wait()
        listed_s = perf_counter() - begin_s
        for each in running:
            each.cancel()
        held = sum(len(holder.held) for holder in holders.values())
        return {"held": held, **memory(before_bytes, listed_s)}


def run(*, quick: bool = False) -> list[Row]:
    """Measure the rate several times and the memory once."""
    size = len(Template(pod()).fill(1, 1))
    if size not in POD_BYTES:
        raise ValueError(f"a pod of this benchmark has {size} bytes; it is to have about 7,000")
    events, repeats = (2_000, 1) if quick else (EVENTS, 6)
    runs = [measured(MODULE, "events", served=(1_000, 0, events), asked=(events,)) for _ in range(repeats)]
    pods, nodes = (1_000, 100) if quick else (PODS_HELD, NODES_HELD)
    held = measured(MODULE, "hold", served=(pods, nodes, 0))
    if held["held"] != pods + nodes:
        raise ValueError(f"{held['held']} objects are held, not {pods + nodes}")
    clock = median_ci95([events / each["clock_s"] for each in runs]).median
    return [
        Row.of(
            median_ci95([events / each["cpu_s"] for each in runs]),
            name="kube/reflector-events",
            what=f"changes of pods of {size:,} bytes, read, decoded into structs and reported",
            unit="1/s",
            note=f"per second of one core's time; by the clock, with its server beside it, {clock:,.0f}",
        ),
        memory_row(
            held,
            name="kube/reflector-memory",
            what=f"resident memory of a process that holds {pods:,} pods and {nodes:,} nodes",
        ),
    ]


if __name__ == "__main__":
    play({"serve": serve, "events": count_events, "hold": hold_cluster}, sys.argv[1:])
