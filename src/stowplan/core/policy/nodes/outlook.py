"""What the pods to come will ask for, as far as a workload tells: GPU, CPU and memory beside it, models.

All is per thousandth of GPU that the workload asks for, so that it can be scaled to whatever is free.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from stowplan.core.domain import CPU, CPU_COLUMN, MEMORY, MEMORY_COLUMN, PodShape

__all__ = ["Need", "Outlook"]

_WHOLE = 1000
_Z = np.linspace(-6.0, 6.0, 1201)
_LOSS = np.array(
    [math.exp(-z * z / 2) / math.sqrt(2 * math.pi) - z * math.erfc(z / math.sqrt(2)) / 2 for z in _Z.tolist()]
)


@dataclass(frozen=True, slots=True)
class Need:
    """How much of another resource it takes to fill GPU.

    The pods that fill F thousandths need a sum with mean `mean` F and standard deviation `deviation` √F. With
    c left the expected shortage is deviation √F L(z), z = (c - mean F)/(deviation √F), with the normal loss
    function L(z) = φ(z) - z (1 - Φ(z)); divided by `mean` it is the GPU that would have needed it. Source: K.
    J. Arrow, T. Harris, J. Marschak, "Optimal Inventory Policy", Econometrica 19(3), 1951.
    """

    name: str
    column: int
    mean: float
    deviation: float

    @classmethod
    def of(cls, name: str, column: int, pods: Mapping[PodShape, float], asked_milli: float) -> Self:
        """Estimate from `pods` with GPUs, which ask for `asked_milli` thousandths altogether.

        A pod with several GPUs counts as so many with one.
        """
        mean = sum(many * shape.requests.get(name, 0) for shape, many in pods.items()) / asked_milli
        variance = 0.0
        for shape, many in pods.items():
            if shape.gpu is not None:
                apart = shape.requests.get(name, 0) / shape.gpu.count - mean * shape.gpu.milli
                variance += many * shape.gpu.count * apart * apart
        return cls(name, column, mean, math.sqrt(variance / asked_milli))

    def stranded_milli(self, free_milli: NDArray[np.int64], left: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the GPU that is expected to stay free for want of this resource, in thousandths.

        Args:
            free_milli: thousandths of GPU free on each node, ≥ 0, shape (n,).
            left: what is left of the resource there, shape (n,).
        """
        if self.mean <= 0.0:
            return np.zeros(free_milli.size, dtype=np.float64)
        spread = np.maximum(self.deviation * np.sqrt(free_milli), 1e-9)
        spare = left - self.mean * free_milli
        z = spare / spread
        shortage = np.where(z < _Z[0], -spare, spread * np.interp(z, _Z, _LOSS))
        return np.where(z > _Z[-1], 0.0, shortage) / self.mean


@dataclass(frozen=True, slots=True)
class Outlook:
    """A workload, summed up.

    Attributes:
        rates: requests per thousandth of GPU asked for, by (GPUs, thousandths of each).
        needs: CPU and memory.
        shares: shares of the GPU asked for by the models that are accepted, () for any; they sum to 1.
        pod_milli: thousandths of GPU that a pod with a GPU asks for, in the mean.
    """

    rates: Mapping[tuple[int, int], float]
    needs: tuple[Need, ...]
    shares: Mapping[tuple[str, ...], float]
    pod_milli: float

    @classmethod
    def of(cls, pods: Mapping[PodShape, float]) -> Self | None:
        """Sum up a workload, how many pods of each shape; None if none of them asks for a GPU."""
        asking = {shape: many for shape, many in pods.items() if shape.gpu is not None and many > 0.0}
        asked_milli = 0.0
        rates: defaultdict[tuple[int, int], float] = defaultdict(float)
        shares: defaultdict[tuple[str, ...], float] = defaultdict(float)
        for shape, many in asking.items():
            gpu = shape.gpu
            if gpu is None:
                continue
            milli = many * gpu.count * gpu.milli
            asked_milli += milli
            shares[gpu.models] += milli
            if gpu.milli == _WHOLE:
                rates[gpu.count, _WHOLE] += many
            else:
                rates[1, gpu.milli] += many * gpu.count
        if asked_milli <= 0.0:
            return None
        return cls(
            {request: many / asked_milli for request, many in rates.items()},
            tuple(
                Need.of(name, column, asking, asked_milli)
                for name, column in ((CPU, CPU_COLUMN), (MEMORY, MEMORY_COLUMN))
            ),
            {models: milli / asked_milli for models, milli in shares.items()},
            asked_milli / sum(asking.values()),
        )

    def model_load(self, models: list[str], free_milli: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the GPU asked for per GPU free, by model, if as much is asked for as is free.

        Each kind of pod is spread evenly over what is free of the models that it accepts.

        Args:
            models: the cluster's models.
            free_milli: thousandths free of each, shape (models,).
        """
        load = np.zeros(len(models), dtype=np.float64)
        total = float(free_milli.sum())
        for accepted, share in self.shares.items():
            fits = np.array([not accepted or model in accepted for model in models], dtype=np.bool_)
            load[fits] += share * total / (float(free_milli[fits].sum()) + _WHOLE)
        return load
