"""Why a pod is where it is, and how far a workflow is: plain data, from the history and from what is live.

The same answers are served by the scheduler (`/v1/pods/…`, `/v1/workflows/…`) and given by `stowplan
explain`, which can also read the history without a scheduler. Times are seconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from stowplan.kube.live.pod import LivePod
from stowplan.observe.history import Decision, Execution, HistoryStore, WorkflowRun

__all__ = ["pod_answer", "why_it_waits", "workflow_answer"]

Answer = dict[str, Any]

_STANDING: Final = ("problem", "status_problem", "remaining_work_s", "critical_path_s", "open_tasks")


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
    live: Mapping[str, Any] | None = None,
) -> Answer | None:
    """Return what is known of a workflow; None: nothing.

    Args:
        store: the history; None: there is none.
        namespace: of the workflow.
        name: of the workflow.
        live: how it stands now, from `WorkflowBook.explain_workflow`; None: it is not followed.

    Raises:
        HistoryError: the database fails.
    """
    run = store.workflow(namespace, name) if store is not None else None
    if run is not None and live is not None and live["uid"] not in (None, run.workflow_uid):
        run = None  # an earlier one of that name
    if run is None and live is None:
        return None
    now: Mapping[str, Any] = live or {}
    return {
        "workflow": f"{namespace}/{name}",
        **{field: now.get(field) or said for field, said in _said_of(run).items()},
        **{field: now.get(field) for field in _STANDING},
        "tasks": _tasks(store, run, now.get("tasks", ())),
        "beside": now.get("beside", []),
        "unknown": now.get("unknown", []),
    }


def _said_of(run: WorkflowRun | None) -> Answer:
    return {
        "uid": None if run is None else run.workflow_uid,
        "phase": None if run is None else run.phase,
        "origin": None if run is None else run.origin,
        "submitted_s": None if run is None else run.submitted_s,
        "started_s": None if run is None else run.started_s,
        "finished_s": None if run is None else run.finished_s,
    }


def _tasks(
    store: HistoryStore | None, run: WorkflowRun | None, standing: Sequence[Mapping[str, Any]]
) -> list[Answer]:
    """Return the attempts of a run, each with how its task stands now, and the tasks without one."""
    executions = (
        store.executions_of_workflow(run.workflow_uid) if store is not None and run is not None else []
    )
    uids = {execution.pod_uid for execution in executions}
    uids |= {str(task["uid"]) for task in standing if task["uid"]}
    decisions = store.latest_decisions(uids) if store is not None else {}
    told = [_attempt(execution, decisions.get(execution.pod_uid)) for execution in executions]
    by_uid = {row["uid"]: row for row in told}
    ran = {(one.key.place, item) for one in executions for item in (one.item or None, None)}
    for task in standing:
        if not task["uid"] and not task["open"] and (task["place"], task["item"]) in ran:
            continue  # its attempts tell all of it
        row = by_uid.get(task["uid"] or "")
        if row is None:
            row = dict[str, Any]()
            told.append(row)
            decision = decisions.get(str(task["uid"]))
            if decision is not None:
                row |= _foretold(decision)
        row |= {key: value for key, value in task.items() if row.get(key) is None or key == "state"}
    return told


def _now(pod: LivePod) -> Answer:
    return {
        "phase": pod.phase,
        "node": pod.node_name or None,
        "waits": why_it_waits(pod) if pod.is_waiting else None,
        "reason": pod.reason or None,
        "created_s": pod.created_s,
        "started_s": pod.main.started_s,
        "finished_s": pod.main.finished_s,
    }


def why_it_waits(pod: LivePod) -> str:
    """Return what a pod without a node waits for, in words."""
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
