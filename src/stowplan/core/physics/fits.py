"""Fits of the laws that have tables of measurements behind them.

Arrays in, constants out; nothing is read here.

* Step time of data-parallel training by placement: the form of Pollux (Qiao et al., OSDI 2021) as Sia
  measures it, T = (Tc^γ + Ts^γ)^(1/γ) with Tc = a + b·batch and Ts = α + β·(n−2), one (α, β) within a node
  and one across nodes. Law with data: held-out placements within 5 to 8 %.
* Speed of two jobs on one GPU by its utilisation, from Lucid's pairs: means of classes, made monotone.
* Drift of a resource that is sold as constant, from repeated benchmarks on cloud machines: how often it is
  degraded and how far. How long it lasts is not in the data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stowplan.core.physics.disk import qos_flips
from stowplan.errors import InvalidInput

__all__ = ["DriftModel", "StepTimeModel", "fit_drift", "fit_sharing_curve", "fit_step_time", "rounded"]

Floats = NDArray[np.float64]

_SMALLEST: Final = 1e-8
_STEPS: Final = 200
_STARTS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTimeModel:
    """Seconds of one training step by GPUs, nodes and batch per GPU; all times in seconds."""

    compute_fixed_s: float
    compute_per_sample_s: float
    sync_node_s: float
    """α of two GPUs in one node."""
    sync_node_per_gpu_s: float
    sync_cluster_s: float
    """α' across nodes."""
    sync_cluster_per_gpu_s: float
    gamma: float
    """Overlap: 1 adds computing and synchronising, ∞ takes the longer."""

    def step_time_s(self, gpus: Floats, nodes: Floats, batch: Floats) -> Floats:
        """(n,) seconds of a step on `gpus` GPUs over `nodes` nodes, with `batch` samples per GPU."""
        compute = self.compute_fixed_s + self.compute_per_sample_s * batch
        extra = np.maximum(gpus - 2.0, 0.0)
        inside = self.sync_node_s + self.sync_node_per_gpu_s * extra
        across = self.sync_cluster_s + self.sync_cluster_per_gpu_s * extra
        sync = np.where(gpus <= 1.0, 0.0, np.where(nodes <= 1.0, inside, across))
        longer, shorter = np.maximum(compute, sync), np.minimum(compute, sync)
        return longer * (1.0 + (shorter / longer) ** self.gamma) ** (1.0 / self.gamma)


def _step_time_model(logarithms: Floats) -> StepTimeModel:
    times = np.exp(np.clip(logarithms, -25.0, 10.0))
    gamma = 1.0 + min(float(times[6]), 9.0)
    return StepTimeModel(
        compute_fixed_s=float(times[0]),
        compute_per_sample_s=float(times[1]),
        sync_node_s=float(times[2]),
        sync_node_per_gpu_s=float(times[3]),
        sync_cluster_s=float(times[4]),
        sync_cluster_per_gpu_s=float(times[5]),
        gamma=gamma,
    )


def _least_squares(residuals: Callable[[Floats], Floats], start: Floats) -> tuple[float, Floats]:
    """Minimise by Levenberg and Marquardt, numeric slopes; returns the mean square and the parameters."""
    at = start.copy()
    found = residuals(at)
    damping = 1e-2
    for _ in range(_STEPS):
        slopes = np.empty((found.size, at.size))
        for k in range(at.size):
            step = np.zeros_like(at)
            step[k] = 1e-6
            slopes[:, k] = (residuals(at + step) - found) / 1e-6
        normal, gradient = slopes.T @ slopes, slopes.T @ found
        shrunk = False
        for _ in range(12):
            move = np.linalg.solve(
                normal + damping * (np.diag(np.diag(normal)) + 1e-9 * np.eye(at.size)), -gradient
            )
            tried = residuals(at + np.clip(move, -2.0, 2.0))
            if tried @ tried < found @ found:
                better = 1.0 - float(tried @ tried) / float(found @ found)
                at, found, damping = at + np.clip(move, -2.0, 2.0), tried, max(damping / 5.0, 1e-9)
                shrunk = better > 1e-9
                break
            damping *= 4.0
        if not shrunk:
            break
    return float(found @ found) / found.size, at


def fit_step_time(
    gpus: Floats, nodes: Floats, batch: Floats, step_s: Floats, *, random: np.random.Generator
) -> StepTimeModel:
    """Fit the step time on measurements, by least squares of its logarithm from several starting points.

    Args:
        gpus: (n,) GPUs in all.
        nodes: (n,) nodes they are on.
        batch: (n,) samples per GPU.
        step_s: (n,) measured seconds per step, > 0.
        random: draws the starting points.

    Raises:
        InvalidInput: fewer measurements than parameters, or a time is not above 0.
    """
    if step_s.size < 8 or not (step_s > 0.0).all():
        raise InvalidInput(
            f"{step_s.size} step times, lowest {step_s.min(initial=math.inf)}; 8 or more above 0 needed"
        )
    measured = np.log(step_s)

    def residuals(logarithms: Floats) -> Floats:
        return np.log(_step_time_model(logarithms).step_time_s(gpus, nodes, batch)) - measured

    scale = float(np.median(step_s))
    first = np.log(
        [
            0.5 * scale,
            0.5 * scale / float(np.mean(batch)),
            0.2 * scale,
            0.02 * scale,
            0.4 * scale,
            0.04 * scale,
            1.0,
        ]
    )
    fits = [
        _least_squares(residuals, first + random.normal(0.0, 1.0, first.size) * (start > 0))
        for start in range(_STARTS)
    ]
    return _step_time_model(min(fits, key=lambda fit: fit[0])[1])


def fit_sharing_curve(utilisation: Floats, speed: Floats, edges: Sequence[float]) -> tuple[Floats, Floats]:
    """Fit the speed of GPU sharing: (knots, speeds) for `gpu.shared_gpu_speed`.

    Args:
        utilisation: (n,) of the shared GPU, 0 … 1.
        speed: (n,) mean speed of the pair relative to alone.
        edges: upper edges of the classes but the last, ascending.

    A knot is the mean utilisation of a class, its speed the mean over the class, at most 1; where a class is
    faster than the one before, the two are pooled (isotonic regression by pooling adjacent violators).

    Raises:
        InvalidInput: a class is empty.
    """
    classes = np.searchsorted(np.asarray(edges), utilisation, side="left")
    blocks: list[tuple[float, float, float]] = []
    knots: list[float] = []
    for index in range(len(edges) + 1):
        members = classes == index
        if not members.any():
            raise InvalidInput(
                f"class {index} of utilisation holds no measurement; use wider classes than {tuple(edges)}"
            )
        knots.append(float(utilisation[members].mean()))
        blocks.append((float(speed[members].mean()), float(members.sum()), 1.0))
        while len(blocks) > 1 and blocks[-1][0] > blocks[-2][0]:
            (high, many, width), (low, few, span) = blocks.pop(), blocks.pop()
            blocks.append(((high * many + low * few) / (many + few), many + few, width + span))
    speeds = [min(level, 1.0) for level, _, width in blocks for _ in range(int(width))]
    return np.array(knots), np.array(speeds)


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftModel:
    """How a resource varies: share of time degraded, and the range of its factor then."""

    degraded_share: float
    degraded_low: float
    """5th percentile of the factor while degraded, relative to the median."""
    degraded_high: float
    """95th percentile."""
    normal_spread: float
    """Standard deviation of the factor while not degraded."""

    def flips(self, random: np.random.Generator, *, until_s: float, degraded_mean_s: float) -> Floats:
        """Draw (time_s, factor) rows of one resource; how long a stay lasts is the caller's assumption."""
        if self.degraded_share <= 0.0:
            return np.zeros((0, 2))
        return qos_flips(
            random,
            until_s=until_s,
            normal_mean_s=degraded_mean_s * (1.0 - self.degraded_share) / self.degraded_share,
            degraded_mean_s=degraded_mean_s,
            degraded_low=self.degraded_low,
            degraded_high=self.degraded_high,
        )


def fit_drift(factors: Floats, *, below: float = 0.9) -> DriftModel:
    """Fit the drift on (n,) `factors`, capacity relative to the median; degraded means under `below`.

    Raises:
        InvalidInput: no measurement, or a factor is not above 0.
    """
    if factors.size == 0 or not (factors > 0.0).all():
        raise InvalidInput("the factors of a drift must be above 0 and at least one")
    degraded, normal = factors[factors < below], factors[factors >= below]
    low, high = np.quantile(degraded, [0.05, 0.95]) if degraded.size else (1.0, 1.0)
    return DriftModel(
        degraded_share=degraded.size / factors.size,
        degraded_low=float(low),
        degraded_high=float(high),
        normal_spread=float(normal.std()) if normal.size else 0.0,
    )


def rounded(model: StepTimeModel | DriftModel, digits: int = 4) -> tuple[float, ...]:
    """Give the numbers of a model with `digits` significant digits, as they are kept in `fitted`."""
    return tuple(float(f"{number:.{digits}g}") for number in astuple(model))
