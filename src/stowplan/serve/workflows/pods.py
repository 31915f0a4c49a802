"""The pods of the cluster as tasks: what each is in its workflow, where it runs, what became of it.

Everything here happens in the event loop's thread and takes microseconds. A pod may be seen before its
workflow has been read, or after; whichever comes second finds the other.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from stowplan.core.domain import ClassKey, ClusterState, TaskStatus
from stowplan.kube.argo import AgentPod, TaskPod, history_key, match_pod
from stowplan.kube.live.listener import ClusterChange
from stowplan.kube.live.pod import LivePod
from stowplan.observe.history.expected import ExpectedDuration
from stowplan.serve.workflows.classes import item_of, own_class, shape_of, within_class
from stowplan.serve.workflows.document import WorkflowHead
from stowplan.serve.workflows.ends import status_of_end
from stowplan.serve.workflows.entries import PodEntry, WorkflowEntry
from stowplan.serve.workflows.expectations import Expectations
from stowplan.serve.workflows.recording import Recorder, neighbours_of
from stowplan.serve.workflows.running import RunningTasks
from stowplan.serve.workflows.tasks import pending_of

__all__ = ["PodTasks"]

_UNREACHABLE: Final = "node.kubernetes.io/unreachable"


class PodTasks:
    """The pods by key, and the workflows that they belong to.

    Attributes:
        workflows: those that are followed, by namespace and name; whoever follows them fills it.
        running: the tasks that have a node.
    """

    def __init__(
        self,
        state: ClusterState,
        expectations: Expectations,
        recorder: Recorder,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """Know no pod yet.

        Args:
            state: the cluster that the pods are in.
            expectations: how long they take.
            recorder: who is told what ran.
            monotonic: a clock in seconds.
            wall: a clock in seconds since the epoch.
        """
        self.workflows: dict[str, WorkflowEntry] = {}
        self.running = RunningTasks(state)
        self._state = state
        self._expectations = expectations
        self._recorder = recorder
        self._monotonic = monotonic
        self._wall = wall
        self._pods: dict[str, PodEntry] = {}
        self._running_on: dict[str, dict[str, PodEntry]] = {}
        self._unclassed: dict[str, PodEntry] = {}
        self._of_workflow: dict[str, dict[str, PodEntry]] = {}

    def __len__(self) -> int:
        """Count the pods."""
        return len(self._pods)

    @property
    def without_class(self) -> int:
        """How many pods wait for their workflow to be seen."""
        return len(self._unclassed)

    def running_uids(self) -> list[str]:
        """Return the uids of the pods whose main container runs."""
        return [entry.pod.uid for entries in self._running_on.values() for entry in entries.values()]

    def entry_of(self, pod: LivePod) -> PodEntry:
        """Return what is known of a pod; of one that nobody told of, what can be told from it alone."""
        entry = self._pods.get(pod.key)
        if entry is None or entry.pod.uid != pod.uid:
            entry = self._new_entry(pod)  # the feed has not told it: somebody else shows it
            self._link(entry)
        elif entry.pod.shape is not pod.shape:
            entry.pod = pod
        return entry

    def known(self, pod: LivePod) -> PodEntry | None:
        """Return what is known of a pod that the feed has told of, and nothing of others."""
        entry = self._pods.get(pod.key)
        return entry if entry is not None and entry.pod.uid == pod.uid else None

    def expected_on(self, entry: PodEntry, node_name: str) -> ExpectedDuration:
        """Return how long a pod would run on a node; "" for a usual one."""
        node_class = self._recorder.node_class(node_name)
        return self._expectations.expected(entry.key, entry.item, node_class, entry.shape)

    def give_up(self, before_s: float) -> None:
        """Take pods seen before `before_s`, whose workflow did not turn up since, for pods of none."""
        for entry in [one for one in self._unclassed.values() if one.seen_mono_s <= before_s]:
            self._classed(entry)

    # ---- what the feed tells ----

    def pod_set(self, before: LivePod | None, now: LivePod) -> None:
        """A pod appeared, or changed."""
        entry = self._pods.get(now.key)
        if entry is not None and entry.pod.uid != now.uid:
            self.pod_gone(entry.pod)
            entry = None
        if entry is None:
            entry = self._pods[now.key] = self._new_entry(now)
            if now.owner is not None and now.owner.kind == "Workflow":
                self._of_workflow.setdefault(f"{now.namespace}/{now.owner.name}", {})[now.key] = entry
            self._link(entry)
            if not entry.is_classed:
                self._unclassed[now.key] = entry
        entry.pod = now
        self._note_times(entry, before)
        self._track(entry)
        if now.has_ended:
            self._leave(entry)
            self._close(entry)
        elif now.node_name:
            self._settle_on_node(entry)

    def pod_gone(self, last: LivePod) -> None:
        """A pod was deleted."""
        entry = self._pods.pop(last.key, None)
        if entry is None:
            return
        entry.pod = last
        self._leave(entry)
        has_been_cut_off = entry.was_cut_off and last.main.started_s is not None
        if not entry.is_closed and (last.has_ended or has_been_cut_off):
            self._classed(entry)
            self._close(entry)  # any other ended unseen: nobody knows when, or how
        self._unclassed.pop(last.key, None)
        if last.owner is not None and last.owner.kind == "Workflow":
            key = f"{last.namespace}/{last.owner.name}"
            of_workflow = self._of_workflow.get(key, {})
            of_workflow.pop(last.key, None)
            if not of_workflow:
                self._of_workflow.pop(key, None)
        if entry.workflow is not None:
            entry.workflow.pods.pop(last.key, None)
            if not last.has_ended and entry.task is not None and entry.workflow.tracking is not None:
                self._tell(entry, None)

    def cluster_changed(self, change: ClusterChange) -> None:
        """Something besides pods changed."""
        if change & (ClusterChange.NODE_ADDED | ClusterChange.NODE_REMOVED):
            self.running.nodes_moved()

    def _new_entry(self, pod: LivePod) -> PodEntry:
        identity = pod.identity
        entry = PodEntry(pod, self._monotonic(), shape_of(pod.main), own_class(pod))
        if isinstance(identity, TaskPod):
            entry.item, entry.attempt = item_of(identity.path), identity.path.attempt
        entry.is_classed = identity is None
        return entry

    def _note_times(self, entry: PodEntry, before: LivePod | None) -> None:
        now = entry.pod
        entry.was_cut_off |= now.is_terminating and not now.has_ended
        if now.is_gated:
            entry.was_gated = True
        elif entry.ready_s is None:
            entry.ready_s = self._wall() if entry.was_gated else now.created_s
        if now.node_name and entry.placed_mono_s is None:
            was_seen = before is not None
            entry.placed_mono_s = self._monotonic()
            entry.placed_s = self._wall() if was_seen else now.started_s
            if now.main.started_s is None or was_seen:
                entry.foretold = self.expected_on(entry, now.node_name)
        if now.main.started_s is not None and entry.started_mono_s is None:
            # Once: a clock that is set later must not move it.
            ago_s = max(0.0, self._wall() - now.main.started_s)
            started_s = self._monotonic() - ago_s
            if before is not None and entry.placed_mono_s is not None:
                started_s = max(started_s, entry.placed_mono_s)
                beside = self._running_on.get(now.node_name, {}).values()
                entry.neighbours = neighbours_of(beside, entry)
            entry.started_mono_s = started_s

    def _settle_on_node(self, entry: PodEntry) -> None:
        now = entry.pod
        if now.main.started_s is not None:
            self._running_on.setdefault(now.node_name, {})[now.key] = entry
            self._recorder.started(entry)
        began_s = entry.started_mono_s if entry.started_mono_s is not None else entry.placed_mono_s
        now_s = self._monotonic()
        began_s = now_s if began_s is None else began_s
        ready_s = entry.pending.ready_s if entry.pending is not None else entry.seen_mono_s
        pending = pending_of(entry, self._expectations, ready_s)
        self.running.set(pending, now.node_name, began_s, self.expected_on(entry, now.node_name), now_s)

    def _leave(self, entry: PodEntry) -> None:
        key, node_name = entry.pod.key, entry.pod.node_name
        self.running.remove(key)
        beside = self._running_on.get(node_name)
        if beside is not None:
            beside.pop(key, None)
            if not beside:
                del self._running_on[node_name]

    def _close(self, entry: PodEntry) -> None:
        """Write how a pod ended, once its class is known."""
        if entry.is_closed or not entry.is_classed:
            return
        is_lost = self._is_lost(entry.pod.node_name)
        status = status_of_end(entry.pod, was_cut_off=entry.was_cut_off, node_is_lost=is_lost)
        self._recorder.ended(entry, status, self._wall())

    def _is_lost(self, node_name: str) -> bool:
        row = self._state.row(node_name)
        if row < 0:
            return True
        return any(taint.key == _UNREACHABLE for taint in self._state.node(row).taints)

    # ---- pods and workflows ----

    def _link(self, entry: PodEntry) -> None:
        """Find what a pod is in its workflow."""
        pod = entry.pod
        if pod.identity is None or pod.owner is None:
            entry.is_classed = True
            return
        workflow = self.workflows.get(f"{pod.namespace}/{pod.owner.name}")
        if workflow is None or workflow.head is None or workflow.head.uid != pod.owner.uid:
            return
        self._take_class(entry, workflow, pod.identity)
        if entry.foretold is not None and not entry.is_classed and pod.main.started_s is None:
            # It was placed before its workflow had been read: from the class that it was then taken for.
            entry.foretold = self.expected_on(entry, pod.node_name)
        entry.is_classed = True

    def _take_class(self, entry: PodEntry, workflow: WorkflowEntry, identity: TaskPod | AgentPod) -> None:
        pod = entry.pod
        entry.workflow, entry.match, entry.task, entry.pending = workflow, None, None, None
        if self._pods.get(pod.key) is entry:
            workflow.pods[pod.key] = entry
        tracking = workflow.tracking
        if isinstance(identity, AgentPod):
            entry.key = ClassKey(workflow.origin, "agent", "agent")
            return
        entry.key = within_class(workflow.origin, identity)
        if tracking is None:
            return
        match = entry.match = match_pod(tracking.index.graph, identity)
        if match is not None:
            entry.task = tracking.index.view.tasks_by_node.get(match.node.index)
            if not match.is_within:
                entry.key = history_key(tracking.index.graph, match.node)

    def _classed(self, entry: PodEntry) -> None:
        """Take the class of a pod for settled, and write what waited for that."""
        self._unclassed.pop(entry.pod.key, None)
        if not entry.is_classed:
            self._link(entry)
            entry.is_classed = True
        if entry.pod.has_ended:
            self._close(entry)
        elif entry.pod.main.started_s is not None:
            self._recorder.started(entry)

    def _track(self, entry: PodEntry) -> None:
        """Tell the workflow of a pod how the pod stands."""
        if entry.workflow is None or entry.workflow.tracking is None or entry.task is None:
            return
        pod = entry.pod
        if pod.has_ended:
            state = TaskStatus.DONE if pod.phase == "Succeeded" else None
        elif pod.node_name:
            state = TaskStatus.RUNNING
        else:
            state = None if pod.is_terminating else TaskStatus.PENDING
        self._tell(entry, state)

    def _tell(self, entry: PodEntry, state: TaskStatus | None) -> None:
        workflow, match = entry.workflow, entry.match
        if workflow is None or workflow.tracking is None or entry.task is None or match is None:
            return
        if match.is_within:
            return  # what is within a recursion is not all of it
        tracking = workflow.tracking
        tracking.pod(entry.task, match.items, entry.pod.uid, None if state is None else int(state))
        tracking.settle()

    def wants(self, head: WorkflowHead) -> bool:
        """Whether pods of an ended workflow are known, so that its graph is needed for their classes."""
        pods = self._of_workflow.get(head.key, {}).values()
        own = [pod for pod in pods if pod.pod.owner is not None and pod.pod.owner.uid == head.uid]
        return not all(pod.is_closed for pod in own)

    def workflow_read(self, entry: WorkflowEntry, *, is_new_graph: bool) -> None:
        """A version of a workflow was read."""
        self._recorder.workflow(entry)
        if not is_new_graph:
            return
        for pod in list(self._of_workflow.get(entry.key, {}).values()):
            self._link(pod)
            if pod.workflow is entry:
                self._track(pod)
                if pod.pod.node_name and not pod.pod.has_ended:
                    self._settle_on_node(pod)
                self._classed(pod)

    def workflow_gone(self, entry: WorkflowEntry) -> None:
        """A workflow is no longer followed: what is left of its pods are tasks of their own."""
        for pod in entry.pods.values():
            pod.workflow = pod.match = pod.task = pod.pending = None
        entry.pods = {}
