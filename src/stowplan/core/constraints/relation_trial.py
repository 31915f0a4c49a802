"""Required affinity and anti-affinity between pods on trial: who is near each node if pods come and go.

A pod that comes or goes counts for a topology key when the node has that label; of the pods that are wanted
near, wherever they run, it is one for each such key. Source: kube-scheduler 1.37
`interpodaffinity/filtering.go` (`updateWithPod`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stowplan.core.constraints.trial import MovingPods, Trial, Verdict
from stowplan.core.domain import PodShape

__all__ = ["Bearing", "RelationTrial"]


@dataclass(frozen=True, slots=True)
class Bearing:
    """What a bound pod of some shape means for the pod to place: the topology keys that it counts for."""

    is_wanted: bool
    repelled: tuple[str, ...]
    repelling: tuple[str, ...]

    @property
    def is_nothing(self) -> bool:
        """Whether the pod to place does not mind it, nor it the pod."""
        return not (self.is_wanted or self.repelled or self.repelling)

    def blocks(self, key: str) -> int:
        """Return for how many terms about a topology key the two must not be near."""
        return self.repelled.count(key) + self.repelling.count(key)


class _Count:
    """How many pods count at each place, `at` of shape (places,), and for how much each pod does."""

    __slots__ = ("_weights", "at")

    def __init__(self, at: NDArray[np.int64], weights: NDArray[np.int64]) -> None:
        self.at = at
        self._weights = weights

    def add(self, numbers: NDArray[np.intp], places: NDArray[np.intp], by: int) -> None:
        np.add.at(self.at, places, by * self._weights[numbers])


class RelationTrial(Trial):
    """The pods in the rows' domains that are wanted near, and those that are repelled or repel."""

    __slots__ = ("_anywhere", "_blocked", "_lacks_label", "_near", "_places")

    def __init__(
        self,
        pods: MovingPods,
        bearing: Callable[[PodShape], Bearing],
        has_label: Mapping[str, NDArray[np.bool_]],
        near: Mapping[str, NDArray[np.int64]],
        blocked: Mapping[str, NDArray[np.int64]],
        anywhere: int | None,
    ) -> None:
        """Begin with the pods that are there now.

        Args:
            pods: those that may come and go.
            bearing: what pods of a shape mean.
            has_label: by topology key, which places have it, shape (places,).
            near: by key that pods are wanted near by, how many of them each place has, shape (places,).
            blocked: by key, how many pods each place has that must not be near, shape (places,).
            anywhere: how many pods that are wanted near run at all; None: the pod cannot be the first.
        """
        places = pods.places
        is_wanted = pods.by_shape(lambda shape: bearing(shape).is_wanted)
        weights = {key: is_wanted * has_label[key][places] for key in near}
        self._places = places
        self._near = [_Count(at, weights[key]) for key, at in near.items()]
        self._anywhere: _Count | None = None
        if near and anywhere is not None:
            everywhere = np.full(len(has_label[next(iter(near))]), anywhere, dtype=np.int64)
            self._anywhere = _Count(everywhere, np.sum(list(weights.values()), axis=0))
        self._blocked = [
            _Count(at, _blocking(pods, bearing, key) * has_label[key][places]) for key, at in blocked.items()
        ]
        self._lacks_label = [~has_label[key] for key in near]

    def count(self, numbers: NDArray[np.intp], by: int) -> None:
        """Let pods come to their places or go from there."""
        places = self._places[numbers]
        for one in (*self._near, *self._blocked):
            one.add(numbers, places, by)
        if self._anywhere is not None:
            self._anywhere.add(numbers, places, by)

    def verdicts(self, places: NDArray[np.intp]) -> NDArray[np.int8]:
        """Return which places have whom they must have near, and none that they must not."""
        verdicts = np.zeros(len(places), dtype=np.int8)
        for one in self._blocked:
            verdicts[one.at[places] > 0] = Verdict.REFUSES
        for one in self._near:
            is_alone = one.at[places] <= 0
            if self._anywhere is not None:
                is_alone &= self._anywhere.at[places] != 0
            verdicts[is_alone] = Verdict.HOPELESS
        for lacks in self._lacks_label:
            verdicts[lacks[places]] = Verdict.HOPELESS
        return verdicts


def _blocking(pods: MovingPods, bearing: Callable[[PodShape], Bearing], key: str) -> NDArray[np.int64]:
    return pods.by_shape(lambda shape: bearing(shape).blocks(key))
