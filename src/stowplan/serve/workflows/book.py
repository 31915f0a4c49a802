"""The book of live workflows: what pods are in them, how long they will take, and what ran.

    feed ─ pods ─────────────► WorkflowBook ◄──── workflows, read in a thread ─── Following
                                │    │   │
          task_of, running ◄────┘    │   └──► history: executions, workflow runs
                                     └── durations, learnt anew from the history ◄─┘

It listens to the feed, so everything about pods happens in the event loop's thread and takes microseconds.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

from prometheus_client import CollectorRegistry

from stowplan.core.domain import (
    ClusterState,
    PendingTask,
    RunningTask,
    WorkflowProgress,
)
from stowplan.kube.api.client import ApiClient
from stowplan.kube.api.reflection import Health
from stowplan.kube.api.reflection import Settings as ReflectorSettings
from stowplan.kube.live.listener import ClusterChange, Listener
from stowplan.kube.live.pod import LivePod
from stowplan.observe.history import HistoryStore
from stowplan.observe.history.accuracy import RunAccuracy
from stowplan.observe.history.durations import DurationModel
from stowplan.observe.history.expected import ExpectedDuration
from stowplan.serve.refitting import Refitter
from stowplan.serve.workflows.expectations import Expectations
from stowplan.serve.workflows.explaining import explain
from stowplan.serve.workflows.following import Following
from stowplan.serve.workflows.metrics import WorkflowMetrics
from stowplan.serve.workflows.pods import PodTasks
from stowplan.serve.workflows.predictions import PredictionLedger
from stowplan.serve.workflows.recording import HistorySink, Recorder
from stowplan.serve.workflows.settings import BookSettings
from stowplan.serve.workflows.tasks import pending_of

__all__ = ["Cluster", "WorkflowBook"]


class Cluster(Protocol):
    """The live cluster; `kube.live.feed.ClusterFeed` is one."""

    @property
    def state(self) -> ClusterState:
        """Its nodes and pods."""
        ...

    @property
    def pods(self) -> Mapping[str, LivePod]:
        """Its pods by key."""
        ...

    @property
    def is_settled(self) -> bool:
        """Whether all was listed."""
        ...

    def listen(self, listener: Listener) -> None:
        """Have changes told to `listener`."""
        ...


class WorkflowBook:
    """A `TaskBook` over live workflows, and a `Listener` of the feed."""

    def __init__(  # noqa: PLR0913 - two are needed, the others have a default that fits
        self,
        client: ApiClient,
        cluster: Cluster,
        *,
        history: HistorySink | None = None,
        history_url: str = "",
        registry: CollectorRegistry | None = None,
        settings: BookSettings | None = None,
        reflector_settings: ReflectorSettings | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """Listen to `cluster`; workflows are followed once `run` runs.

        Args:
            client: where the workflows are.
            cluster: where the pods are.
            history: where records go and durations come from; None: nowhere, and all tasks are alike.
            history_url: where it is, so that another process can read it.
            registry: of the metrics.
            settings: how patient it is.
            reflector_settings: how patient its watches are.
            monotonic: a clock in seconds.
            wall: a clock in seconds since the epoch.
        """
        self._cluster = cluster
        self._history = history
        self._settings = settings or BookSettings()
        self._monotonic = monotonic
        self._wall = wall
        self._metrics = WorkflowMetrics(registry)
        self._metrics.workflows(self._count)
        self._ledger = PredictionLedger()
        self._recorder = Recorder(history, cluster.state, self._metrics, self._ledger)
        self._expectations = Expectations()
        self._pods = PodTasks(
            cluster.state, self._expectations, self._recorder, monotonic=monotonic, wall=wall
        )
        self._refitter = Refitter(
            self._store,
            self._take,
            url=history_url,
            refit_s=self._settings.refit_s,
            tick_s=self._settings.tick_s,
            has_news=lambda: self._recorder.has_new_ends,
            begin=self._begin_fit,
            wall=wall,
            monotonic=monotonic,
        )
        self._following = Following(
            client,
            self._pods,
            self._expectations,
            self._metrics,
            self._settings,
            reflector_settings=reflector_settings,
            monotonic=monotonic,
            wall=wall,
        )
        cluster.listen(self)
        for pod in cluster.pods.values():
            self.pod_set(None, pod)

    # ---- running ----

    async def run(self) -> None:
        """Follow the workflows until cancelled. They are looked at once the pods are known."""
        while not self._cluster.is_settled:  # noqa: ASYNC110 - the feed tells changes, not that it has settled
            await asyncio.sleep(0.02)
        await self._refitter.fit()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._following.run())
            tasks.create_task(self._keep())
            tasks.create_task(self._refitter.run())

    @property
    def is_settled(self) -> bool:
        """Whether every workflow was read: only then are tasks what they will be taken for."""
        return self._cluster.is_settled and self._following.is_settled

    @property
    def health(self) -> Mapping[str, Health]:
        """How the copies of Argo's objects fare, by kind."""
        return self._following.health

    @property
    def degraded(self) -> Mapping[str, str]:
        """What works in a lesser way now, by component, and why; empty where all is well."""
        found: dict[str, str] = {}
        if self._refitter.error:
            found["durations"] = self._refitter.error
        unread = [entry.key for entry in self._following.entries.values() if entry.problem]
        if unread:
            found["workflows"] = f"without a task graph: {_some(unread)}"
        blind = [entry.key for entry in self._following.entries.values() if entry.nodes_problem]
        if blind:
            found["workflow statuses"] = f"cannot be read: {_some(blind)}"
        return found

    @property
    def status(self) -> Mapping[str, object]:
        """What it knows, as plain values."""
        return {
            "argo": "not installed" if self._following.is_absent else "followed",
            "workflows": {state: self._count(state) for state in ("followed", "unreadable", "ended")},
            "pods": len(self._pods),
            "pods_without_class": self._pods.without_class,
            "records_owed": self._recorder.owed,
            "duration_classes": len(self._expectations.model),
            "accuracy": [
                {
                    "workflow": run.workflow,
                    "tasks": run.tasks,
                    "from_own_runs": run.from_own_runs,
                    "median_error": round(run.median_error, 4),
                }
                for run in self._ledger.runs(10)
            ],
        }

    def accuracy(self) -> Sequence[RunAccuracy]:
        """Return how well the workflow runs of late were foretold, the newest first."""
        return self._ledger.runs()

    def _count(self, state: str) -> int:
        entries = self._following.entries.values()
        if state == "unreadable":
            return sum(bool(entry.problem) for entry in entries)
        if state == "ended":
            return sum(entry.ended_mono_s is not None for entry in entries)
        return len(entries)

    async def _keep(self) -> None:
        """Look after what time brings."""
        while True:
            await asyncio.sleep(self._settings.tick_s)
            self._following.look()
            if self._following.is_settled:
                self._pods.give_up(self._monotonic() - self._settings.unknown_s)
            self._drop_ended()
            self._recorder.catch_up()

    # ---- learning ----

    async def _store(self) -> HistoryStore | None:
        return self._history.store if self._history is not None else None

    def _begin_fit(self) -> Collection[str]:
        # Ends that wait to be written are not learnt from now, so they are still new afterwards.
        queued = self._history.status.get("queued") if self._history is not None else 0
        self._recorder.has_new_ends = bool(queued or self._recorder.owed)
        return self._pods.running_uids()

    def _take(self, model: DurationModel, took_s: float) -> None:
        self._expectations.renew(model)
        self._metrics.fitted(len(model), took_s)
        self._following.renew()

    def _drop_ended(self) -> None:
        before_s = self._monotonic() - self._settings.linger_s
        for entry in list(self._following.entries.values()):
            if entry.ended_mono_s is None or entry.ended_mono_s > before_s:
                continue
            if all(pod.is_closed or pod.pod.has_ended for pod in entry.pods.values()):
                self._following.drop(entry.key)

    # ---- tasks ----

    def task_of(self, pod: LivePod, ready_s: float) -> PendingTask:
        """Return the pod as a task of its workflow; see `TaskBook`."""
        return pending_of(self._pods.entry_of(pod), self._expectations, ready_s)

    @property
    def running(self) -> Mapping[str, RunningTask]:
        """The tasks that have a node now, by the pod's key."""
        return self._pods.running.current(self._monotonic())

    def expected(self, pod: LivePod) -> ExpectedDuration:
        """Return how long a pod will run: on its node, or on a usual one as long as it has none."""
        return self._pods.expected_on(self._pods.entry_of(pod), pod.node_name)

    def expected_on(self, pod: LivePod, node_name: str) -> ExpectedDuration | None:
        """Return how long a pod would run on a node; None: it is gone by now.

        It only looks, so that it may be asked from another thread.
        """
        entry = self._pods.known(pod)
        return None if entry is None else self._pods.expected_on(entry, node_name)

    def progress_of(self, workflow: str) -> WorkflowProgress | None:
        """Return the progress of a workflow (`namespace/name`), None where it has no graph."""
        entry = self._following.entries.get(workflow)
        return None if entry is None or entry.tracking is None else entry.tracking.progress

    def explain_workflow(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        """Return all that is known of a workflow, as plain data; None: it is not followed."""
        entry = self._following.entries.get(f"{namespace}/{name}")
        return None if entry is None else explain(entry, self._expectations)

    # ---- what the feed tells ----

    def pod_set(self, before: LivePod | None, now: LivePod) -> None:
        """A pod appeared, or changed."""
        self._pods.pod_set(before, now)

    def pod_gone(self, last: LivePod) -> None:
        """A pod was deleted."""
        self._pods.pod_gone(last)

    def cluster_changed(self, change: ClusterChange) -> None:
        """Something besides pods changed."""
        self._pods.cluster_changed(change)


def _some(names: Sequence[str]) -> str:
    """Return the first of the names, and how many there are."""
    return f"{', '.join(sorted(names)[:3])} ({len(names)} in all)"
