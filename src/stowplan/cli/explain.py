"""`stowplan explain`: why a pod is where it is, how far a workflow is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote

from stowplan.cli.asking import ask
from stowplan.cli.options import OutputFormat
from stowplan.cli.past import opened
from stowplan.cli.terminal import show_table, write
from stowplan.errors import InvalidInput
from stowplan.serve.record.answers import pod_answer, workflow_answer
from stowplan.simulate.report.table import Cell, Column, Table

__all__ = ["explain_object"]

Json = Mapping[str, Any]
Question = Callable[[str, str], Json | None]

_KINDS: Final = {
    "pod": "pods",
    "pods": "pods",
    "workflow": "workflows",
    "workflows": "workflows",
    "wf": "workflows",
}
_SHOWN: Final = 10  # lines of one kind
_GOOD: Final = frozenset({"placed", "done", "running", "same"})
_BAD: Final = frozenset({"infeasible", "failed", "oom_killed", "evicted", "node_lost"})


def explain_object(name: str, namespace: str, *, history: str, server: str, output: OutputFormat) -> int:
    """Find the object and show what is known of it; return the exit code.

    Raises:
        InvalidInput: nothing is known of it, or nobody answers.
        HistoryError: the history cannot be read.
    """
    kind, _, rest = name.rpartition("/")
    if kind and kind not in _KINDS:
        raise InvalidInput(
            f"{name!r} names no kind that is known; write pod/NAME or workflow/NAME, "
            "and the namespace with -n"
        )
    asked = [_KINDS[kind]] if kind else ["pods", "workflows"]
    if not rest:
        raise InvalidInput(f"{name!r} has no name; write pod/NAME or workflow/NAME")
    if history:
        with opened(history) as store:
            questions: dict[str, Question] = {
                "pods": lambda space, one: pod_answer(store, space, one),
                "workflows": lambda space, one: workflow_answer(store, space, one),
            }
            found, where = _first(asked, questions, namespace, rest), store.where
    else:
        questions = {kind: _asking(server, kind) for kind in asked}
        found, where = _first(asked, questions, namespace, rest), server
    if found is None:
        kinds = " or ".join(word[:-1] for word in asked)
        raise InvalidInput(
            f"{where} knows no {kinds} {rest!r} in namespace {namespace!r}; name another with -n"
        )
    kind_of_answer, answer = found
    if output is OutputFormat.JSON:
        write(json.dumps(answer, indent=2, ensure_ascii=False))
    elif kind_of_answer == "pods":
        _show_pod(answer)
    else:
        _show_workflow(answer)
    return 0


def _asking(server: str, kind: str) -> Question:
    return lambda space, one: ask(server, f"/v1/{kind}/{quote(space, safe='')}/{quote(one, safe='')}")


def _first(
    kinds: Sequence[str], questions: Mapping[str, Question], namespace: str, name: str
) -> tuple[str, Json] | None:
    for kind in kinds:
        answer = questions[kind](namespace, name)
        if answer is not None:
            return kind, answer
    return None


# ---- a pod ----


def _show_pod(answer: Json) -> None:
    columns = (Column("what", holds_words=True), Column("answer", holds_words=True))
    node = answer["node"]
    title = f"{answer['pod']}: {f'on {node}' if node else 'on no node'}"
    show_table(Table(title, columns, [(Cell(name), Cell(text)) for name, text in _pod_lines(answer)]))
    headings = ("decision", "when", "outcome", "node", "why")
    rows = [
        (
            Cell(one["decision"]),
            Cell(_time(one["decided_s"])),
            _verdict(one["outcome"]),
            Cell(one["node"] or "–"),
            Cell(_why(one)),
        )
        for one in answer["decisions"]
    ]
    if rows:
        show_table(Table("Decisions", [Column(heading, holds_words=True) for heading in headings], rows))


def _pod_lines(answer: Json) -> Iterator[tuple[str, str]]:
    now, why = answer["now"], answer["why"]
    if now is not None:
        yield "now", ", ".join(word for word in (now["phase"], now["reason"]) if word)
        if now["waits"]:
            yield "waits", now["waits"]
    if why is not None:
        yield from _decision_lines(why)
    yield from _duration_lines(answer["predicted"], answer["real"])


def _decision_lines(why: Json) -> Iterator[tuple[str, str]]:
    who = f"{why['policy']} (Stowplan {why['version']}, {why['mode']})"
    yield "decided", f"{_time(why['decided_s'])} by {who}"
    if why["reason"]:
        yield "reason", why["reason"]
    if why["candidates"]:
        yield "could take it", f"{why['candidates']:,} nodes"
    if why["refused"]:
        yield "refused the rest", _counts(why["refused"])
    if why["contributions"]:
        yield "score", ", ".join(f"{name} {_amount(amount)}" for name, amount in why["contributions"])
    if why["runner_up"]:
        behind = "" if why["margin"] is None else f", {why['margin']:.4g} behind"
        yield "next best", f"{why['runner_up']}{behind}"
    if why["look_ahead"]:
        yield "look-ahead", ", ".join(f"{name}: {value}" for name, value in why["look_ahead"].items())
    if why["degraded"]:
        yield "degraded", f"{why['degraded']['component']}: {why['degraded']['reason']}"


def _duration_lines(predicted: Json | None, real: Json | None) -> Iterator[tuple[str, str]]:
    if predicted is not None:
        by = f"{predicted['expected_s']:.3g} s by the {predicted['source']}"
        yield "foretold", predicted["in_words"] or by
    if real is None:
        return
    if real["took_s"] is not None:
        off = "" if real["off_by"] is None else f" ({100 * real['off_by']:+.0f} % against what was foretold)"
        yield "took", f"{real['took_s']:.3g} s{off}"
    if real["status"] is not None:
        yield "ended", ", ".join(word for word in (real["status"], real["reason"]) if word)


def _why(decision: Json) -> str:
    if decision["reason"]:
        return decision["reason"]
    parts = ", ".join(f"{name} {_amount(amount)}" for name, amount in decision["contributions"][:3])
    return f"best of {decision['candidates']:,}{f': {parts}' if parts else ''}"


# ---- a workflow ----


def _show_workflow(answer: Json) -> None:
    headings = ("task", "state", "node", "foretold", "took", "waits for", "pod")
    rows = [
        (
            Cell(" ".join(str(word) for word in (task.get("task"), task.get("item")) if word)),
            _verdict(task.get("state") or "–"),
            Cell(task.get("node") or "–"),
            Cell(_seconds(task.get("predicted_s"))),
            Cell(_seconds(task.get("took_s"))),
            Cell(", ".join(task.get("waits_for") or ()) or task.get("waits_why") or "–"),
            Cell(task.get("pod") or "–"),
        )
        for task in answer["tasks"]
    ]
    counts: dict[str, int] = {}
    for task in answer["tasks"]:
        counts[task.get("state") or "–"] = counts.get(task.get("state") or "–", 0) + 1
    told = [answer["phase"], _counts(counts)]
    if answer["started_s"] is not None:
        told.append(f"began {_time(answer['started_s'])}")
    if answer["finished_s"] is not None:
        told.append(f"ended {_time(answer['finished_s'])}")
    title = f"{answer['workflow']}: {', '.join(word for word in told if word)}"
    lines = [(Cell(name), Cell(text)) for name, text in _workflow_lines(answer)]
    if lines:
        show_table(
            Table(title, (Column("what", holds_words=True), Column("answer", holds_words=True)), lines)
        )
        title = "Tasks"
    if rows or not lines:
        numbers = {"foretold", "took"}
        columns = [Column(each, holds_words=each not in numbers) for each in headings]
        show_table(Table(title, columns, rows))


def _workflow_lines(answer: Json) -> Iterator[tuple[str, str]]:
    if answer["problem"]:
        yield "without a task graph", answer["problem"]
    if answer["status_problem"]:
        yield "status cannot be read", answer["status_problem"]
    if answer["open_tasks"]:
        work, path = _seconds(answer["remaining_work_s"]), _seconds(answer["critical_path_s"])
        yield "left", f"{answer['open_tasks']:,} tasks, {work} of work, {path} on the longest path"
    beside = [f"{pod['pod']} ({pod['phase']}) on {pod['node'] or 'no node'}" for pod in answer["beside"]]
    yield from _some("beside the graph", beside)
    yield from _some("not known yet", answer["unknown"])


def _some(what: str, lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    for line in lines[:_SHOWN]:
        yield what, line
    if len(lines) > _SHOWN:
        yield what, f"and {len(lines) - _SHOWN:,} more; -o json gives all"


# ---- words ----


def _verdict(outcome: str) -> Cell:
    return Cell(outcome, "good" if outcome in _GOOD else "bad" if outcome in _BAD else "")


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items())


def _amount(amount: float | None) -> str:
    return "–" if amount is None else f"{amount:+.3g}"


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g} s"


def _time(epoch_s: float) -> str:
    return datetime.fromtimestamp(epoch_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
