"""kube-scheduler's own speed on the test cluster, as the figure that others are divided by.

1,000 fake nodes of 32 cores, 5,000 pods of scheduler_perf's default kind (100m CPU, 500 MB, no constraint),
the default profile, and the client's rate raised in the configuration file: by default kube-scheduler binds
50 pods per second, whatever the machine.

* live: pods are created as fast as the API server takes them while the scheduler runs; from before the first
  creation to the last binding.
* full queue: all pods are there before the scheduler starts; from the first binding seen to the last. This is
  what scheduler_perf calls throughput, but there API server, etcd and scheduler are one process, nodes do
  nothing and nobody else watches.

Everything shares this machine's processors: API server, etcd, controllers, kwok, which plays every pod that
is bound, and for the live figure our client. So the processor time per pod of each is given too, and one row
has kwok stopped. Bindings are counted by kube-scheduler's own metric, which counts after the API server's
answer.

Source of the pods and the definition: kubernetes/kubernetes test/integration/scheduler_perf (v1.37.2).
"""

import http.client
import itertools
import signal
import ssl
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from statistics import median
from typing import Any, NamedTuple, Self

import psutil

from bench.harness import MIN_SAMPLES_FOR_CI95, Row, median_ci95
from testbed import api, bulk, cluster, kwok, network
from testbed.cluster import Cluster
from testbed.control_plane import SCHEDULER_PORT, ControlPlane
from testbed.errors import ComponentFailed
from testbed.spec import ClusterSpec, FakeNodes
from testbed.waiting import wait_for

SCHEDULER = "kube-scheduler"
LONGEST_RUN_S = 300.0
SETTLING_S = 2.0  # until caches are filled and controllers have looked at what is new
# Time between two readings of the metric: each costs the scheduler some milliseconds.
READ_EVERY_S = 0.25
READ_LAST_EVERY_S = 0.02
DEFAULT_BURST = 100  # requests that the default rate lets through at once
FEW_PODS = 600

REQUESTS = {"cpu": "100m", "memory": "500Mi"}
BOUND = 'scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"} '
POD = {"containers": [{"name": "pause", "image": "pause", "resources": {"requests": REQUESTS}}]}


class Reading(NamedTuple):
    """How many pods were bound at a moment of the monotonic clock."""

    at_s: float
    bound: int


class Counter:
    """How many pods a running kube-scheduler has bound, by its own metric."""

    def __init__(self, namespace: str) -> None:
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE  # it signs for itself, and listens in our own network namespace
        self._connection = http.client.HTTPSConnection("127.0.0.1", SCHEDULER_PORT, context=context)
        network.inside(namespace, self._connection.connect)

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the connection."""
        self._connection.close()

    def read(self) -> int:
        """Pods bound since it started."""
        self._connection.request("GET", "/metrics")
        return bindings(self._connection.getresponse().read().decode())


def bindings(metrics: str) -> int:
    """Pods that kube-scheduler has bound, in the text of its metrics; none before there is such a line."""
    return sum(int(float(line.split()[-1])) for line in metrics.splitlines() if line.startswith(BOUND))


def follow(read: Callable[[], int], until: int) -> list[Reading]:
    """Read again and again until so many are bound, more often towards the end.

    Raises:
        ComponentFailed: It took too long.
    """
    seen: list[Reading] = []
    began_s = time.monotonic()
    while not seen or seen[-1].bound < until:
        bound = read()
        now_s = time.monotonic()
        seen.append(Reading(now_s, bound))
        if now_s - began_s > LONGEST_RUN_S and bound < until:
            raise ComponentFailed(f"{bound} of {until} pods were bound in {LONGEST_RUN_S:g} s")
        left_s = (until - bound) * (now_s - began_s) / bound if bound else READ_EVERY_S
        time.sleep(min(max(left_s / 4, READ_LAST_EVERY_S), READ_EVERY_S))
    return seen


def rate(seen: list[Reading], *, beyond: int = 1) -> float:
    """Pods per second from the first reading with at least `beyond` bound to the last."""
    first = next(reading for reading in seen if reading.bound >= beyond)
    return (seen[-1].bound - first.bound) / (seen[-1].at_s - first.at_s)


@dataclass
class Bed:
    """A running cluster with fake nodes, in which kube-scheduler comes and goes."""

    running: Cluster
    pods: int
    cpu_ms_per_pod: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def plane(self) -> ControlPlane:
        """The control plane."""
        return self.running.plane

    @contextmanager
    def scheduler(self, *, has_default_rate: bool = False) -> Generator[Counter]:
        """kube-scheduler runs in the block; if so wished, with the client rate that it has by default."""
        fields: dict[str, Any] = {}
        if has_default_rate:
            kubeconfig = self.plane.kubeconfig_for(SCHEDULER, "system:kube-scheduler")
            fields["clientConnection"] = {"kubeconfig": str(kubeconfig)}
        self.plane.start_scheduler(fields)
        with Counter(self.plane.site.hub) as counter:
            yield counter
        self.running.daemons.running[SCHEDULER].end()
        self.running.daemons.forget(SCHEDULER)

    @contextmanager
    def namespace(self) -> Generator[str]:
        """A fresh namespace, whose pods are wholly gone after the block.

        It is kept: to delete it would delete its thousands of events while the next run is measured.
        """
        name = f"speed-{next(self._numbers)}"
        api.make_namespace(self.running.client, name)
        yield name
        with bulk.Connection(self.plane) as connection:
            bulk.delete_pods(connection, name)
            wait_for("no pod is left", lambda: bulk.count_pods(connection, name) == 0, LONGEST_RUN_S)
        time.sleep(SETTLING_S)

    def create_pods(self, namespace: str, count: int) -> None:
        """Create pods as fast as the API server takes them."""
        manifests = [{"metadata": {"name": f"pod-{number}"}, "spec": POD} for number in range(count)]
        bulk.create_pods(self.plane, namespace, manifests)

    @contextmanager
    def accounted(self) -> Generator[None]:
        """Keep the processor time that each process of the cluster takes in the block."""
        before_s = self._used_s()
        yield
        for name, used_s in self._used_s().items():
            per_pod_ms = 1000 * (used_s - before_s.get(name, 0.0)) / self.pods
            self.cpu_ms_per_pod.setdefault(name, []).append(per_pod_ms)

    def _used_s(self) -> dict[str, float]:
        daemons = self.running.daemons.running.values()
        used = {daemon.name: psutil.Process(daemon.pid).cpu_times() for daemon in daemons}
        return {name: times.user + times.system for name, times in used.items()}

    @contextmanager
    def without_kubelets(self) -> Generator[None]:
        """Kwok does nothing in the block, which must be shorter than a node may be silent."""
        process = self.running.daemons.running["kwok"].process
        process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            process.send_signal(signal.SIGCONT)

    def check_bound(self, namespace: str, count: int) -> None:
        """Make sure that so many pods are bound, by what the API server says.

        Raises:
            ComponentFailed: It is another number.
        """
        with bulk.Connection(self.plane) as connection:
            listed = connection.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
        bound = sum("nodeName" in pod["spec"] for pod in listed)
        if bound != count:
            raise ComponentFailed(f"{bound} pods are bound, not {count}: the metric counted something else")


def live(bed: Bed) -> float:
    """Pods per second from the first creation to the last binding, the scheduler running."""
    with bed.namespace() as namespace:
        with bed.scheduler() as counter, ThreadPoolExecutor(1) as pool:
            time.sleep(SETTLING_S)
            began_s = time.monotonic()
            created: Future[None] = pool.submit(bed.create_pods, namespace, bed.pods)
            last_s = follow(counter.read, bed.pods)[-1].at_s
            created.result()
        bed.check_bound(namespace, bed.pods)
    return bed.pods / (last_s - began_s)


def full_queue(bed: Bed) -> float:
    """Pods per second while the queue is full."""
    return _full_queue(bed, bed.pods)


def full_queue_alone(bed: Bed) -> float:
    """Pods per second while the queue is full and bound pods stay as they are."""
    return _full_queue(bed, bed.pods, has_kubelets=False)


def default_rate(bed: Bed) -> float:
    """Pods per second while the queue is full, the client's rate not raised, from the end of its burst on."""
    return _full_queue(bed, FEW_PODS, has_default_rate=True)


def _full_queue(bed: Bed, count: int, *, has_kubelets: bool = True, has_default_rate: bool = False) -> float:
    with bed.namespace() as namespace:
        bed.create_pods(namespace, count)
        time.sleep(SETTLING_S)
        is_plain = has_kubelets and not has_default_rate
        with (
            nullcontext() if has_kubelets else bed.without_kubelets(),
            bed.scheduler(has_default_rate=has_default_rate) as counter,
            bed.accounted() if is_plain else nullcontext(),
        ):
            seen = follow(counter.read, count)
        bed.check_bound(namespace, count)
    return rate(seen, beyond=DEFAULT_BURST if has_default_rate else 1)


def run(*, quick: bool) -> list[Row]:
    """Measure on one cluster, which is made and taken away; `quick` has 100 nodes and 500 pods.

    Raises:
        MissingPrerequisite: Not root, or something else that a test cluster needs is not there.
    """
    nodes, pods, repeats = (100, 500, 1) if quick else (1000, 5000, MIN_SAMPLES_FOR_CI95)
    spec = ClusterSpec(fake_nodes=(FakeNodes(count=nodes, taints=()),), scheduler=None)
    began_s = time.monotonic()
    running = cluster.start(spec, owned=True)
    try:
        ready_s = time.monotonic()
        kwok.wait_until_schedulable(running.plane, running.client)
        schedulable_s = time.monotonic()
        rows = _rows(Bed(running, pods), nodes, repeats)
    finally:
        running.down()
    return [
        *rows,
        Row.exact(
            ready_s - began_s,
            name="testbed/up-fake",
            what=f"until all nodes are ready: control plane, {nodes:,} fake nodes",
            unit="s",
        ),
        Row.exact(
            schedulable_s - began_s,
            name="testbed/schedulable-fake",
            what="the same, until the node controller has freed all of them from the taint of new nodes",
            unit="s",
        ),
    ]


def _rows(bed: Bed, nodes: int, repeats: int) -> list[Row]:
    size = f"{nodes:,} fake nodes, {bed.pods:,} pods"
    figures: list[tuple[Callable[[Bed], float], int, str, str]] = [
        (live, repeats, "live", f"created while it runs, first creation to last binding: {size}"),
        (
            full_queue,
            repeats,
            "full-queue",
            f"all pods there before it starts, first to last binding: {size}",
        ),
        (
            full_queue_alone,
            (repeats + 1) // 2,
            "full-queue-alone",
            "full queue, kwok stopped: no kubelet takes part",
        ),
        (
            default_rate,
            1,
            "default-rate",
            f"full queue, the client's rate by default: {FEW_PODS} pods",
        ),
    ]
    rows = [
        Row.of(
            median_ci95([figure(bed) for _ in range(times)]),
            name=f"kube-scheduler/{name}",
            what=what,
            unit="pods/s",
        )
        for figure, times, name, what in figures
    ]
    used = sorted(bed.cpu_ms_per_pod.items(), key=lambda item: -median(item[1]))
    return rows + [
        Row.of(
            median_ci95(samples),
            name=f"kube-scheduler/cpu-{name}",
            what=f"processor time of {name} per pod, full queue",
            unit="ms",
        )
        for name, samples in used
    ]
