"""What the runs of one class say: middle and spread on the log scale, of all of them and of each item.

Newer workflow runs weigh more: a run's weight halves with every `HALF_LIFE_RUNS` newer runs of the class,
whatever time passed between them. Items of a fan-out share the weight rule of their run.

Times of Kubernetes have whole seconds, so a run of "0 s" took half a second as far as anyone knows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from stowplan.observe.history.observations import Observation
from stowplan.observe.history.spread import Sample, effective_count, intraclass, quantile, scale

__all__ = ["HALF_LIFE_RUNS", "SHORTEST_S", "ClassFit", "fit_class", "log_seconds"]

HALF_LIFE_RUNS: Final = 8.0
SHORTEST_S: Final = 0.5


def log_seconds(elapsed_s: float) -> float:
    """Return the natural logarithm of a duration, those below the clock's resolution raised to half of it."""
    return math.log(max(elapsed_s, SHORTEST_S))


@dataclass(frozen=True, slots=True)
class ClassFit:
    """The runs of one class, on the reference machine.

    Attributes:
        log_middle: weighted median of the log durations.
        log_scale: their scale by the quartiles; nothing to tell from a single run (0).
        count: ends seen.
        effective_count: the same by weight (Kish), at least 1.
        items: for each item the weighted median and the effective count.
        between_items: share of the variance that lies between items and its degrees of freedom, if known.
        usual_offset: of the node classes that the runs were on; for a question without node class.
    """

    log_middle: float
    log_scale: float
    count: int
    effective_count: float
    items: dict[str, tuple[float, float]]
    between_items: tuple[float, int] | None
    usual_offset: float


def run_weights(observations: Sequence[Observation]) -> dict[str, float]:
    """Return the weight of each workflow run by its name; runs seen at the same time weigh the same."""
    seen: dict[str, float] = {}
    for observation in observations:
        seen[observation.run] = max(seen.get(observation.run, -math.inf), observation.seen_s)
    weight_at: dict[float, float] = {}
    newer = 0
    for time_s in sorted(set(seen.values()), reverse=True):
        weight_at[time_s] = 0.5 ** (newer / HALF_LIFE_RUNS)
        newer += sum(1 for other_s in seen.values() if other_s == time_s)
    return {run: weight_at[time_s] for run, time_s in seen.items()}


def fit_class(observations: Sequence[Observation], offset: Callable[[str], float]) -> ClassFit | None:
    """Return the fit of the observations of one class, None where no end was seen.

    Args:
        observations: all of one class, in any order.
        offset: gives the log difference of a node class against the reference.
    """
    if not any(observation.is_complete for observation in observations):
        return None
    weights = run_weights(observations)
    samples: list[Sample] = []
    offsets: list[Sample] = []
    by_item: dict[str, list[Sample]] = {}
    for observation in observations:
        shift = offset(observation.node_class)
        sample = Sample(
            log_seconds(observation.elapsed_s) - shift, not observation.is_complete, weights[observation.run]
        )
        samples.append(sample)
        offsets.append(Sample(shift, is_bound=False, weight=sample.weight))
        if observation.item:
            by_item.setdefault(observation.item, []).append(sample)
    samples.sort()
    ends = [sample for sample in samples if not sample.is_bound]
    items: dict[str, tuple[float, float]] = {}
    for item, of_item in by_item.items():
        of_item.sort()
        weighed = [sample.weight for sample in of_item if not sample.is_bound]
        if weighed:
            items[item] = (quantile(of_item, 0.5), effective_count(weighed))
    groups = [[s.value for s in by_item[item] if not s.is_bound] for item in sorted(items)]
    return ClassFit(
        log_middle=quantile(samples, 0.5),
        log_scale=scale(samples) if len(ends) > 1 else 0.0,
        count=len(ends),
        effective_count=effective_count(sample.weight for sample in ends),
        items=items,
        between_items=intraclass(groups),
        usual_offset=quantile(sorted(offsets), 0.5),
    )
