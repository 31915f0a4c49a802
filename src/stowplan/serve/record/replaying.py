"""`stowplan replay`: a decision of the history made again from its record."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from stowplan import __version__
from stowplan.core.record import Replayed, replay
from stowplan.errors import InvalidFile, InvalidInput, ReplayDiffers
from stowplan.observe.history import Decision, HistoryStore, Snapshot
from stowplan.registry import make_policy
from stowplan.serve.record.recorder import SNAPSHOT_FORMAT

__all__ = ["ReplayedDecision", "replay_decision"]

_WHY = {
    "queue": "cycles came faster than they could be recorded",
    "history": "the history had no room for the record",
    "policy": "its policy remembers what a record cannot hold",
    "extender": "kube-scheduler decided, by its own scores and Stowplan's",
    "error": "the cycle could not be recorded; the scheduler's log says why",
}


@dataclass(frozen=True, slots=True)
class ReplayedDecision:
    """A decision that came out the same again; `links` records were read, `size_bytes` is what they take."""

    decision: Decision
    replayed: Replayed
    links: int
    size_bytes: int


def replay_decision(store: HistoryStore, decision_id: str) -> ReplayedDecision:
    """Make a decision again, and compare the whole cycle that it belongs to.

    Raises:
        InvalidInput: there is no such decision, it has no record, or another Stowplan made it.
        InvalidFile: its records are damaged, or not all there.
        ReplayDiffers: it comes out otherwise; the message says where first.
        HistoryError: the database fails.
    """
    decision = store.decision(decision_id)
    if decision is None:
        raise InvalidInput(
            f"{store.where} has no decision {decision_id!r}; "
            "`stowplan explain` tells the names of a pod's decisions"
        )
    name = decision.snapshot_sha256
    if name is None:
        why = _WHY.get(str(decision.explanation.get("no_record")), "none was kept")
        raise InvalidInput(f"decision {decision_id} has no record to replay: {why}")
    chain = store.snapshot_chain(name)
    if not chain or chain[0].parent_sha256 is not None:
        raise InvalidFile(
            f"decision {decision_id}: its records are not all in {store.where} any more; "
            f"{len(chain)} are, and the first of them stands on one that is not"
        )
    replayed = replay([_frame(link) for link in chain], version=__version__, make=make_policy)
    _compare(decision, replayed)
    return ReplayedDecision(decision, replayed, len(chain), sum(len(link.content) for link in chain))


def _frame(link: Snapshot) -> bytes:
    if link.format != SNAPSHOT_FORMAT:
        raise InvalidFile(
            f"record {link.sha256[:12]} has format {link.format!r}, this Stowplan reads {SNAPSHOT_FORMAT!r}; "
            "replay it with the Stowplan that wrote it"
        )
    try:
        return zlib.decompress(link.content)
    except zlib.error as error:
        raise InvalidFile(f"record {link.sha256[:12]} is damaged: {error}") from None


def _compare(decision: Decision, replayed: Replayed) -> None:
    """Hold the row of the history against the replay: the two were written apart."""
    key = f"{decision.namespace}/{decision.pod}"
    placed = {task.key: outcome for task, outcome in replayed.report.placed}
    node = placed[key].node_name if key in placed else None
    if node != decision.node:
        raise ReplayDiffers(f"{key}: node: {decision.node} in the history, {node} in the replay")
    why = placed[key].explanation if key in placed else None
    if why is not None and (why.candidates, dict(why.refused)) != (
        decision.candidates,
        dict(decision.refused),
    ):
        raise ReplayDiffers(
            f"{key}: candidates: {decision.candidates}, refused {dict(decision.refused)} in the history, "
            f"{why.candidates}, {dict(why.refused)} in the replay"
        )
