"""Which pods of a node must go: all of lower priority first, then as many as possible are reprieved.

First are tried those that a disruption budget should keep, then the others; within both, the most important
first: higher priority, then the longer run. Source: `SelectVictimsOnNode` in kubernetes
pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go, 1.37.

What is decided on one node does not depend on another, so many are gone through together, in turns.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stowplan.core.constraints import CompiledFilters, NodesOnTrial, Verdict
from stowplan.core.domain import ClusterState
from stowplan.core.preemption.budgets import BudgetBook
from stowplan.core.preemption.choice import Candidate, StartTimes
from stowplan.core.preemption.turns import groups, turns

__all__ = ["select_victims"]


def select_victims(
    state: ClusterState,
    compiled: CompiledFilters,
    rows: NDArray[np.intp],
    budgets: BudgetBook,
    started_s: StartTimes,
) -> list[Candidate | None]:
    """Return for each node the fewest pods that must leave it so that the pod fits; None: that is no help.

    Args:
        state: the cluster.
        compiled: the filters of the pod that needs room, caught up with the state.
        rows: the nodes, none of them twice, shape (n,).
        budgets: all disruption budgets.
        started_s: when pods started.
    """
    trial = compiled.trial(rows)
    potential = _Potential(trial, _whose_leaving_helps(trial, compiled.shape.priority), started_s)
    asked, is_broken = potential.most_important_first(), np.zeros(len(potential.numbers), dtype=np.bool_)
    is_broken[asked] = budgets.broken(trial.pods, potential.numbers[asked])
    asked = asked[np.argsort(2 * potential.places[asked] + ~is_broken[asked], kind="stable")]
    victims = potential.told(asked[_are_not_reprieved(trial, potential.numbers[asked])])
    places, numbers = potential.places[victims], potential.numbers[victims]
    violations = np.bincount(places[is_broken[victims]], minlength=len(rows))
    pods = trial.pods.some(numbers)
    found: list[Candidate | None] = [None] * len(rows)
    for place, begin, end in groups(places):
        name = state.node(int(rows[place])).name
        found[place] = Candidate(name, tuple(pods[begin:end]), int(violations[place]))
    return found


def _whose_leaving_helps(trial: NodesOnTrial, priority: int) -> NDArray[np.intp]:
    """Let all pods of lower priority go; return the numbers of those whose node then takes the pod."""
    pods = trial.pods
    priorities = pods.by_shape(lambda shape: shape.priority)
    lower = trial.present[priorities[trial.present] < priority]
    trial.remove(lower)
    left = np.unique(pods.places[lower])
    return lower[np.isin(pods.places[lower], left[trial.verdicts(left) == Verdict.ACCEPTS])]


def _are_not_reprieved(trial: NodesOnTrial, numbers: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Let pods come back that went, one after the other on each node, if the pod fits in beside them.

    Args:
        trial: the nodes, without these pods.
        numbers: theirs, those of a node together and in order, shape (n,).

    Returns: which of them cannot stay, shape (n,).
    """
    places = trial.pods.places[numbers]
    must_go = np.zeros(len(numbers), dtype=np.bool_)
    for positions in turns(places):
        trial.restore(numbers[positions])
        refused = positions[trial.verdicts(places[positions]) != Verdict.ACCEPTS]
        trial.remove(numbers[refused])
        must_go[refused] = True
    return must_go


class _Potential:
    """The pods that could go, each by its position among them.

    Attributes:
        numbers, places: on trial, each of shape (n,).
    """

    __slots__ = ("_importance", "_started_s", "numbers", "places")

    def __init__(self, trial: NodesOnTrial, numbers: NDArray[np.intp], started_s: StartTimes) -> None:
        pods = trial.pods
        self.numbers = numbers
        self.places = pods.places[numbers]
        self._importance = pods.by_shape(lambda shape: -shape.priority)[numbers]
        self._started_s = np.array([started_s(pod.key) for pod in pods.some(numbers)], dtype=np.float64)

    def most_important_first(self) -> NDArray[np.intp]:
        """Return all positions, by node, the most important first, equal ones as they came to the node."""
        return np.lexsort((self._started_s, self._importance, self.places))

    def told(self, positions: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return some positions by node, the most important first, equal ones in the order given.

        kube-scheduler takes pods that have not started for ones that start when it looks at them, one after
        the other: so they have an order among them, and others that started at the same time have none.
        """
        started_s = self._started_s[positions]
        came = np.where(np.isinf(started_s), positions, 0)
        return positions[np.lexsort((came, started_s, self._importance[positions], self.places[positions]))]
