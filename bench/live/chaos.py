"""What must hold of a scheduler whatever happens to it: no pod is lost, bound twice or put where no room is.

The arena is a cluster of small fake nodes on which pods of several sizes run for seconds, so that room comes
and goes and a wrong belief about it shows. What is said about the scheduler is said by others: the API
server's list of pods, and its audit log of bindings.
"""

import itertools
import random
import time
from collections import Counter, defaultdict
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from stowplan.core.domain.quantity import parse_quantity
from testbed import api, audit, bulk, kwok
from testbed.bulk import Connection
from testbed.cluster import Cluster, running
from testbed.errors import ComponentFailed
from testbed.spec import ClusterSpec, FakeNodes, Json
from testbed.stowplan import Scheduler, grant
from testbed.waiting import wait_for

NODE = {"cpu": "4", "memory": "16Gi", "ephemeral-storage": "100Gi", "pods": "40"}
CPU_MILLI = (100, 250, 500, 1000, 2000)
RUNNING_S = (1.0, 2.0, 4.0)
OVER = {"Succeeded", "Failed"}
LONGEST_S = 300.0


@contextmanager
def audited_bed(nodes: int, *, logs_on_failure: Path | None = None) -> Generator[Cluster]:
    """A cluster of small fake nodes whose API server writes bindings down, without any scheduler."""
    fake = FakeNodes(count=nodes, prefix="small", allocatable=NODE)
    spec = ClusterSpec(fake_nodes=(fake,), scheduler=None, audit=True)
    with running(spec, logs_on_failure=logs_on_failure) as made:
        kwok.wait_until_schedulable(made.plane, made.client)
        grant(made.client, "binder")
        yield made


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What was found wrong; all empty when nothing is.

    Attributes:
        pods: How many were looked at.
        lost: Pods that are neither bound nor over, or are gone.
        bound_twice: Pods whose binding was carried out more than once.
        elsewhere: Pods on a node to which nobody bound them. Of a pod whose binding the API server took and,
            killed, did not answer, nobody can say so.
        overcommitted: Nodes that had more than they have room for, at any look.
        refused: Bindings that the API server refused, by its code. That is no fault.
    """

    pods: int
    lost: tuple[str, ...]
    bound_twice: tuple[str, ...]
    elsewhere: tuple[str, ...]
    overcommitted: tuple[str, ...]
    refused: Mapping[int, int]

    @property
    def faults(self) -> int:
        """How many things are wrong."""
        return len(self.lost) + len(self.bound_twice) + len(self.elsewhere) + len(self.overcommitted)

    def check(self) -> None:
        """Make sure that nothing is wrong.

        Raises:
            ComponentFailed: Something is; the message names some of it.
        """
        if self.faults:
            raise ComponentFailed(
                f"of {self.pods} pods lost: {self.lost[:5]}, bound twice: {self.bound_twice[:5]}, "
                f"on another node: {self.elsewhere[:5]}; overcommitted: {self.overcommitted[:5]}"
            )


def together(verdicts: Sequence[Verdict]) -> Verdict:
    """All that was found in several looks at different pods."""
    return Verdict(
        pods=sum(each.pods for each in verdicts),
        lost=tuple(name for each in verdicts for name in each.lost),
        bound_twice=tuple(sorted({name for each in verdicts for name in each.bound_twice})),
        elsewhere=tuple(name for each in verdicts for name in each.elsewhere),
        overcommitted=tuple(sorted({name for each in verdicts for name in each.overcommitted})),
        refused=verdicts[-1].refused,  # the audit log is read from its beginning each time
    )


@dataclass
class Arena:
    """Pods of one namespace, and all that is known of them.

    Attributes:
        cluster: With the audit of bindings, fake nodes, and no other scheduler.
        namespace: For these pods only.
        scheduler_name: Whom pods ask for.
        seed: Of all that is drawn.
        rng: Where sizes and moments come from.
    """

    cluster: Cluster
    namespace: str
    scheduler_name: str
    seed: int = 5
    rng: random.Random = field(init=False)
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _created: set[str] = field(default_factory=set[str])
    _overcommitted: set[str] = field(default_factory=set[str])
    _newest: str = ""

    def __post_init__(self) -> None:
        """Make the namespace."""
        self.rng = random.Random(self.seed)  # noqa: S311 - sizes and moments, no secrets
        api.make_namespace(self.cluster.client, self.namespace)

    def create(self, count: int, *, duration_s: float | None = None) -> None:
        """Create pods of drawn sizes, which run for a drawn time or for the given one."""
        manifests = [self._pod(f"pod-{next(self._numbers)}", duration_s) for _ in range(count)]
        names = [str(manifest["metadata"]["name"]) for manifest in manifests]
        self._created.update(names)
        self._newest = names[-1]
        bulk.create_pods(self.cluster.plane, self.namespace, manifests)

    def _pod(self, name: str, duration_s: float | None) -> Json:
        script = kwok.PodScript(duration_s=duration_s or self.rng.choice(RUNNING_S))
        cpu_milli = self.rng.choice(CPU_MILLI)
        requests = {"cpu": f"{cpu_milli}m", "memory": f"{cpu_milli}Mi"}
        return {
            "metadata": {"name": name, "annotations": script.annotations()},
            "spec": {
                "schedulerName": self.scheduler_name,
                "restartPolicy": "Never",
                "tolerations": [kwok.TOLERATION],
                "containers": [{"name": "main", "image": "work", "resources": {"requests": requests}}],
            },
        }

    def pods(self) -> list[Json]:
        """Its pods, out of one consistent list of all; a node that has too much is noted for the verdict."""
        with Connection(self.cluster.plane) as connection:
            nodes = connection.get("/api/v1/nodes")["items"]
            listed = connection.get("/api/v1/pods")["items"]
        self._overcommitted.update(overcommitted(listed, nodes))
        return [pod for pod in listed if pod["metadata"]["namespace"] == self.namespace]

    @property
    def newest(self) -> str:
        """The name of the pod that was created last."""
        return self._newest

    def has_node(self, name: str) -> bool:
        """Whether a pod has a node."""
        with Connection(self.cluster.plane) as connection:
            pod = connection.get(f"/api/v1/namespaces/{self.namespace}/pods/{name}")
        return bool(pod["spec"].get("nodeName"))

    def forget(self) -> None:
        """Expect nothing of the pods that were created so far: they were deleted on purpose."""
        self._created.clear()

    def waiting(self) -> int:
        """How many pods have no node."""
        with Connection(self.cluster.plane) as connection:
            path = f"/api/v1/namespaces/{self.namespace}/pods?fieldSelector=spec.nodeName%3D"
            return len(connection.metadata(path))

    def wait_until_all_bound(self, within_s: float = LONGEST_S) -> float:
        """Wait until no pod is without a node; returns how long that took, in seconds.

        Raises:
            ComponentFailed: Not in time.
        """
        began_s = time.monotonic()
        wait_for("all pods have a node", lambda: self.waiting() == 0, within_s)
        return time.monotonic() - began_s

    def verdict(self) -> Verdict:
        """Look at everything that was made; call it when all pods should have a node."""
        listed = self.pods()
        there = {pod["metadata"]["name"]: pod for pod in listed}
        made = [
            each for each in audit.bindings(self.cluster.site) if each.pod.startswith(f"{self.namespace}/")
        ]
        places: defaultdict[str, set[str]] = defaultdict(set)
        unanswered = {each.pod for each in made if each.code == audit.UNANSWERED}
        for each in made:
            if each.may_be_done:
                places[each.pod].add(each.node)
        return Verdict(
            pods=len(self._created),
            lost=tuple(
                sorted(
                    name
                    for name in self._created
                    if name not in there or not there[name]["spec"].get("nodeName")
                )
            ),
            bound_twice=tuple(audit.bound_twice(made)),
            elsewhere=tuple(
                name
                for name, pod in there.items()
                if (node := pod["spec"].get("nodeName"))
                and node not in places[key := f"{self.namespace}/{name}"]
                and key not in unanswered
            ),
            overcommitted=tuple(sorted(self._overcommitted)),
            refused=Counter(each.code for each in made if each.code not in {audit.CREATED, audit.UNANSWERED}),
        )

    def remove(self) -> None:
        """Delete all pods and wait until they are gone."""
        with Connection(self.cluster.plane) as connection:
            bulk.delete_pods(connection, self.namespace)
            wait_for("no pod is left", lambda: bulk.count_pods(connection, self.namespace) == 0, LONGEST_S)
        self.forget()


def overcommitted(pods: Sequence[Json], nodes: Sequence[Json]) -> set[str]:
    """Nodes on which pods that are not over ask for more than the node can give, and of what."""
    used: defaultdict[tuple[str, str], Fraction] = defaultdict(Fraction)
    for pod in pods:
        node = pod["spec"].get("nodeName")
        if not node or pod["status"].get("phase") in OVER:
            continue
        used[node, "pods"] += 1
        for container in pod["spec"]["containers"]:
            for resource, text in container["resources"].get("requests", {}).items():
                used[node, resource] += parse_quantity(text)
    room = {node["metadata"]["name"]: node["status"]["allocatable"] for node in nodes}
    return {
        f"{node}: {resource} {float(amount):g} of {room[node][resource]}"
        for (node, resource), amount in used.items()
        if node in room and amount > parse_quantity(room[node][resource])
    }


@dataclass(frozen=True, kw_only=True)
class Life:
    """One life of a scheduler that was killed: seconds from its start until it was ready, until it bound."""

    ready_s: float
    bound_s: float


def kill_again_and_again(
    arena: Arena, scheduler: Scheduler, times: int, *, waiting: int, longest_s: float = 0.5
) -> list[Life]:
    """Start the scheduler and kill it in the middle of binding, so many times; at the end it does not run.

    Args:
        arena: Where pods wait.
        scheduler: Which does not run.
        times: How often it is killed.
        waiting: At each start at least so many pods wait.
        longest_s: It is killed at a drawn moment, at most so long after its first binding of this life.

    Raises:
        ComponentFailed: It ended by itself, or bound nothing.
    """
    lives: list[Life] = []
    for _ in range(times):
        missing = waiting - arena.waiting()
        if missing > 0:
            arena.create(missing)
        began_s = time.monotonic()
        scheduler.start()
        scheduler.wait_ready(LONGEST_S)
        ready_s = time.monotonic() - began_s
        wait_for("a pod is bound", lambda: bound(scheduler) > 0, LONGEST_S)
        lives.append(Life(ready_s=ready_s, bound_s=time.monotonic() - began_s))
        time.sleep(arena.rng.uniform(0.0, longest_s))
        scheduler.kill()
        arena.pods()
    return lives


def bound(scheduler: Scheduler) -> float:
    """How many pods it has bound in this life."""
    return scheduler.metric("stowplan_schedule_attempts_total", result="scheduled")


def seen_by(scheduler: Scheduler) -> dict[str, int]:
    """How many nodes and pods the scheduler believes to exist."""
    cluster = scheduler.ask("/v1/status")["cluster"]
    return {"nodes": cluster["nodes"], "pods": cluster["pods"]}


def there_are(cluster: Cluster) -> dict[str, int]:
    """How many nodes and pods exist, by the API server's own list."""
    with Connection(cluster.plane) as connection:
        return {
            "nodes": len(connection.metadata("/api/v1/nodes")),
            "pods": len(connection.metadata("/api/v1/pods")),
        }
