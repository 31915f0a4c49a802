"""Retries of a template: how often, on what, and how long the controller waits in between.

Source: Argo Workflows 4.0, `operator.go` (processNodeRetries), `workflow_types.go` (RetryPolicyActual).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from stowplan.kube.argo.objects import as_mapping, text_of

__all__ = ["POLICIES", "Backoff", "Retry", "duration_s", "read_retry"]

POLICIES: Final = ("Always", "OnFailure", "OnError", "OnTransientError")

_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_UNITS_S: Final = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "μs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
}


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waiting between attempts: `duration_s × factor ^ attempt`, at most `cap_s`, `max_s` in all."""

    duration_s: float
    factor: int = 1
    cap_s: float | None = None
    max_s: float | None = None

    def wait_s(self, attempts: int) -> float:
        """Return how long the controller waits after `attempts` failed attempts (at least 1)."""
        try:
            wait = self.duration_s * float(self.factor) ** (attempts - 1)
        except OverflowError:
            wait = float("inf")
        return wait if self.cap_s is None else min(wait, self.cap_s)


@dataclass(frozen=True, slots=True)
class Retry:
    """A retry strategy.

    `limit` is how many attempts may follow the first; None is without limit, unless `limit_expression` says
    that it is only known at run time. `elsewhere` keeps later attempts off the hosts of failed ones.
    """

    limit: int | None
    policy: str
    limit_expression: str = ""
    expression: str = ""
    backoff: Backoff | None = None
    elsewhere: bool = False


def duration_s(text: str) -> float | None:
    """Return the seconds of a duration as Argo takes it (`30`, `1m30s`), None where it is none (yet)."""
    if text.isascii() and text.isdigit():
        return float(text)
    position, total = 0, 0.0
    for match in _PART.finditer(text):
        if match.start() != position:
            return None
        position = match.end()
        total += float(match[1]) * _UNITS_S[match[2]]
    return total if position == len(text) and text else None


def _whole(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    text = text_of(value).strip()
    return int(text) if text.lstrip("+-").isdigit() and text.isascii() and len(text) < 12 else None


def read_retry(strategy: object) -> Retry | None:
    """Return the retry strategy of a template with variables put in, None where it has none."""
    if strategy is None:
        return None
    fields = as_mapping(strategy)
    backoff = as_mapping(fields.get("backoff"))
    base_s = duration_s(text_of(backoff.get("duration")))
    expression, limit = text_of(fields.get("expression")), fields.get("limit")
    number = _whole(limit)
    return Retry(
        limit=number,
        policy=text_of(fields.get("retryPolicy")) or ("Always" if expression else "OnFailure"),
        limit_expression="" if limit is None or number is not None else str(limit),
        expression=expression,
        backoff=None
        if base_s is None
        else Backoff(
            duration_s=base_s,
            factor=max(_whole(backoff.get("factor")) or 1, 1),
            cap_s=duration_s(text_of(backoff.get("cap"))),
            max_s=duration_s(text_of(backoff.get("maxDuration"))),
        ),
        elsewhere=as_mapping(fields.get("affinity")).get("nodeAntiAffinity") is not None,
    )
