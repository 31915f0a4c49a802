"""Why a pod is where it is, and how far a workflow is: plain data, from the history and from what is live.

The same answers are served by the scheduler (`/v1/pods/…`, `/v1/workflows/…`) and given by `stowplan
explain`, which can also read the history without a scheduler. Times are seconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stowplan.core.domain import TaskStatus, WorkflowProgress
from stowplan.kube.live.pod import LivePod
from stowplan.observe.history import Decision, Execution, HistoryStore

__all__ = ["live_tasks", "pod_answer", "workflow_answer"]

Answer = dict[str, Any]


def pod_answer(
    store: HistoryStore | None, namespace: str, name: str, *, live: LivePod | None = None
) -> Answer | None:
    """Return what is known of a pod; None: nothing.

    Args:
        store: the history; None: there is none.
        namespace: of the pod.
        name: of the pod.
        live: the pod as it is now; None: it is gone, or nobody looks.

    Raises:
        HistoryError: the database fails.
    """
    decisions = store.decisions_of_pod(namespace, name, most=50) if store is not None else []
    if not decisions and live is None:
        return None
    uid = live.uid if live is not None else decisions[0].pod_uid
    ours = [decision for decision in reversed(decisions) if decision.pod_uid == uid]
    execution = store.execution(uid) if store is not None else None
    latest = ours[-1] if ours else None
    return {
        "pod": f"{namespace}/{name}",
        "uid": uid,
        "now": None if live is None else _now(live),
        "node": _node(latest, execution, live),
        "why": None if latest is None else _decision(latest),
        "predicted": None if latest is None else _predicted(latest),
        "real": None if execution is None else _real(execution, latest),
        "decisions": [_decision(decision) for decision in ours],
    }


def workflow_answer(
    store: HistoryStore | None,
    namespace: str,
    name: str,
    *,
    tasks: Sequence[Mapping[str, Any]] | None = None,
) -> Answer | None:
    """Return what is known of a workflow; None: nothing.

    Args:
        store: the history; None: there is none.
        namespace: of the workflow.
        name: of the workflow.
        tasks: how its tasks stand now, from `live_tasks`; None: nobody looks.

    Raises:
        HistoryError: the database fails.
    """
    run = store.workflow(namespace, name) if store is not None else None
    if run is None and tasks is None:
        return None
    executions = (
        store.executions_of_workflow(run.workflow_uid) if store is not None and run is not None else []
    )
    uids = {execution.pod_uid for execution in executions}
    uids |= {str(task["uid"]) for task in tasks or () if task.get("uid")}
    decisions = store.latest_decisions(uids) if store is not None else {}
    told = [_attempt(execution, decisions.get(execution.pod_uid)) for execution in executions]
    by_uid = {row["uid"]: row for row in told}
    for task in tasks or ():
        row = by_uid.get(task.get("uid") or "")
        if row is None:
            row = dict[str, Any]()
            told.append(row)
            decision = decisions.get(str(task.get("uid")))
            if decision is not None:
                row |= _foretold(decision)
        row |= {key: value for key, value in task.items() if row.get(key) is None or key == "state"}
    return {
        "workflow": f"{namespace}/{name}",
        "uid": None if run is None else run.workflow_uid,
        "phase": None if run is None else run.phase,
        "origin": None if run is None else run.origin,
        "submitted_s": None if run is None else run.submitted_s,
        "started_s": None if run is None else run.started_s,
        "finished_s": None if run is None else run.finished_s,
        "tasks": told,
    }


def live_tasks(progress: WorkflowProgress, pod_of: Callable[[int], LivePod | None]) -> list[dict[str, Any]]:
    """Return how the tasks of a workflow stand now, and what each waits for.

    Args:
        progress: how far the workflow is.
        pod_of: gives the pod of a task by its index; None: it has none (yet).
    """
    workflow, rows = progress.workflow, list[dict[str, Any]]()
    for index, task in enumerate(workflow.tasks):
        status = TaskStatus(progress.status.item(index))
        pod = pod_of(index)
        waits_for = [
            workflow.tasks[parent].name
            for parent in workflow.parents[index]
            if status is TaskStatus.WAITING and progress.status.item(parent) != TaskStatus.DONE
        ]
        rows.append(
            {
                "task": task.name,
                "template": task.template,
                "state": status.name.lower(),
                "pod": None if pod is None else pod.name,
                "uid": None if pod is None else pod.uid,
                "node": None if pod is None else pod.node_name or None,
                "waits_for": waits_for,
                "waits_why": _waiting(pod) if pod is not None and status is TaskStatus.PENDING else None,
                "predicted_s": task.expected_s,
            }
        )
    return rows


def _now(pod: LivePod) -> Answer:
    return {
        "phase": pod.phase,
        "node": pod.node_name or None,
        "waits": _waiting(pod) if pod.is_waiting else None,
        "reason": pod.reason or None,
        "created_s": pod.created_s,
        "started_s": pod.main.started_s,
        "finished_s": pod.main.finished_s,
    }


def _waiting(pod: LivePod) -> str:
    if pod.is_gated:
        return f"held back by {', '.join(pod.shape.scheduling_gates)}"
    return pod.status.message or "not decided on yet"


def _node(decision: Decision | None, execution: Execution | None, live: LivePod | None) -> str | None:
    if live is not None and live.node_name:
        return live.node_name
    if execution is not None and execution.node:
        return execution.node
    return decision.node if decision is not None else None


def _decision(decision: Decision) -> Answer:
    explanation = decision.explanation
    return {
        "decision": decision.decision_id,
        "decided_s": decision.decided_s,
        "outcome": explanation.get("outcome", "placed" if decision.node else "waits"),
        "node": decision.node,
        "reason": explanation.get("reason"),
        "policy": decision.policy,
        "version": decision.policy_version,
        "mode": decision.mode.value,
        "candidates": decision.candidates,
        "refused": dict(decision.refused),
        "runner_up": decision.runner_up,
        "margin": decision.margin,
        "score": explanation.get("score"),
        "contributions": explanation.get("contributions") or [],
        "look_ahead": explanation.get("look_ahead"),
        "degraded": explanation.get("degraded"),
        "replayable": decision.snapshot_sha256 is not None,
    }


def _predicted(decision: Decision) -> Answer | None:
    if decision.expected_s is None:
        return None
    return {
        "expected_s": decision.expected_s,
        "low_s": decision.expected_low_s,
        "high_s": decision.expected_high_s,
        "source": decision.expected_source,
        "in_words": decision.explanation.get("expected"),
    }


def _real(execution: Execution, decision: Decision | None) -> Answer:
    took_s = _took_s(execution)
    expected_s = decision.expected_s if decision is not None else None
    off = None
    if took_s is not None and expected_s:
        off = (took_s - expected_s) / expected_s
    return {
        "node": execution.node,
        "status": None if execution.status is None else execution.status.value,
        "reason": execution.reason,
        "started_s": execution.started_s,
        "finished_s": execution.finished_s,
        "took_s": took_s,
        "off_by": off,
    }


def _took_s(execution: Execution) -> float | None:
    if execution.started_s is None or execution.finished_s is None:
        return None
    return max(0.0, execution.finished_s - execution.started_s)


def _attempt(execution: Execution, decision: Decision | None) -> Answer:
    state = "running" if execution.started_s is not None else "pending"
    if execution.status is not None:
        state = execution.status.value
    row: Answer = {
        "task": execution.key.place.rpartition("/")[2] or execution.key.template or execution.pod,
        "template": execution.key.template,
        "item": execution.item or None,
        "attempt": execution.attempt,
        "state": state,
        "pod": execution.pod,
        "uid": execution.pod_uid,
        "node": execution.node,
        "predicted_s": None,
        "took_s": _took_s(execution),
    }
    return row | (_foretold(decision) if decision is not None else {})


def _foretold(decision: Decision) -> Answer:
    told: Answer = {"predicted_s": decision.expected_s, "decision": decision.decision_id}
    if decision.node is None:
        told["waits_why"] = decision.explanation.get("reason")
    return told
