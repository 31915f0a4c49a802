"""How many pods must wait whatever is done: a bound on backlog and delay."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Arrived", "LeastWaiting", "least_waiting"]


@dataclass(frozen=True, slots=True)
class Arrived:
    """Pods, arrays of shape (pods,).

    Attributes:
        created_s: when each came.
        run_s: how long each runs once it is bound.
        gpus: GPUs that each asks for.
        may_wait: False: it is bound as soon as it comes.
    """

    created_s: NDArray[np.float64]
    run_s: NDArray[np.float64]
    gpus: NDArray[np.float64]
    may_wait: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class LeastWaiting:
    """No schedule has a lower backlog peak, nor fewer seconds of waiting over all pods together."""

    peak: int
    total_s: float


def least_waiting(pods: Arrived, capacity: float, end_s: float) -> LeastWaiting:
    """Bound what waits until `end_s` on GPUs that add up to `capacity`, however they lie.

    A pod cannot have ended before its creation plus its run time. Until then it runs or waits, and those that
    run ask for no more than there is. Fewest wait if they are those that ask for most.
    """
    ends_s = pods.created_s + pods.run_s
    times_s = np.unique(np.concatenate([pods.created_s, ends_s, [end_s]]))
    times_s = times_s[times_s <= end_s]
    waiting = np.zeros(times_s.size - 1, dtype=np.int64)
    for at, now_s in enumerate(times_s[:-1].tolist()):
        is_here = (pods.created_s <= now_s) & (ends_s > now_s)
        beyond = float(pods.gpus[is_here].sum()) - capacity
        if beyond > 0.0:
            largest = np.sort(pods.gpus[is_here & pods.may_wait])[::-1]
            waiting[at] = np.searchsorted(np.cumsum(largest), beyond - 1e-9) + 1
    return LeastWaiting(int(waiting.max(initial=0)), float((waiting * np.diff(times_s)).sum()))
