"""`stowplan replay`: whether a decision comes out the same again."""

from __future__ import annotations

import json

from stowplan.cli.options import OutputFormat
from stowplan.cli.past import opened
from stowplan.cli.terminal import show_table, write
from stowplan.errors import InvalidInput
from stowplan.serve.record.replaying import ReplayedDecision, replay_decision
from stowplan.simulate.report.table import Cell, Column, Table

__all__ = ["replay_by_name"]


def replay_by_name(decision: str, *, history: str, output: OutputFormat) -> int:
    """Replay a decision of the history and show what came of it; return the exit code.

    Raises:
        InvalidInput: there is no such decision, or it has no record.
        ReplayDiffers: it comes out otherwise.
        HistoryError: the history cannot be read.
    """
    if not history:
        raise InvalidInput(
            "decisions are replayed from the history that the scheduler keeps; name it with --history"
        )
    with opened(history) as store:
        done = replay_decision(store, decision)
    facts = _facts(done)
    if output is OutputFormat.JSON:
        write(json.dumps({name.replace(" ", "_"): value for name, value in facts.items()}, indent=2))
        return 0
    columns = (Column("what", holds_words=True), Column("replayed", holds_words=True))
    rows = [(Cell(name), Cell("–" if value is None else str(value))) for name, value in facts.items()]
    title = f"{done.decision.namespace}/{done.decision.pod}: the same again, to the last bit"
    show_table(Table(title, columns, rows))
    return 0


def _facts(done: ReplayedDecision) -> dict[str, str | int | None]:
    report, recorded = done.replayed.report, done.replayed.recorded
    return {
        "decision": done.decision.decision_id,
        "outcome": "same",
        "pod": f"{done.decision.namespace}/{done.decision.pod}",
        "node": done.decision.node,
        "policy": done.decision.policy,
        "version": done.decision.policy_version,
        "nodes": recorded.state.node_count,
        "running pods": len(recorded.state.pods),
        "pending": len(recorded.pending),
        "placed": len(report.placed),
        "waiting": len(report.waiting),
        "infeasible": len(report.infeasible),
        "records read": done.links,
        "record bytes": done.size_bytes,
    }
