"""A book of workflows in hand: a cluster of two nodes, pods and versions of workflows told one by one."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import cast

from stowplan.core.domain import CPU, MEMORY, PODS, ClusterState, Node, NodeSet, Resources
from stowplan.kube.api.client import ApiClient
from stowplan.kube.api.reflection import Identity
from stowplan.kube.live.listener import Listener
from stowplan.kube.live.pod import LivePod
from stowplan.observe.history import Execution, HistoryStore, Record, WorkflowRun
from stowplan.serve.workflows.book import WorkflowBook
from stowplan.serve.workflows.settings import BookSettings
from tests.unit.workflows.cases import T0, Json, raw


class Clock:
    """Both clocks, moved by hand."""

    def __init__(self) -> None:
        self.wall_s = T0
        self.monotonic_s = 1000.0

    def move(self, seconds: float) -> None:
        self.wall_s += seconds
        self.monotonic_s += seconds

    def wall(self) -> float:
        return self.wall_s

    def monotonic(self) -> float:
        return self.monotonic_s


class Memory:
    """A history that keeps what it is given; its store is for questions only."""

    def __init__(self, store: HistoryStore | None = None) -> None:
        self.records: list[Record] = []
        self.queued = 0
        self.store: HistoryStore | None = store or cast("HistoryStore", object())  # it is open

    @property
    def status(self) -> Mapping[str, object]:
        return {"queued": self.queued}

    def put(self, record: Record) -> bool:
        self.records.append(record)
        return True

    def executions(self, pod: str = "") -> Sequence[Execution]:
        found = [record for record in self.records if isinstance(record, Execution)]
        return [record for record in found if not pod or record.pod == pod]

    def runs(self) -> Sequence[WorkflowRun]:
        return [record for record in self.records if isinstance(record, WorkflowRun)]


class Live:
    """A cluster with a book that listens."""

    is_settled = True

    def __init__(self, store: HistoryStore | None = None, settings: BookSettings | None = None) -> None:
        self.state = ClusterState()
        for name, kind in (("n1", "small"), ("n2", "large")):
            self.set_node(name, kind)
        self._pods: dict[str, LivePod] = {}
        self.clock = Clock()
        self.history = Memory(store)
        self.book = WorkflowBook(
            cast("ApiClient", None),  # no watch runs here
            self,
            history=self.history,
            settings=settings,
            monotonic=self.clock.monotonic,
            wall=self.clock.wall,
        )

    @property
    def pods(self) -> Mapping[str, LivePod]:
        return self._pods

    def listen(self, listener: Listener) -> None:
        self.listener = listener

    def set_node(self, name: str, kind: str = "", more: Mapping[str, int] | None = None) -> None:
        labels = (("node.kubernetes.io/instance-type", kind),) if kind else ()
        amounts = Resources({CPU: 4000, MEMORY: 2**33, PODS: 110, **(more or {})})
        self.state.apply(NodeSet(Node(name, amounts, labels=labels)))

    def tell(self, pod: LivePod) -> LivePod:
        before = self._pods.get(pod.key)
        self._pods[pod.key] = pod
        self.listener.pod_set(before, pod)
        return pod

    def delete(self, pod: LivePod) -> None:
        self.listener.pod_gone(self._pods.pop(pod.key))

    def show(self, workflow: Json, status: Json | None = None, uid: str = "uid-wf") -> None:
        """Tell a version of a workflow, and have it read."""
        metadata = workflow["metadata"]
        identity = Identity(metadata["name"], uid, "1", metadata["namespace"])
        self.book._following.set(identity, raw(workflow, status, uid))
        asyncio.run(self.book._following._empty())

    def hide(self, workflow: Json, uid: str = "uid-wf") -> None:
        metadata = workflow["metadata"]
        self.book._following.delete(Identity(metadata["name"], uid, "1", metadata["namespace"]))
        asyncio.run(self.book._following._empty())

    def learn(self) -> None:
        """Have durations learnt from the store."""

        async def fit() -> None:
            await self.book._refitter.fit()
            await self.book._following._empty()

        asyncio.run(fit())
