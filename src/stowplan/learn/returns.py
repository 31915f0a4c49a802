"""What a run costs, second by second, and what a decision in it was worth.

The cost rate is the number of unfinished workflows, each weighing more the longer it has been there:

    cost rate(t) = Σ over unfinished workflows of 1 + w · age(t) / T

with T the time scale of the scenario. Summed over a whole run it is Σ C + w · C² / (2 T) over the completion
times C of the workflows (Little's law): the first part is their mean, the second weighs the tail. Rewards are
minus its integral between two cycles, so many cycles at one instant are worth no more than one, and no policy
gains by deciding often.

A run that is cut off at its horizon has not ended: what was left is then estimated (`bootstrap`), never taken
as 0. Discounting, where there is any, is by time: exp(−β Δt), never per decision.

Sources: H. Mao et al., "Learning scheduling algorithms for data processing clusters", SIGCOMM 2019 (reward,
and a baseline over runs with the same arrivals); H. Mao et al., "Variance reduction for reinforcement
learning in input-driven environments", ICLR 2019; J. Schulman et al., "High-dimensional continuous control
using generalized advantage estimation", ICLR 2016.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Stays", "advantages", "costs", "group_baselines", "returns"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Stays:
    """When W workflows came and went.

    Attributes:
        from_s: (W,) submission.
        until_s: (W,) end; inf of one that did not come to a good end: it counts as unfinished for good.
    """

    from_s: Floats
    until_s: Floats


def costs(stays: Stays, times_s: Floats, *, tail_weight: float, scale_s: float) -> Floats:
    """Return the cost between consecutive times, in units of `scale_s`, shape (len(times_s) − 1,).

    Args:
        stays: of the workflows.
        times_s: (C,) ascending.
        tail_weight: w above; 0: only the number of unfinished workflows counts.
        scale_s: T above.
    """
    begin = np.clip(stays.from_s[:, None], times_s[:-1], times_s[1:])
    end = np.clip(stays.until_s[:, None], times_s[:-1], times_s[1:])
    length = np.maximum(end - begin, 0.0) / scale_s
    age = (0.5 * (begin + end) - stays.from_s[:, None]) / scale_s  # mean age: the rate is linear in it
    return (length * (1.0 + tail_weight * np.maximum(age, 0.0))).sum(axis=0)


def returns(rewards: Floats, lengths: Floats, *, beta: float, bootstrap: float = 0.0) -> Floats:
    """Return what followed each decision, shape (C,): rewards to the end, discounted by time.

    Args:
        rewards: (C,) between each decision and the next, the last until the end of the run.
        lengths: (C,) time between the same, in the unit of 1 / beta.
        beta: rate of discount, 0: none.
        bootstrap: what is expected to follow the end: 0 when the run came to its end, an estimate when it was
        cut off.
    """
    found = np.empty_like(rewards)
    following = bootstrap
    for index in range(len(rewards) - 1, -1, -1):
        following = rewards[index] + np.exp(-beta * lengths[index]) * following
        found[index] = following
    return found


def advantages(
    rewards: Floats,
    lengths: Floats,
    values: Floats,
    *,
    beta: float,
    decay: float,
    bootstrap: float = 0.0,
) -> Floats:
    """Return generalised advantages, shape (C,), with the discount by time.

    With decay 1 they are `returns` minus `values`, whatever the values; below 1 they lean on the values.

    Args:
        rewards: (C,) as for `returns`.
        lengths: (C,) as for `returns`.
        values: (C,) what was expected at each decision.
        beta: rate of discount.
        decay: λ, 0 to 1.
        bootstrap: as for `returns`; the value of where the run was cut off, 0 when it came to its end.
    """
    found = np.empty_like(rewards)
    next_value, following = bootstrap, 0.0
    for index in range(len(rewards) - 1, -1, -1):
        kept = np.exp(-beta * lengths[index])
        surprise = rewards[index] + kept * next_value - values[index]
        following = surprise + kept * decay * following
        found[index] = following
        next_value = values[index]
    return found


def group_baselines(times_s: Sequence[Floats], found: Sequence[Floats]) -> list[Floats]:
    """Return, for each run of a group, the mean of the others' returns at the same times.

    All runs of a group meet the same arrivals, so at one time the same lies behind them, and what differs is
    what they decided. Between the decisions of another run its return is interpolated; after its end it is 0.

    Args:
        times_s: of each run the times of its decisions, ascending.
        found: of each run its `returns`.
    """
    baselines: list[Floats] = []
    for mine, own_times_s in enumerate(times_s):
        others = [
            np.interp(own_times_s, other_times_s, other, right=0.0)
            for number, (other_times_s, other) in enumerate(zip(times_s, found, strict=True))
            if number != mine and len(other)
        ]
        baselines.append(np.mean(others, axis=0) if others else np.zeros(len(own_times_s)))
    return baselines
