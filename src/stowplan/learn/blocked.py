"""When a pending task counts as blocked: it will end so late that its workflow ends late too.

At a cycle, the next task of a group is looked at. Were everything else to take exactly as long as expected,
its workflow could end one critical path from now; the task is *blocked* when its real end moves that by more
than a margin. So a task with slack may wait without being blocked, what it has waited already does not count
(it is known, not foretold), and neither a start-up of seconds nor a short task's bad luck counts, unless it
holds the workflow up.

Seconds of the encoder are those of the reference machine; the bar is stretched by how much slower the task is
on the cluster's machines, as a geometric mean, so that a slow machine type alone blocks nobody.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from stowplan.core.encoder.task_columns import TASK

__all__ = ["LEAST_MARGIN_S", "MARGIN_SHARE", "allowed_s", "is_blocked"]

MARGIN_SHARE: Final = 0.1
"""By how much of its critical path left a workflow may end late; a proposal."""
LEAST_MARGIN_S: Final = 10.0
"""The least margin: start-up and scheduling interval of a scenario take up to 8 s; a proposal."""


def allowed_s(raw_task: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how many seconds from now each group's next task may take to end, (G,).

    Args:
        raw_task: (G, columns) as in `Encoded.raw_task`.
    """
    places = TASK.places
    expected_s, slack_s, path_s = (
        raw_task[:, places[name]] for name in ("expected_s", "slack_s", "critical_path_s")
    )
    factor = raw_task[:, places["mean_factor"]]
    stretched = np.where(np.isnan(factor), 1.0, factor) * (expected_s + slack_s)
    return stretched + np.maximum(MARGIN_SHARE * path_s * np.nan_to_num(factor, nan=1.0), LEAST_MARGIN_S)


def is_blocked(
    took_s: NDArray[np.float64], watched_s: float, bar_s: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return 1 for blocked, 0 for not, NaN where the run ended too early to say; (G,).

    Args:
        took_s: (G,) seconds from the cycle to the task's end; NaN: it did not end.
        watched_s: seconds from the cycle to the end of the run.
        bar_s: (G,) from `allowed_s`.
    """
    late = np.where(np.isnan(took_s), watched_s, took_s) > bar_s
    unknown = np.isnan(bar_s) | (np.isnan(took_s) & ~late)
    return np.where(unknown, np.nan, late.astype(np.float64))
