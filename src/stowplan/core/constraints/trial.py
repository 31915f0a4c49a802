"""Nodes as they would be with other pods on them, judged by every filter without touching the state.

This is what preemption asks: would the pod fit if those pods were gone, and still if this one stayed? It asks
of thousands of nodes, so they are on trial together: an array operation for all of them costs little more
than for one. Filters that cannot be put that way are asked row by row.

kube-scheduler asks in the same way, twice where pods are nominated for the node that go before this one: with
them as if they ran there, and without them (`RunFilterPluginsWithNominatedPods`).

A row on trial is named by its *place* among them, a pod that comes and goes by its *number*.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from stowplan.core.domain import BoundPod, PodShape

__all__ = ["MovingPods", "NodesOnTrial", "RowByRow", "RowTrial", "Steady", "Trial", "Verdict"]


class Verdict(IntEnum):
    """What a filter says of a row, and whether pods that leave the row could change it."""

    ACCEPTS = 0
    REFUSES = 1
    """kube-scheduler's `Unschedulable`."""
    HOPELESS = 2
    """`UnschedulableAndUnresolvable`: preemption there is not tried."""


class MovingPods:
    """The pods that come to rows on trial and go from them.

    Attributes:
        pods: each by its number.
        places: the place that each comes to and goes from, shape (pods,).
        shapes: theirs, each object once.
        shape_numbers: which of `shapes` each has, shape (pods,).
    """

    __slots__ = ("places", "pods", "shape_numbers", "shapes")

    def __init__(self, pods: Sequence[BoundPod], places: Sequence[int] | NDArray[np.intp]) -> None:
        """Hold `pods`, each with its place."""
        self.pods = pods
        self.places = np.asarray(places, dtype=np.intp)
        number_of: dict[int, int] = {}  # by identity, which is cheaper than what shapes are compared by
        self.shapes: list[PodShape] = []
        numbers: list[int] = []
        for pod in pods:
            shape = pod.shape
            number = number_of.get(id(shape))
            if number is None:
                number = number_of[id(shape)] = len(self.shapes)
                self.shapes.append(shape)
            numbers.append(number)
        self.shape_numbers = np.array(numbers, dtype=np.intp)

    def some(self, numbers: NDArray[np.intp]) -> list[BoundPod]:
        """Return the pods of these numbers."""
        wanted: list[int] = numbers.tolist()
        return [self.pods[number] for number in wanted]

    def by_shape(self, tell: Callable[[PodShape], int]) -> NDArray[np.int64]:
        """Return what `tell` says of each pod's shape, shape (pods,); each shape is asked once."""
        return np.array([tell(shape) for shape in self.shapes], dtype=np.int64)[self.shape_numbers]


class Trial(ABC):
    """One filter and some rows, as if other pods were there."""

    __slots__ = ()

    @abstractmethod
    def count(self, numbers: NDArray[np.intp], by: int) -> None:
        """Let pods come to their places (`by` 1), or go from there (−1)."""

    @abstractmethod
    def verdicts(self, places: NDArray[np.intp]) -> NDArray[np.int8]:
        """Return what the filter says now of some places: a `Verdict` each, shape (places,)."""


class Steady(Trial):
    """A filter that looks at no pods."""

    __slots__ = ("_verdicts",)

    def __init__(self, verdicts: NDArray[np.int8]) -> None:
        """Say `verdicts`, one per place, whatever comes and goes."""
        self._verdicts = verdicts

    def count(self, numbers: NDArray[np.intp], by: int) -> None:
        """Take no notice."""

    def verdicts(self, places: NDArray[np.intp]) -> NDArray[np.int8]:
        """Return what was said from the beginning."""
        return self._verdicts[places]


class RowTrial(ABC):
    """One filter and one row, as if other pods were there."""

    __slots__ = ()

    @abstractmethod
    def count(self, pod: BoundPod, by: int) -> None:
        """Let a pod come to the row (`by` 1), or go from it (−1)."""

    @abstractmethod
    def verdict(self) -> Verdict:
        """Return what the filter says now."""


class RowByRow(Trial):
    """A filter whose rows have nothing in common that an array could hold."""

    __slots__ = ("_pods", "_trials")

    def __init__(self, trials: Sequence[RowTrial], pods: MovingPods) -> None:
        """Ask `trials`, one per place."""
        self._trials = trials
        self._pods = pods

    def count(self, numbers: NDArray[np.intp], by: int) -> None:
        """Let pods come or go, one after the other."""
        places: list[int] = self._pods.places[numbers].tolist()
        for pod, place in zip(self._pods.some(numbers), places, strict=True):
            self._trials[place].count(pod, by)

    def verdicts(self, places: NDArray[np.intp]) -> NDArray[np.int8]:
        """Return what each row says."""
        asked: list[int] = places.tolist()
        return np.array([self._trials[place].verdict() for place in asked], dtype=np.int8)


class NodesOnTrial:
    """All filters of one pod shape on trial for some nodes; it is valid until the state changes.

    Attributes:
        pods: first those that are on the nodes, in order of places, all of whom are there in the beginning;
            then those that are nominated for one of the nodes and go before the pod to place.
        present: the numbers of those that are on the nodes.
    """

    __slots__ = ("_nominated", "_trials", "pods", "present")

    def __init__(self, trials: Sequence[Trial], pods: MovingPods, present: int) -> None:
        """Begin with the first `present` of `pods` on the nodes.

        Args:
            trials: of each filter that can refuse one of the nodes, in order.
            pods: in the order that is told above.
            present: how many of them are there.
        """
        self._trials = trials
        self.pods = pods
        self.present = np.arange(present)
        self._nominated = np.arange(present, len(pods.pods))

    def remove(self, numbers: NDArray[np.intp]) -> None:
        """Let pods go that are there."""
        for one in self._trials:
            one.count(numbers, -1)

    def restore(self, numbers: NDArray[np.intp]) -> None:
        """Let pods come back."""
        for one in self._trials:
            one.count(numbers, 1)

    def verdicts(self, places: NDArray[np.intp]) -> NDArray[np.int8]:
        """Return what the first filter that refuses says of each place, shape (places,)."""
        if not len(self._nominated):
            return self._alone(places)
        self.restore(self._nominated)
        verdicts = self._alone(places)
        self.remove(self._nominated)
        accepted = np.flatnonzero(verdicts == Verdict.ACCEPTS)
        verdicts[accepted] = self._alone(places[accepted])
        return verdicts

    def _alone(self, places: NDArray[np.intp]) -> NDArray[np.int8]:
        verdicts = np.zeros(len(places), dtype=np.int8)
        accepted = np.arange(len(places))
        for one in self._trials:
            said = one.verdicts(places[accepted])
            verdicts[accepted] = said
            accepted = accepted[said == Verdict.ACCEPTS]
            if not len(accepted):
                break
        return verdicts
