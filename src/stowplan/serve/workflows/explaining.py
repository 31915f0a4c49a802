"""What is known of a workflow, as plain data for people: tasks, states, ranks, durations, open questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from stowplan.core.domain import TaskStatus, WorkflowProgress
from stowplan.kube.argo import Node, NodeKind, history_key
from stowplan.observe.history.expected import ExpectedDuration
from stowplan.serve.record.answers import why_it_waits
from stowplan.serve.workflows.entries import PodEntry, WorkflowEntry
from stowplan.serve.workflows.expectations import Expectations, item_of_place
from stowplan.serve.workflows.tracking import Tracking

__all__ = ["explain"]

_OPEN_KINDS: Final = {
    NodeKind.RECURSION: "how deep it goes is only known at run time",
    NodeKind.AT_RUN_TIME: "which template runs is only known at run time",
}


def _in_words(expected: ExpectedDuration) -> Mapping[str, Any]:
    """Return an expected duration as plain data."""
    return {
        "expected_s": expected.expected_s,
        "low_s": expected.low_s,
        "high_s": expected.high_s,
        "runs": expected.runs,
        "source": expected.source.value,
        "in_words": expected.in_words(),
    }


def _pods_by_task(entry: WorkflowEntry) -> dict[int, list[PodEntry]]:
    """Return the pods of each task, the newest attempt last."""
    found: dict[int, list[PodEntry]] = {}
    for pod in entry.pods.values():
        if pod.task is not None:
            found.setdefault(pod.task, []).append(pod)
    for pods in found.values():
        pods.sort(key=lambda one: (one.attempt, one.pod.created_s))
    return found


def explain(entry: WorkflowEntry, expectations: Expectations) -> Mapping[str, Any]:
    """Return all that is known of a workflow now; `serve.record.answers` adds what the history has."""
    head = entry.head
    found: dict[str, Any] = {
        "workflow": entry.key,
        "uid": head.uid if head is not None else None,
        "phase": head.phase if head is not None else None,
        "origin": entry.origin or None,
        "submitted_s": head.submitted_s if head is not None else None,
        "started_s": head.started_s if head is not None else None,
        "finished_s": head.finished_s if head is not None else None,
        "problem": entry.problem or None,
        "status_problem": entry.nodes_problem or None,
    }
    tracking = entry.tracking
    if tracking is None:
        nothing = dict.fromkeys(("remaining_work_s", "critical_path_s", "open_tasks"))
        return {**found, **nothing, "tasks": [], "beside": _beside(entry), "unknown": []}
    progress, tasks = tracking.progress, _tasks(entry, tracking, expectations)
    return {
        **found,
        "remaining_work_s": progress.remaining_work_s,
        "critical_path_s": max((task["rank_s"] for task in tasks if task["open"]), default=0.0),
        "open_tasks": progress.open_tasks,
        "tasks": tasks,
        "beside": _beside(entry),
        "unknown": _unknown(tracking),
    }


def _beside(entry: WorkflowEntry) -> list[dict[str, Any]]:
    """Return the pods that the graph does not foresee."""
    return [
        {"pod": pod.pod.name, "node": pod.pod.node_name or None, "phase": pod.pod.phase}
        for pod in entry.pods.values()
        if pod.task is None
    ]


def _tasks(entry: WorkflowEntry, tracking: Tracking, expectations: Expectations) -> list[dict[str, Any]]:
    graph, progress = tracking.index.graph, tracking.progress
    pods = _pods_by_task(entry)
    rows: list[dict[str, Any]] = []
    for index, (place, task) in enumerate(
        zip(tracking.index.view.nodes, progress.workflow.tasks, strict=True)
    ):
        if index in tracking.index.joins:
            continue
        node, view, attempts = graph.nodes[place], tracking.view(index), pods.get(index, [])
        row: dict[str, Any] = {
            "task": task.name,
            "template": node.template,
            "place": history_key(graph, node).place,
            "item": item_of_place(node.place) or None,
            "kind": node.kind.value,
            "state": view.status.name.lower(),
            "instances": view.count,
            "open": view.open,
            "by_state": {name.lower(): count for name, count in view.by_status.items()},
            "waits_for": _waits_for(progress, index) if view.status is TaskStatus.WAITING else [],
            "predicted_s": task.expected_s,
            "rank_s": float(progress.upward_rank_s[index]),
            "conditional": node.chance.name.lower(),
            "expected": _expected(tracking, node, expectations),
            **_newest(attempts, view.status),
            "pods": [_pod(pod, expectations) for pod in attempts],
        }
        rows.append(row)
    return rows


def _waits_for(progress: WorkflowProgress, task: int) -> list[str]:
    """Return the tasks before a task that have not ended."""
    workflow = progress.workflow
    return [
        workflow.tasks[parent].name
        for parent in workflow.parents[task]
        if progress.status.item(parent) < TaskStatus.DONE
    ]


def _newest(attempts: Sequence[PodEntry], status: TaskStatus) -> dict[str, Any]:
    """Return where the newest pod of a task is and what it waits for, or that there is none."""
    pod = attempts[-1].pod if attempts else None
    return {
        "pod": None if pod is None else pod.name,
        "uid": None if pod is None else pod.uid,
        "node": None if pod is None else pod.node_name or None,
        "waits_why": why_it_waits(pod) if pod is not None and status is TaskStatus.PENDING else None,
    }


def _expected(tracking: Tracking, node: Node, expectations: Expectations) -> Mapping[str, Any] | None:
    if node.kind is not NodeKind.POD:
        return None
    key = history_key(tracking.index.graph, node)
    return _in_words(expectations.expected(key, item_of_place(node.place)))


def _pod(pod: PodEntry, expectations: Expectations) -> dict[str, Any]:
    expected = expectations.expected(pod.key, pod.item, "", pod.shape)
    return {
        "pod": pod.pod.name,
        "uid": pod.pod.uid,
        "phase": pod.pod.phase,
        "node": pod.pod.node_name or None,
        "item": pod.item or None,
        "attempt": pod.attempt,
        "expected_s": expected.expected_s,
        "foretold_s": None if pod.foretold is None else pod.foretold.expected_s,
    }


def _unknown(tracking: Tracking) -> list[str]:
    graph = tracking.index.graph
    found: list[str] = []
    for task, index in enumerate(tracking.index.view.nodes):
        node = graph.nodes[index]
        if node.kind in _OPEN_KINDS:
            found.append(f"{node.place}: {node.note or _OPEN_KINDS[node.kind]}")
        elif task not in tracking.index.joins and tracking.view(task).count is None:
            loops = [loop.expression for loop in tracking.index.loops[task] if loop.expression]
            told_by = f", {' and '.join(loops)} will tell" if loops else ""
            found.append(f"{node.place}: how many there will be is not known yet{told_by}")
        found += [
            f"{node.place}: {field.path} follows from {', '.join(field.variables)}"
            for field in (node.pod.unknown if node.pod is not None else ())
        ]
    return found
