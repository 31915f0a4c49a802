"""Events per second of a reflector on one core, and the memory that it takes to hold a large cluster.

Three processes: a server of the loopback that serves pods of 7 KB as fast as they are taken (no TLS, no work
of its own per event but one header), and the one that is measured. Its rate is events per second of its
processor time: what else runs on the machine then hardly counts. A pod here is what Argo makes of a task: two
containers, an init container, volumes, labels, annotations, managed fields and a status. Of each, what a
scheduler needs is decoded into structs.
"""

import asyncio
import contextlib
import copy
import json
import random
import re
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from bench.harness import Row, median_ci95
from stowplan.kube.api.access import Access
from stowplan.kube.api.client import ApiClient
from stowplan.kube.api.reflection import Identity
from stowplan.kube.api.reflector import Reflector
from stowplan.kube.api.resources import NODES, PODS, Resource

REPOSITORY = Path(__file__).parent.parent
EVENTS = 60_000
PODS_HELD = 50_000
NODES_HELD = 5_000
PODS_OF_WORKFLOW = 20
POD_BYTES = range(6_800, 7_800)

Json = dict[str, Any]


# ── what is served ──


def pod() -> Json:
    """A pod as Argo makes it of one task of a workflow, with `@N@` where pods differ."""
    quantity = {"cpu": "500m", "memory": "1Gi"}
    mounts = [{"name": name, "mountPath": f"/var/run/argo/{name}"} for name in ("ctl", "scratch", "token")]
    environment = [
        {"name": f"ARGO_{name}", "value": "workflow-@N@-2847563920"}
        for name in ("POD_NAME", "POD_UID", "WORKFLOW_NAME", "CONTAINER_NAME", "INSTANCE", "NODE_ID")
    ]
    template = {"name": "task", "inputs": {"parameters": [{"name": "shard", "value": "@N@"}]}, "retries": 3}
    written = {"artifacts": [{"name": name, "path": f"/data/{name}"} for name in ("model", "trace", "log")]}
    environment.append({"name": "ARGO_TEMPLATE", "value": json.dumps(template | {"outputs": written})})

    def container(name: str) -> Json:
        return {
            "name": name,
            "image": "registry.example/workflows/argoexec:v4.0.5",
            "command": ["/var/run/argo/argoexec", "emissary", "--loglevel", "info", "--", "stress"],
            "args": ["--seconds", "90", "--bytes", "1073741824", "--shard", "@N@"],
            "env": environment,
            "resources": {"requests": quantity, "limits": quantity},
            "volumeMounts": mounts,
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "imagePullPolicy": "IfNotPresent",
        }

    owned: Json = {f"f:{name}": {} for name in ("image", "name", "resources", "env", "args", "volumeMounts")}
    return {
        "metadata": {
            "name": "workflow-@N@-task-2847563920",
            "namespace": "workflows",
            "uid": "7d1f3f0a-4c5b-4b0e-9d55-@N@",
            "resourceVersion": "@V@",
            "creationTimestamp": "2026-11-30T12:00:00Z",
            "labels": {"workflows.argoproj.io/completed": "false", "workflows.argoproj.io/workflow": "w-@N@"},
            "annotations": {
                "workflows.argoproj.io/node-id": "workflow-@N@-2847563920",
                "workflows.argoproj.io/node-name": "workflow-@N@.stage-3.task(17:value)",
            },
            "ownerReferences": [
                {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": "w-@N@", "uid": "9-@N@"}
            ],
            "managedFields": [
                {
                    "manager": manager,
                    "operation": "Update",
                    "apiVersion": "v1",
                    "time": "2026-11-30T12:00:00Z",
                    "fieldsType": "FieldsV1",
                    "fieldsV1": {"f:spec": {"f:containers": {'k:{"name":"main"}': owned}}},
                }
                for manager in ("workflow-controller", "kube-scheduler", "kubelet")
            ],
        },
        "spec": {
            "initContainers": [container("init")],
            "containers": [container("wait"), container("main")],
            "volumes": [{"name": name, "emptyDir": {}} for name in ("ctl", "scratch", "token")],
            "nodeName": "node-00017",
            "schedulerName": "stowplan",
            "priority": 100,
            "serviceAccountName": "workflow",
            "tolerations": [
                {"key": f"node.kubernetes.io/{what}", "operator": "Exists", "effect": "NoExecute"}
                for what in ("not-ready", "unreachable")
            ],
        },
        "status": {
            "phase": "Running",
            "qosClass": "Guaranteed",
            "podIP": "10.0.17.3",
            "conditions": [
                {"type": kind, "status": "True", "lastTransitionTime": "2026-11-30T12:00:01Z"}
                for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
            ],
            "containerStatuses": [
                {
                    "name": name,
                    "ready": True,
                    "restartCount": 0,
                    "image": "registry.example/workflows/argoexec:v4.0.5",
                    "imageID": f"registry.example/workflows/argoexec@sha256:{'a5' * 32}",
                    "containerID": f"containerd://{'b6' * 32}",
                    "state": {"running": {"startedAt": "2026-11-30T12:00:02Z"}},
                }
                for name in ("wait", "main")
            ],
        },
    }


def node() -> Json:
    """A node as a kubelet reports it, without images."""
    made: Json = copy.deepcopy({"metadata": pod()["metadata"], "spec": {"podCIDR": "10.0.0.0/24"}})
    made["metadata"] |= {"name": "node-@N@", "namespace": "", "ownerReferences": []}
    quantities = {"cpu": "32", "memory": "256Gi", "pods": "110", "ephemeral-storage": "1Ti"}
    made["status"] = {"capacity": quantities, "allocatable": quantities, "conditions": []}
    return made


class Template:
    """JSON with gaps that are filled fast: number, version, and by number one of the nodes and workflows."""

    def __init__(self, value: Json) -> None:
        parts = re.split(r"@([NVKW])@", json.dumps(value, separators=(",", ":")))
        self._fixed = [part.encode() for part in parts[::2]]
        self._gaps = parts[1::2]

    def fill(self, number: int, version: int) -> bytes:
        """The object of that number at that version."""
        values = {
            "N": b"%08d" % number,
            "V": b"%d" % version,
            "K": b"%08d" % (number % NODES_HELD),
            "W": b"%08d" % (number // PODS_OF_WORKFLOW),
        }
        filled = [self._fixed[0]]
        for gap, fixed in zip(self._gaps, self._fixed[1:], strict=True):
            filled += (values[gap], fixed)
        return b"".join(filled)


NONE_HELD = (Template({}), 0)  # of any other kind


class Server:
    """Just enough of an API server: lists by page, and a watch that changes pods as fast as it can."""

    def __init__(self, pods: int, nodes: int, events: int) -> None:
        self._held = {PODS.path(): (Template(pod()), pods), NODES.path(): (Template(node()), nodes)}
        self._events = events
        self.watches = 0  # that were begun

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until the client closes it."""
        while head := await reader.readline():
            while (await reader.readline()).strip():
                pass
            path, _, query = head.split()[1].decode().partition("?")
            asked = dict(parse_qsl(query))
            template, count = self._held.get(path, NONE_HELD)
            if "watch" in asked:
                self.watches += 1
                writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                with contextlib.suppress(ConnectionError):  # the client has seen enough
                    if path == PODS.path():
                        await self._change(writer, template, count)
                    await reader.read()
                break
            begin, limit = int(asked.get("continue") or 0), int(asked["limit"])
            end = min(begin + limit, count)
            items = b",".join(template.fill(number, number + 1) for number in range(begin, end))
            metadata = b'{"resourceVersion":"%d"' % count
            metadata += b',"continue":"%d"}' % end if end < count else b"}"
            body = b'{"metadata":' + metadata + b',"items":[' + items + b"]}"
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            await writer.drain()
        writer.close()

    async def _change(self, writer: asyncio.StreamWriter, template: Template, count: int) -> None:
        for number in range(self._events):
            self._tell(writer, b"MODIFIED", template.fill(number % count, count + number + 1))
            await writer.drain()

    @staticmethod
    def _tell(writer: asyncio.StreamWriter, event: bytes, what: bytes) -> None:
        line = b'{"type":"' + event + b'","object":' + what + b"}\n"
        writer.write(b"%x\r\n" % len(line) + line + b"\r\n")


async def serve(pods: int, nodes: int, events: int) -> None:
    """Serve on a free port of the loopback, which is printed."""
    listening = await asyncio.start_server(Server(pods, nodes, events).answer, "127.0.0.1", 0)
    print(listening.sockets[0].getsockname()[1], flush=True)
    await listening.serve_forever()


# ── what is measured ──


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


async def count_events(port: int, events: int) -> Json:
    """Take all events of the server; seconds of processor and of the clock."""
    async with ApiClient(Access(server=f"http://127.0.0.1:{port}")) as client:
        holder = Holder(events)
        running = asyncio.create_task(reflector_of(client, PODS, Pod, holder).run())
        await holder.is_synced.wait()
        begin_s, cpu_s = perf_counter(), process_time()
        await holder.is_done.wait()
        taken = {"cpu_s": process_time() - cpu_s, "clock_s": perf_counter() - begin_s}
        running.cancel()
        return taken


async def hold_cluster(port: int) -> Json:
    """List all pods and nodes and keep them; resident bytes then, at most, and before."""
    before = resident_bytes()
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
        return {
            "held": sum(len(holder.held) for holder in holders.values()),
            "bytes": resident_bytes(),
            "most_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            "before_bytes": before,
            "listed_s": listed_s,
        }


def resident_bytes() -> int:
    """Memory of this process that is in use now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


def measured(role: str, *, pods: int, nodes: int, events: int) -> Json:
    """Run one measurement against a server of its own, each in a process of its own."""
    command = [sys.executable, "-m", "bench.kube_reflector"]
    server = subprocess.Popen(
        [*command, "serve", str(pods), str(nodes), str(events)], stdout=subprocess.PIPE, cwd=REPOSITORY
    )
    try:
        port = server.stdout.readline().decode().strip() if server.stdout is not None else ""
        done = subprocess.run(
            [*command, role, port, str(events)], stdout=subprocess.PIPE, cwd=REPOSITORY, check=True
        )
    finally:
        server.kill()
        server.communicate()
    return json.loads(done.stdout)


def run(*, quick: bool = False) -> list[Row]:
    """Measure the rate several times and the memory once."""
    size = len(Template(pod()).fill(1, 1))
    if size not in POD_BYTES:
        raise ValueError(f"a pod of this benchmark has {size} bytes; it is to have about 7,000")
    events, repeats = (2_000, 1) if quick else (EVENTS, 6)
    runs = [measured("events", pods=1_000, nodes=0, events=events) for _ in range(repeats)]
    pods, nodes = (1_000, 100) if quick else (PODS_HELD, NODES_HELD)
    held = measured("hold", pods=pods, nodes=nodes, events=0)
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
        Row.exact(
            held["bytes"] / 1e6,
            name="kube/reflector-memory",
            what=f"resident memory of a process that holds {pods:,} pods and {nodes:,} nodes",
            unit="MB",
            note=f"at most {held['most_bytes'] / 1e6:.0f} MB; {held['before_bytes'] / 1e6:.0f} MB before; "
            f"all listed in {held['listed_s']:.1f} s",
        ),
    ]


def main(role: str, *numbers: str) -> None:
    """Play one of the three roles."""
    match role:
        case "serve":
            asyncio.run(serve(*map(int, numbers)))
        case "events":
            print(json.dumps(asyncio.run(count_events(*map(int, numbers)))))
        case _:
            print(json.dumps(asyncio.run(hold_cluster(int(numbers[0])))))


if __name__ == "__main__":
    main(*sys.argv[1:])
