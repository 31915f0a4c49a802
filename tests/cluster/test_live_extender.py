"""The extender and the real kube-scheduler, which follows our scores and rules, and does not miss us.

Stowplan runs as `stowplan serve scheduler`, a process of its own, so that it can be killed and stopped.
"""

import itertools
import json
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import pytest
from lightkube import Client
from lightkube.codecs import from_dict
from lightkube.resources.core_v1 import Pod
from lightkube.resources.scheduling_v1 import PriorityClass

from stowplan.serve.extender.configuration import ClientTls, extender_entry
from testbed import api, bulk, kwok, pods
from testbed.cluster import Cluster, running
from testbed.errors import MissingPrerequisite
from testbed.spec import ClusterSpec, FakeNodes, Json
from testbed.stowplan import Scheduler, grant
from testbed.waiting import wait_for

PORT = 10452
URL = f"http://127.0.0.1:{PORT}"
NODES = 8  # of 32 cores each
KUBE_SCHEDULER = "kube-scheduler"
PATIENT_S = 10.0  # where only the placement matters, and the machine may be slow
PATIENT_MS = 1000 * PATIENT_S
WITHIN_S = 60.0

_numbers = itertools.count(1)


class Bed:
    """A cluster of fake nodes in which kube-scheduler and the extender come and go."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    @property
    def client(self) -> Client:
        return self.cluster.client

    @contextmanager
    def scheduler(self, entry: Json) -> Generator[None]:
        """kube-scheduler with that extender."""
        self.cluster.plane.start_scheduler({"extenders": [entry]})
        try:
            yield
        finally:
            self.cluster.daemons.end(KUBE_SCHEDULER)

    @contextmanager
    def extender(
        self, policy: str, *, rules: Json | None = None, budget_ms: float = 50.0, files: Json | None = None
    ) -> Generator[Scheduler]:
        """`stowplan serve scheduler` in extender mode, ready; it may be killed and started in the block."""
        folder = self.cluster.site.folder
        config: Json = {
            "scheduler": {"mode": "extender", "policy": policy},
            "extender": {"port": PORT, "budget_ms": budget_ms, **(files or {})},
            "history": {"url": f"sqlite:///{folder}/extender-{next(_numbers)}.db"},
            "lease": {"enable": False},
        }
        if rules is not None:
            file = folder / f"rules-{next(_numbers)}.yaml"
            file.write_text(json.dumps(rules))
            config["scheduler"]["rules"] = str(file)
        grant(self.client, "extender")
        scheduler = Scheduler(self.cluster.plane, config)
        scheduler.start()
        scheduler.wait_ready()
        try:
            yield scheduler
        finally:
            if scheduler.name in self.cluster.daemons.running:
                scheduler.kill()

    @contextmanager
    def namespace(self) -> Generator[str]:
        """A fresh namespace, whose pods are gone after the block."""
        name = f"extender-{next(_numbers)}"
        api.make_namespace(self.client, name)
        yield name
        api.delete_pods(self.client, name)
        wait_for("no pod is left", lambda: not list(self.client.list(Pod, namespace=name)), WITHIN_S)

    def places(self, namespace: str) -> dict[str, str]:
        """Where the pods of a namespace are; those that wait are left out."""
        listed = self.client.list(Pod, namespace=namespace)
        return {str(pod.metadata.name): pod.spec.nodeName for pod in listed if pod.spec.nodeName}

    def wait_bound(self, namespace: str, count: int) -> dict[str, str]:
        return wait_for(
            f"{count} pods are bound",
            lambda: places if len(places := self.places(namespace)) >= count else None,
            WITHIN_S,
        )

    def create(self, namespace: str, name: str, cpu: str, **spec: Any) -> None:  # noqa: ANN401 - manifest fields
        pods.create(self.client, fake_pod(namespace, name, cpu, **spec))


def fake_pod(
    namespace: str,
    name: str,
    cpu: str,
    labels: Mapping[str, str] | None = None,
    **spec: Any,  # noqa: ANN401 - manifest fields
) -> Json:
    """A pod that runs until it is deleted."""
    limits = {"cpu": cpu, "memory": "64Mi"}
    manifest = pods.pod(namespace, name, limits=limits, restartPolicy="Always", **spec)
    manifest["metadata"]["labels"] = labels or {}
    return manifest


@pytest.fixture(scope="module")
def bed(request: pytest.FixtureRequest, repository: Path) -> Iterator[Bed]:
    failed_before = request.session.testsfailed
    try:
        with running(ClusterSpec(fake_nodes=(FakeNodes(count=NODES, taints=()),), scheduler=None)) as cluster:
            kwok.wait_until_schedulable(cluster.plane, cluster.client)
            yield Bed(cluster)
            if request.session.testsfailed > failed_before:
                cluster.keep_logs(repository / "out" / "cluster-logs" / cluster.site.name)
    except MissingPrerequisite as missing:
        pytest.skip(str(missing))


# ---- scores and rules ----


def test_kube_scheduler_follows_our_scores_and_every_binding_is_a_decision(bed: Bed) -> None:
    """Best fit packs where kube-scheduler would spread; a burst does not get ahead of what was foreseen."""
    count = 20  # eight fit on a node
    with (
        bed.extender("best-fit", budget_ms=PATIENT_MS) as extender,
        bed.scheduler(extender_entry(URL, timeout_s=PATIENT_S)),
        bed.namespace() as namespace,
    ):
        api.create_all(bed.client, (fake_pod(namespace, f"p{number}", "4") for number in range(count)))
        places = bed.wait_bound(namespace, count)
        used = sorted(list(places.values()).count(node) for node in set(places.values()))
        assert used == [4, 8, 8]
        wait_for("all are followed up", lambda: bound(extender, "best") == count, WITHIN_S)
        for name, node in places.items():
            told = wait_for(
                "the decision is kept", lambda name=name: why(extender, namespace, name), WITHIN_S
            )
            assert (told["node"], told["mode"], told["policy"]) == (node, "live", "best-fit")
            assert told["reason"].startswith("kube-scheduler took the best of ")
            assert told["candidates"] >= NODES - 2
        assert status(extender)["degraded"] == ""


def test_whole_nodes_can_be_sent_too_and_over_tls(bed: Bed) -> None:
    rules = {"version": 1, "rules": [{"name": "here", "require": {"node": "kwok-00003"}}]}
    authority = bed.cluster.plane.authority
    serving = authority.issue("extender", "extender", addresses=["127.0.0.1"])
    asking = authority.issue("extender-client", "kube-scheduler")
    ca = authority.pair.certificate
    tls = ClientTls(authority=ca, certificate=asking.certificate, key=asking.key)
    entry = extender_entry(
        URL.replace("http", "https"), has_rules=True, timeout_s=PATIENT_S, tls=tls, node_cache_capable=False
    )
    files = {"certificate": str(serving.certificate), "key": str(serving.key), "client_authority": str(ca)}
    with (
        bed.extender("heft", rules=rules, budget_ms=PATIENT_MS, files=files),
        bed.scheduler(entry),
        bed.namespace() as namespace,
    ):
        api.create_all(bed.client, (fake_pod(namespace, f"p{number}", "1") for number in range(4)))
        assert set(bed.wait_bound(namespace, 4).values()) == {"kwok-00003"}


def test_rules_refuse_nodes_with_their_reason_and_no_pod_is_ended_in_vain(bed: Bed) -> None:
    allowed = ["kwok-00001", "kwok-00006"]
    rules = {
        "version": 1,
        "rules": [
            {"name": "picky", "tasks": {"labels": {"kind": "picky"}}, "require": {"node": allowed}},
            {"name": "lost", "tasks": {"labels": {"kind": "lost"}}, "forbid": {"node": "kwok-*"}},
        ],
    }
    bed.client.create(
        from_dict(
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": "urgent"},
                "value": 1000,
            }
        )
    )
    with (
        bed.extender("kube-scheduler", rules=rules, budget_ms=PATIENT_MS),
        bed.scheduler(extender_entry(URL, has_rules=True, timeout_s=PATIENT_S)),
        bed.namespace() as namespace,
    ):
        bed.create(namespace, "lost", "1", labels={"kind": "lost"})
        pods.wait_until(
            bed.client,
            namespace,
            "lost",
            lambda pod: f"{NODES} rule 'lost' forbids this node" in scheduling_message(pod),
            WITHIN_S,
        )
        api.create_all(bed.client, (fake_pod(namespace, f"fills-{node}", "20") for node in range(NODES)))
        filled = bed.wait_bound(namespace, NODES)
        assert len(set(filled.values())) == NODES
        bed.create(namespace, "picky", "20", labels={"kind": "picky"}, priorityClassName="urgent")
        pods.wait_until(bed.client, namespace, "picky", lambda pod: pod.spec.nodeName, WITHIN_S)
        place = bed.places(namespace)["picky"]
        assert place in allowed
        left = [
            pod for pod in bed.client.list(Pod, namespace=namespace) if not pod.metadata.deletionTimestamp
        ]
        ended = filled.keys() - {str(pod.metadata.name) for pod in left}
        assert [filled[name] for name in ended] == [place], "one was ended, and not for nothing"
    bed.client.delete(PriorityClass, "urgent")


def status(extender: Scheduler) -> Json:
    return extender.ask("/v1/status")["extender"]


def bound(extender: Scheduler, result: str) -> float:
    return extender.metric("stowplan_extender_bindings_total", result=result)


def scored(extender: Scheduler) -> float:
    return extender.metric("stowplan_extender_request_duration_seconds_count", verb="prioritize")


def is_degraded(extender: Scheduler) -> bool:
    return extender.metric("stowplan_degraded", component="extender") == 1.0


def why(extender: Scheduler, namespace: str, name: str) -> Json | None:
    return extender.ask(f"/v1/pods/{namespace}/{name}")["why"]


def scheduling_message(pod: Pod) -> str:
    conditions = (pod.status and pod.status.conditions) or []
    return next((one.message or "" for one in conditions if one.type == "PodScheduled"), "")


# ---- when we are gone ----


class Load:
    """Pods created one after the other, each timed from its creation until the watch shows it bound."""

    def __init__(self, bed: Bed, namespace: str) -> None:
        self._bed = bed
        self._namespace = namespace
        self._bound_s: dict[str, float] = {}
        self._created_s: dict[str, float] = {}
        self._is_over = False
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        self._thread.join()

    def _watch(self) -> None:
        path = f"/api/v1/namespaces/{self._namespace}/pods?watch=1&timeoutSeconds=2"
        with bulk.Connection(self._bed.cluster.plane) as connection:
            while not self._is_over:  # every watch begins with all pods, so none is missed between two
                connection._connection.request("GET", path)
                for line in connection._connection.getresponse():
                    pod = json.loads(line)["object"]
                    if "nodeName" in pod["spec"]:
                        self._bound_s.setdefault(pod["metadata"]["name"], time.monotonic())

    def run(
        self, count: int, every_s: float, at: dict[int, Callable[[], object]] | None = None
    ) -> list[float]:
        """Create pods at an even pace and do what is due before each; return each one's wait in seconds."""
        first = len(self._created_s)
        names = [f"p{number}" for number in range(first, first + count)]
        began_s = time.monotonic()
        for number, name in enumerate(names):
            time.sleep(max(began_s + number * every_s - time.monotonic(), 0.0))
            if at and number in at:
                at[number]()
            self._bed.create(self._namespace, name, "100m")
            self._created_s[name] = time.monotonic()
        wait_for("all pods are bound", lambda: all(name in self._bound_s for name in names), WITHIN_S)
        return [max(self._bound_s[name] - self._created_s[name], 0.0) for name in names]


@contextmanager
def loaded(bed: Bed) -> Generator[tuple[Load, Scheduler]]:
    """A kube-scheduler that waits for the extender as briefly as it does by default, under load."""
    with (
        bed.extender("heft") as extender,
        bed.scheduler(extender_entry(URL)),
        bed.namespace() as namespace,
        Load(bed, namespace) as load,
    ):
        yield load, extender


def shown(waits_s: Sequence[float]) -> str:
    return f"longest wait {max(waits_s) * 1000:.0f} ms of {len(waits_s)} pods"


def test_killed_in_mid_load_delays_no_pod_and_comes_back(bed: Bed) -> None:
    with loaded(bed) as (load, extender):
        usual_s = load.run(30, 0.025)
        assert scored(extender) > 0
        waits_s = load.run(60, 0.025, at={20: extender.kill})
        assert max(waits_s) <= max(usual_s) + 1.0, f"usual: {shown(usual_s)}; killed: {shown(waits_s)}"
        with pytest.raises(ConnectionRefusedError):
            extender.get("/healthz")  # that it is gone can be seen
        # It comes back while the load goes on, and is asked again without anybody's doing.
        more_s = load.run(30, 0.025, at={10: extender.start})
        assert max(more_s) <= max(usual_s) + 1.0, f"usual: {shown(usual_s)}; restarted: {shown(more_s)}"
        extender.wait_ready()
        load.run(10, 0.025)
        assert scored(extender) > 0
        wait_for("it is well", lambda: not is_degraded(extender), WITHIN_S)


def test_hung_it_costs_each_pod_the_timeout_and_is_seen_to_have_been_passed_over(bed: Bed) -> None:
    with loaded(bed) as (load, extender):
        usual_s = load.run(20, 0.2)
        process = extender.daemon.process
        waits_s = load.run(40, 0.2, at={10: lambda: process.send_signal(signal.SIGSTOP)})
        assert max(waits_s) <= max(usual_s) + 1.0, f"usual: {shown(usual_s)}; hung: {shown(waits_s)}"
        process.send_signal(signal.SIGCONT)
        told = wait_for(
            "it sees that pods were bound without it",
            lambda: found if (found := status(extender))["bound_unasked"] >= 20 else None,
            WITHIN_S,
        )
        assert "without asking" in told["degraded"]
        wait_for("the metric says so", lambda: is_degraded(extender), WITHIN_S)
        load.run(5, 0.2)
        wait_for("it is well again", lambda: not is_degraded(extender), WITHIN_S)
