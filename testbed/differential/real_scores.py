"""The scores that kube-scheduler gives, read from its log, where it writes them on request.

An extender learns only which node is chosen. With `schedule_one.go` at verbosity 10 kube-scheduler also
writes the final score of every node (`prioritizeNodes`): the sum over its score plugins, weighted and
normalized.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

__all__ = ["FLAGS", "ScoreLog", "totals_in"]

FLAGS: Final = ("--vmodule=schedule_one=10",)
"""What kube-scheduler has to be started with."""

_TOTAL: Final = re.compile(
    r"""^I\d{4} .*\] "Calculated node's final score for pod" pod="([^"]+)" node="([^"]+)" score=(-?\d+)$""",
    re.MULTILINE,
)


class ScoreLog:
    """A log that grows, read on from where it was left."""

    def __init__(self, log: Path) -> None:
        """Begin at the present end of the log, or at the start of one that is not there yet."""
        self._log = log
        self._position = log.stat().st_size if log.exists() else 0

    def totals(self, pod: str) -> dict[str, int]:
        """Return the scores by node of pod `namespace/name` in what was written since the last call.

        Empty when it was not scored: a single feasible node is taken without.
        """
        with self._log.open("rb") as opened:
            opened.seek(self._position)
            written = opened.read()
        self._position += len(written)
        return totals_in(written.decode(errors="replace"), pod)


def totals_in(text: str, pod: str) -> dict[str, int]:
    """Return the scores by node of pod `namespace/name` in lines of the log; of two for a node the first."""
    totals: dict[str, int] = {}
    for found in _TOTAL.finditer(text):
        if found[1] == pod:
            totals.setdefault(found[2], int(found[3]))
    return totals
