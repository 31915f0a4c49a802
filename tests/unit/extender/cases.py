"""A cluster, pods and questions to try an extender with; the clock is in the test's hand."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from prometheus_client import CollectorRegistry

from stowplan.core.constraints import NO_RULES, RuleTable
from stowplan.core.domain import (
    BoundPod,
    ClusterState,
    Node,
    NodeSet,
    PendingTask,
    PodBound,
    PodRemoved,
    PodShape,
    Resources,
    RunningTask,
    Task,
    Workflow,
    WorkflowProgress,
    WorkProfile,
)
from stowplan.core.policy import Policy, make_policy
from stowplan.errors import InvalidObject
from stowplan.kube.api.status import SchedulingStatus
from stowplan.kube.live.pod import LivePod, MainContainer
from stowplan.observe.history.records import Decision
from stowplan.serve.extender.answers import Answer
from stowplan.serve.extender.extender import Extender, Surroundings
from stowplan.serve.extender.metrics import ExtenderMetrics
from stowplan.serve.extender.settings import ExtenderSettings

Json = dict[str, Any]

MIB = 2**20


def live_pod(name: str, cpu: int = 1000, scheduler: str = "default-scheduler") -> LivePod:
    """A pod of namespace `ns` that asks for `cpu` milli-cores and waits."""
    return LivePod(
        key=f"ns/{name}",
        namespace="ns",
        name=name,
        uid=f"uid-{name}",
        shape=PodShape(
            namespace="ns",
            labels=(("app", "x"),),
            requests=Resources({"cpu": cpu, "memory": 64 * MIB}),
            score_cpu_milli=cpu,
            scheduler_name=scheduler,
        ),
        phase="Pending",
        node_name="",
        is_terminating=False,
        created_s=0.0,
        started_s=None,
        status=SchedulingStatus(),
        reason="",
        message="",
        can_preempt=True,
        owner=None,
        identity=None,
        main=MainContainer("image", (), cpu, 64 * MIB),
    )


def manifest(pod: LivePod) -> Json:
    """The pod as JSON has it."""
    status = {"nominatedNodeName": "n0"} if pod.shape.own_nomination else {}
    return {
        "metadata": {
            "name": pod.name,
            "namespace": pod.namespace,
            "uid": pod.uid,
            "labels": dict(pod.shape.labels),
            "resourceVersion": "7",
        },
        "spec": {"containers": [{"name": "main"}]},
        "status": status,
    }


def question(pod: LivePod, nodes: Sequence[str]) -> bytes:
    """What kube-scheduler sends with `nodeCacheCapable`."""
    return json.dumps({"Pod": manifest(pod), "Nodes": None, "NodeNames": list(nodes)}).encode()


def levels(answer: bytes, asked: Sequence[str]) -> dict[str, int]:
    """The level of each node in an answer to Prioritize, as kube-scheduler reads it."""
    found = json.loads(answer)
    assert all(set(one) == {"Host", "Score"} and one["Score"] > 0 for one in found)
    level_of = {one["Host"]: one["Score"] for one in found}
    assert len(level_of) == len(found)
    assert level_of.keys() <= set(asked)
    return {name: level_of.get(name, 0) for name in asked}


class OwnWorkflows:
    """Takes every pod for a workflow of its own, of a minute."""

    running: Mapping[str, RunningTask] = {}

    def task_of(self, pod: LivePod, ready_s: float) -> PendingTask:
        task = Task(pod.name, pod.shape, WorkProfile(()), 60.0)
        progress = WorkflowProgress(pod.key, Workflow(pod.key, (task,)), ready_s)
        return PendingTask(pod.key, progress, 0, ready_s)


@dataclass
class FakeFeed:
    """A feed that the test fills."""

    state: ClusterState = field(default_factory=ClusterState)
    pods: dict[str, LivePod] = field(default_factory=dict[str, LivePod])
    is_settled: bool = True


class Bench:
    """An extender, and everything around it."""

    def __init__(
        self,
        policy: str | Policy = "heft",
        *,
        nodes: Mapping[str, int] | int = 3,
        rules: RuleTable = NO_RULES,
        on_answer: Callable[[LivePod, Answer], None] | None = None,
        settings: ExtenderSettings | None = None,
    ) -> None:
        """Make it; `nodes` are milli-cores by name, or how many nodes `n0`, `n1` … of 8 cores."""
        self.now_s = 100.0
        self.feed = FakeFeed()
        self.read: list[bytes] = []
        self.readable: dict[str, LivePod] = {}
        self.decisions: list[Decision] = []
        self.registry = CollectorRegistry()
        self.metrics = ExtenderMetrics(self.registry)
        cores = nodes if isinstance(nodes, Mapping) else {f"n{number}": 8000 for number in range(nodes)}
        for name, milli in cores.items():
            self.set_node(name, milli)
        self.extender = Extender(
            self.feed,
            make_policy(policy) if isinstance(policy, str) else policy,
            Surroundings(
                tasks=OwnWorkflows(),
                read=self._read,
                metrics=self.metrics,
                monotonic=lambda: self.now_s,
                wall=lambda: 1e9 + self.now_s,
                rng=np.random.default_rng(0),
                on_answer=on_answer,
                on_decision=self.decisions.append,
                policy_version="1",
            ),
            rules=rules,
            settings=settings,
        )

    def _read(self, raw: bytes) -> LivePod:
        self.read.append(raw)
        name = json.loads(raw)["metadata"]["name"]
        if name not in self.readable:
            raise InvalidObject(f"Pod ns/{name}: spec.containers is []; a pod has at least one container")
        return self.readable[name]

    def set_node(self, name: str, milli: int = 8000, labels: Mapping[str, str] | None = None) -> None:
        """Add a node, or change it."""
        allocatable = Resources({"cpu": milli, "memory": 64 * 2**30, "pods": 110})
        self.feed.state.apply(NodeSet(Node(name, allocatable, tuple(sorted((labels or {}).items())))))

    def arrive(self, pod: LivePod) -> LivePod:
        """The feed sees a pod that waits."""
        self.feed.pods[pod.key] = pod
        self.extender.listener.pod_set(None, pod)
        return pod

    def bind(self, pod: LivePod, node: str) -> LivePod:
        """The feed sees a pod bound."""
        before = self.feed.pods.get(pod.key)
        bound = self.feed.pods[pod.key] = replace(pod, node_name=node)
        self.feed.state.apply(PodBound(BoundPod(pod.key, pod.shape, uid=pod.uid), node))
        self.extender.listener.pod_set(before, bound)
        return bound

    def end(self, pod: LivePod) -> None:
        """The feed sees a bound pod gone."""
        self.feed.state.apply(PodRemoved(pod.key))
        self.extender.listener.pod_gone(self.feed.pods.pop(pod.key))

    def prioritize(self, pod: LivePod, nodes: Sequence[str] | None = None) -> dict[str, int]:
        """Ask for the levels of `nodes`, by default all."""
        asked = [name for name, _ in self.feed.state.rows()] if nodes is None else nodes
        return levels(self.extender.prioritize(question(pod, asked)), asked)

    def counted(self, name: str, **labels: str) -> float:
        """A metric of the extender; 0 when it was not counted yet."""
        return self.registry.get_sample_value(f"stowplan_extender_{name}", labels) or 0.0
