"""Decisions of a cycle as rows of the history."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stowplan import __version__
from stowplan.core.decoder import Infeasible, Placed, Wait
from stowplan.core.domain import PendingTask
from stowplan.core.engine import CycleReport
from stowplan.kube.live.pod import LivePod
from stowplan.observe.history import Decision, DecisionMode, ExpectedDuration

__all__ = ["Expect", "Told", "decision_rows", "refusal_of"]

Expect = Callable[[LivePod, str], ExpectedDuration | None]
"""From a pod and the node that it got to what the history expects of it there. Asked in another thread."""

_FROM_POLICY = "policy"


@dataclass(frozen=True, slots=True)
class Told:
    """An outcome that is written down, with the pod that it is about."""

    task: PendingTask
    outcome: Placed | Wait | Infeasible
    pod: LivePod


def refusal_of(outcome: Wait | Infeasible) -> tuple[object, ...]:
    """Return what makes a refusal another one: by whom, not by how many nodes each refuses at the moment."""
    by = tuple(outcome.refused) if outcome.refused else outcome.reason
    return (type(outcome).__name__, by)


def decision_rows(  # noqa: PLR0913  (each is one aspect of a row)
    told: Sequence[Told],
    report: CycleReport,
    *,
    ids: Iterator[str],
    mode: DecisionMode,
    decided_s: float,
    policy: str,
    snapshot: str | None,
    no_record: str,
    examined: Mapping[str, Any] | None,
    expect: Expect | None,
) -> list[Decision]:
    """Return a row for each of `told`.

    Args:
        told: the outcomes.
        report: of the cycle that they came of.
        ids: gives names of decisions.
        mode: whether they are carried out.
        decided_s: when, in seconds since the epoch.
        policy: who decides, as configured.
        snapshot: names the record to replay them from.
        no_record: why there is none; "" where there is.
        examined: what look-ahead found, as plain data.
        expect: see `Expect`.
    """
    of_cycle: dict[str, Any] = {}
    if report.degraded is not None:
        degraded = report.degraded
        of_cycle["degraded"] = {
            "component": degraded.component,
            "reason": degraded.reason,
            "used_instead": degraded.used_instead,
        }
    if examined is not None:
        of_cycle["look_ahead"] = dict(examined)
    if no_record:
        of_cycle["no_record"] = no_record
    rows: list[Decision] = []
    for each in told:
        facts = _placed(each, expect) if isinstance(each.outcome, Placed) else _refused(each.outcome)
        facts["explanation"] |= of_cycle
        rows.append(
            Decision(
                decision_id=next(ids),
                decided_s=decided_s,
                policy=policy,
                policy_version=__version__,
                mode=mode,
                pod_uid=each.pod.uid,
                namespace=each.pod.namespace,
                pod=each.pod.name,
                snapshot_sha256=snapshot,
                **facts,
            )
        )
    return rows


def _placed(told: Told, expect: Expect | None) -> dict[str, Any]:
    placed = told.outcome
    assert isinstance(placed, Placed)  # noqa: S101  (narrows the type)
    facts: dict[str, Any] = {"node": placed.node_name}
    explanation: dict[str, Any] = {
        "outcome": "placed",
        "policy_expected_s": _finite(placed.expected_duration_s),
        "gpus": list(placed.gpus),
    }
    why = placed.explanation
    if why is not None:
        facts |= {
            "candidates": why.candidates,
            "refused": dict(why.refused),
            "runner_up": why.runner_up,
            "margin": None if why.margin is None else _finite(why.margin),
        }
        explanation |= {
            "decided_by": why.policy,
            "score": _finite(why.score),
            "contributions": [[name, _finite(amount)] for name, amount in why.contributions],
            "words": why.in_words(placed.node_name),
        }
    expected = expect(told.pod, placed.node_name) if expect is not None else None
    if expected is not None:
        facts |= {
            "expected_s": expected.expected_s,
            "expected_low_s": expected.low_s,
            "expected_high_s": expected.high_s,
            "expected_source": expected.source.value,
        }
        explanation["expected"] = expected.in_words()
    else:
        facts |= {"expected_s": _finite(placed.expected_duration_s), "expected_source": _FROM_POLICY}
    return {**facts, "explanation": explanation}


def _refused(outcome: Placed | Wait | Infeasible) -> dict[str, Any]:
    assert not isinstance(outcome, Placed)  # noqa: S101  (narrows the type)
    kind = "waits" if isinstance(outcome, Wait) else "infeasible"
    return {
        "refused": dict(outcome.refused),
        "explanation": {"outcome": kind, "reason": outcome.reason},
    }


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
