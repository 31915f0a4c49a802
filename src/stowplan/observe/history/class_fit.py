"""What the runs of one class say: middle and spread on the log scale, of all of them and of each item.

Newer workflow runs weigh more: a run's weight halves with every `HALF_LIFE_RUNS` runs that began later, of
the class for the class, of the item for the item, whatever time passed between them. Within a run all weigh
the same: its last items to end are not news, they are the long ones.

Times of Kubernetes have whole seconds, so a run of "0 s" took half a second as far as anyone knows.
"""

from __future__ import annotations

import math
import statistics
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
    """The observations of one class, on the reference machine.

    Attributes:
        log_middle: weighted median of the log durations.
        log_scale: their scale by the quartiles; nothing to tell from a single run (0).
        count: ends seen.
        effective_count: the same by weight (Kish), at least 1.
        effective_draws: workflow runs with an end by weight, at least 1: what makes one run slow makes all of
            its items slow, so the items of one run are not that many independent draws.
        items: for each item the weighted median and the effective count.
        between_items: share of the variance that lies between items and its degrees of freedom, if known;
            from items that came in several runs, since what counts is whether the next run's can be told.
        usual_offset: of the node classes that the runs were on; for a question without node class.
    """

    log_middle: float
    log_scale: float
    count: int
    effective_count: float
    effective_draws: float
    items: dict[str, tuple[float, float]]
    between_items: tuple[float, int] | None
    usual_offset: float


def _weights(observations: Sequence[Observation]) -> list[float]:
    """Return the weight of each observation; runs that began at the same time weigh the same."""
    began_s: dict[str, float] = {}
    for each in observations:
        began_s[each.run] = min(began_s.get(each.run, math.inf), each.seen_s - each.elapsed_s)
    newer: dict[float, int] = {}
    for rank, time_s in enumerate(sorted(began_s.values(), reverse=True)):
        newer.setdefault(time_s, rank)
    return [0.5 ** (newer[began_s[each.run]] / HALF_LIFE_RUNS) for each in observations]


def _run_weights(observations: Sequence[Observation]) -> list[float]:
    """Return the weight of each run of which an end was seen."""
    weights = zip(observations, _weights(observations), strict=True)
    return list({each.run: weight for each, weight in weights if each.is_complete}.values())


def _samples(observations: Sequence[Observation], offset: Callable[[str], float]) -> list[Sample]:
    weights = _weights(observations)
    return sorted(
        Sample(log_seconds(each.elapsed_s) - offset(each.node_class), not each.is_complete, weight)
        for each, weight in zip(observations, weights, strict=True)
    )


def fit_class(observations: Sequence[Observation], offset: Callable[[str], float]) -> ClassFit | None:
    """Return the fit of the observations of one class, None where no end was seen.

    Args:
        observations: all of one class, in any order.
        offset: gives the log difference of a node class against the reference.
    """
    by_item: dict[str, list[Observation]] = {}
    for observation in observations:
        if observation.item:
            by_item.setdefault(observation.item, []).append(observation)
    samples = _samples(observations, offset)
    weighed = [sample.weight for sample in samples if not sample.is_bound]
    if not weighed:
        return None
    items: dict[str, tuple[float, float]] = {}
    by_run: list[list[float]] = []
    for item, of_item in sorted(by_item.items()):
        own = _samples(of_item, offset)
        counted = [sample.weight for sample in own if not sample.is_bound]
        if counted:
            items[item] = (quantile(own, 0.5), effective_count(counted))
            by_run.append(_run_medians(of_item, offset))
    return ClassFit(
        log_middle=quantile(samples, 0.5),
        log_scale=scale(samples) if len(weighed) > 1 else 0.0,
        count=len(weighed),
        effective_count=effective_count(weighed),
        effective_draws=effective_count(_run_weights(observations)),
        items=items,
        between_items=intraclass(by_run),
        usual_offset=statistics.median(offset(each.node_class) for each in observations),
    )


def _run_medians(observations: Sequence[Observation], offset: Callable[[str], float]) -> list[float]:
    """Return the median log duration of an item in each run, from ends only."""
    by_run: dict[str, list[float]] = {}
    for each in observations:
        if each.is_complete:
            by_run.setdefault(each.run, []).append(log_seconds(each.elapsed_s) - offset(each.node_class))
    return [statistics.median(values) for _, values in sorted(by_run.items())]
