"""How many pods per second a scheduler binds, whoever it is: the bed, the two ways to measure, the counting.

Each scheduler is asked for its own count of bindings, which it makes after the API server's answer, and the
API server is asked at the end whether that was so. Everything shares this machine's processors: API server,
etcd, controllers, kwok, which plays every pod that is bound, and for the live figure our client. So the
processor time per pod of each process is kept too.

Source of the pods and the definition: kubernetes/kubernetes test/integration/scheduler_perf (v1.37.2).
"""

import http.client
import itertools
import signal
import ssl
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, Self

import psutil

from testbed import api, bulk, network
from testbed.cluster import Cluster
from testbed.control_plane import SCHEDULER_PORT, ControlPlane
from testbed.errors import ComponentFailed
from testbed.spec import Json
from testbed.stowplan import Scheduler, grant
from testbed.waiting import wait_for

KUBE_SCHEDULER = "kube-scheduler"
STOWPLAN = "stowplan"
LONGEST_RUN_S = 300.0
SETTLING_S = 2.0  # until caches are filled and controllers have looked at what is new
# Time between two readings of the count: each costs the scheduler some milliseconds.
READ_EVERY_S = 0.25
READ_LAST_EVERY_S = 0.02

REQUESTS = {"cpu": "100m", "memory": "500Mi"}
BOUND = 'scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"} '
CONTAINERS = [{"name": "pause", "image": "pause", "resources": {"requests": REQUESTS}}]


class Reading(NamedTuple):
    """How many pods were bound at a moment of the monotonic clock."""

    at_s: float
    bound: int


class Counter(Protocol):
    """How many pods a running scheduler has bound, by its own metric."""

    def read(self) -> int:
        """Pods bound since it started."""
        ...

    def wait_ready(self) -> None:
        """Wait until it would place a pod at once."""
        ...


class TheirCounter:
    """kube-scheduler's, which is ready when it listens."""

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

    def wait_ready(self) -> None:
        """Wait for nothing."""


@dataclass(frozen=True)
class OurCounter:
    """Stowplan's, which may be asked from its start on."""

    scheduler: Scheduler

    def read(self) -> int:
        """Pods bound since it started; none as long as it does not listen."""
        self.scheduler.daemon.check()
        try:
            return round(self.scheduler.metric("stowplan_schedule_attempts_total", result="scheduled"))
        except OSError:
            return 0

    def wait_ready(self) -> None:
        """Wait until it has seen the cluster and leads."""
        self.scheduler.wait_ready()


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
    """A running cluster with fake nodes, in which schedulers come and go.

    Attributes:
        running: The cluster.
        pods: How many a measurement has.
        cpu_ms_per_pod: Processor time of each process in each run that was accounted, by scheduler.
    """

    running: Cluster
    pods: int
    cpu_ms_per_pod: dict[str, dict[str, list[float]]] = field(
        default_factory=dict[str, dict[str, list[float]]]
    )
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def plane(self) -> ControlPlane:
        """The control plane."""
        return self.running.plane

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

    def create_pods(self, namespace: str, count: int, scheduler_name: str) -> None:
        """Create pods as fast as the API server takes them."""
        spec = {"containers": CONTAINERS, "schedulerName": scheduler_name}
        bulk.create_pods(
            self.plane, namespace, [{"metadata": {"generateName": "pod-"}, "spec": spec}] * count
        )

    def account(self, scheduler: str, before_s: Mapping[str, float], pods: int) -> None:
        """Keep the processor time of each process of the cluster per pod, since `used_s` gave `before_s`."""
        kept = self.cpu_ms_per_pod.setdefault(scheduler, {})
        for name, used_s in self.used_s().items():
            kept.setdefault(name, []).append(1000 * (used_s - before_s.get(name, 0.0)) / pods)

    def used_s(self) -> dict[str, float]:
        """Processor time that each process of the cluster has taken so far."""
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
            raise ComponentFailed(
                f"{bound} pods are bound, not {count}: the scheduler counted something else"
            )


@dataclass(frozen=True)
class Contender:
    """A scheduler that is measured.

    Attributes:
        name: Here.
        asked_as: By which name pods ask for it.
        runs: It runs in the block of what this returns, and the block is given the counter of its bound pods.
    """

    name: str
    asked_as: str
    runs: Callable[[Bed], AbstractContextManager[Counter]]


def kube_scheduler(*, has_default_rate: bool = False) -> Contender:
    """kube-scheduler with its default profile, and the client rate that it has by default if so wished."""

    @contextmanager
    def runs(bed: Bed) -> Generator[Counter]:
        fields: dict[str, Any] = {}
        if has_default_rate:
            kubeconfig = bed.plane.kubeconfig_for(KUBE_SCHEDULER, "system:kube-scheduler")
            fields["clientConnection"] = {"kubeconfig": str(kubeconfig)}
        bed.plane.start_scheduler(fields)
        with TheirCounter(bed.plane.site.hub) as counter:
            yield counter
        bed.running.daemons.end(KUBE_SCHEDULER)

    return Contender(KUBE_SCHEDULER, "default-scheduler", runs)


def stowplan(config: Mapping[str, Json]) -> Contender:
    """Stowplan in binder mode with this configuration, alone as kube-scheduler is: no election."""

    @contextmanager
    def runs(bed: Bed) -> Generator[Counter]:
        grant(bed.running.client, "binder")
        ours = {"mode": "binder", "name": STOWPLAN} | dict(config.get("scheduler", {}))
        scheduler = Scheduler(bed.plane, {**config, "scheduler": ours, "lease": {"enable": False}})
        scheduler.start()
        yield OurCounter(scheduler)
        scheduler.end()

    return Contender(STOWPLAN, STOWPLAN, runs)


def live(bed: Bed, contender: Contender) -> float:
    """Pods per second from the first creation to the last binding, the scheduler running."""
    with bed.namespace() as namespace:
        with contender.runs(bed) as counter, ThreadPoolExecutor(1) as pool:
            counter.wait_ready()
            time.sleep(SETTLING_S)
            began_s = time.monotonic()
            created: Future[None] = pool.submit(bed.create_pods, namespace, bed.pods, contender.asked_as)
            last_s = follow(counter.read, bed.pods)[-1].at_s
            created.result()
        bed.check_bound(namespace, bed.pods)
    return bed.pods / (last_s - began_s)


def full_queue(
    bed: Bed, contender: Contender, *, count: int | None = None, has_kubelets: bool = True, beyond: int = 1
) -> float:
    """Pods per second while the queue is full: all pods are there before the scheduler starts.

    Args:
        bed: Where.
        contender: Who.
        count: Pods, if other than the bed's own number; then the processes' times are not kept.
        has_kubelets: Whether kwok goes on meanwhile.
        beyond: The rate is counted from when so many are bound.
    """
    wanted = count or bed.pods
    with bed.namespace() as namespace:
        bed.create_pods(namespace, wanted, contender.asked_as)
        time.sleep(SETTLING_S)
        with nullcontext() if has_kubelets else bed.without_kubelets(), contender.runs(bed) as counter:
            # What it takes to start is in neither figure.
            wait_for("the first pods are bound", lambda: counter.read() > 0, LONGEST_RUN_S)
            before_s = bed.used_s()
            seen = follow(counter.read, wanted)
            if has_kubelets and count is None:
                bed.account(contender.name, before_s, max(1, seen[-1].bound - seen[0].bound))
        bed.check_bound(namespace, wanted)
    return rate(seen, beyond=beyond)
