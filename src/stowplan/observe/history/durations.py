"""How long the next run of a task will take, from the runs that were seen.

Pure: observations in, answers out. The model is made anew from what the store holds whenever enough is new;
it takes no notice of the order of its observations.

**A class that was seen.** Middle: the weighted median of its log durations, on the reference machine; for an
item of a fan-out mixed with the item's own median by credibility, so that items count where they repeat and
do not where they are mere numbers. Spread: the class's own scale s², pooled with the usual scale σ₀² of all
classes as if that were ν₀ more runs,

    σ² = (ν₀σ₀² + (n − 1)s²) ∕ (ν₀ + n − 1),   next run ~ middle + t(ν₀ + m − 1) · σ · √(1 + 1 ∕ m),

with n observations in m workflow runs. So a class seen once is not taken to be exact, and every further run
narrows the answer, but a hundred items of one run do not make it sure of the next. On a kind of machine where
the class was not seen, the scatter of the classes' own ratios there is added.

**A class that was not.** Its nearest kin that was seen, in the order of `Source`: the median over the kin's
middles, with the spread that this very step would have had for the classes that are known (each held against
the others of its group).

Sources: A. Gelman et al., Bayesian Data Analysis (3rd edition 2013), section 3.2 (normal data, pooled scale,
Student's law for the next value); `spread` and `node_classes` for the rest.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from stowplan.core.domain import ClassKey, WorkShape
from stowplan.observe.history.class_fit import ClassFit, fit_class, log_seconds
from stowplan.observe.history.expected import ExpectedDuration, Source
from stowplan.observe.history.node_classes import Cell, NodeClassRatios
from stowplan.observe.history.observations import Observation
from stowplan.observe.history.spread import MAD_TO_SIGMA, credibility

__all__ = ["DurationModel"]

_PRIOR_FREEDOM: Final = 3.0  # ν₀: how many runs the usual spread is worth
_USUAL_SCALE: Final = 0.3  # until three classes with three runs each have told better: about 35 % up or down
# Until classes have told how much items repeat, an item's own runs are taken as they are: it is what Argo's
# estimate does, and right for pipelines that run again on the same files. The spread is less sure.
_SHARE_BETWEEN_ITEMS: Final = 0.9
_ENOUGH: Final = 3
_ENOUGH_FREEDOM: Final = 5
_NOTHING_S: Final = 60.0
_NOTHING_SCALE: Final = 2.0
_KIN_SCALE: Final[Mapping[Source, float]] = {
    # What a step is off by, until the classes have told better: names agree more than neighbours do.
    Source.TEMPLATE: 0.7,
    Source.SHAPE: 0.7,
    Source.WORKFLOW: 1.5,
    Source.ALL: 2.0,
}

Group = str | WorkShape | None


class DurationModel:
    """Expected durations from a fixed set of observations.

    Attributes:
        node_classes: the ratios between kinds of machines.
    """

    def __init__(self, observations: Iterable[Observation]) -> None:
        """Fit to `observations`, in any order. Equal ones count twice: the store holds each run once."""
        by_class: dict[ClassKey, list[Observation]] = {}
        for observation in observations:
            by_class.setdefault(observation.key, []).append(observation)
        self.node_classes = NodeClassRatios.of(_cells(by_class))
        self._fits: dict[ClassKey, ClassFit] = {}
        self._bound_s: dict[ClassKey, float] = {}
        for key in sorted(by_class):
            fit = fit_class(by_class[key], partial(self.node_classes.offset, key))
            if fit is None:
                self._bound_s[key] = max(observation.elapsed_s for observation in by_class[key])
            else:
                self._fits[key] = fit
        self._usual_scale = _usual_scale(self._fits.values())
        self._usual_share = _usual_share(self._fits.values())
        shapes = {key: _newest_shape(by_class[key]) for key in self._fits}
        self._kin: dict[Source, dict[Group, list[float]]] = {
            source: _grouped({key: _group(source, key, shapes[key]) for key in self._fits}, self._fits)
            for source in _KIN_SCALE
        }
        self._kin_law = {source: _kin_law(source, groups) for source, groups in self._kin.items()}

    def __len__(self) -> int:
        """Count the classes of which an end was seen."""
        return len(self._fits)

    def expected(
        self, key: ClassKey, *, item: str = "", node_class: str = "", shape: WorkShape | None = None
    ) -> ExpectedDuration:
        """Return the expected duration of the next run of `key`.

        Args:
            key: the class.
            item: the item of a fan-out, "" for none or any.
            node_class: where it would run, "" for a usual node.
            shape: image, command and requests, for classes that were not seen.
        """
        fit = self._fits.get(key)
        if fit is not None:
            return self._from_runs(key, fit, item, node_class)
        answer = self._from_kin(key, node_class, shape)
        return answer.given_longer_than(self._bound_s.get(key, 0.0))

    def _from_runs(self, key: ClassKey, fit: ClassFit, item: str, node_class: str) -> ExpectedDuration:
        own_freedom = max(0.0, fit.effective_count - 1.0)
        squares = _PRIOR_FREEDOM * self._usual_scale**2 + own_freedom * fit.log_scale**2
        variance = squares / (_PRIOR_FREEDOM + own_freedom)
        middle, weight, share = fit.log_middle, 0.0, 0.0
        if item in fit.items:
            own, count = fit.items[item]
            known = fit.between_items
            told = known[0] if known is not None and known[1] >= _ENOUGH_FREEDOM else self._usual_share
            share = _SHARE_BETWEEN_ITEMS if told is None else told
            weight = credibility(count, share)
            middle += (1.0 if told is None else weight) * (own - middle)
        is_known = self.node_classes.knows(node_class)
        middle += self.node_classes.offset(key, node_class) if is_known else fit.usual_offset
        return ExpectedDuration(
            log_middle=middle,
            log_spread=math.hypot(
                math.sqrt(variance * (1.0 - share * weight) * (1.0 + 1.0 / fit.effective_draws)),
                self.node_classes.doubt(key, node_class) if is_known else 0.0,
            ),
            freedom=_PRIOR_FREEDOM + max(0.0, fit.effective_draws - 1.0),
            source=Source.ITEM if item in fit.items else Source.CLASS,
            runs=fit.count,
            effective_runs=fit.effective_count,
            knows_node_class=is_known,
        )

    def _from_kin(self, key: ClassKey, node_class: str, shape: WorkShape | None) -> ExpectedDuration:
        is_known = self.node_classes.knows(node_class)
        for source, groups in self._kin.items():
            group = _group(source, key, shape)
            kin = groups.get(group) if group is not None else None
            if kin:
                spread, freedom = self._kin_law[source]
                return ExpectedDuration(
                    log_middle=statistics.median(kin) + self.node_classes.offset(key, node_class),
                    log_spread=spread * math.sqrt(1.0 + 1.0 / len(kin)),
                    freedom=freedom,
                    source=source,
                    runs=len(kin),
                    effective_runs=float(len(kin)),
                    knows_node_class=is_known,
                )
        return ExpectedDuration(
            log_middle=math.log(_NOTHING_S),
            log_spread=_NOTHING_SCALE,
            freedom=math.inf,
            source=Source.NOTHING,
            runs=0,
            effective_runs=0.0,
        )


def _cells(by_class: Mapping[ClassKey, Sequence[Observation]]) -> list[Cell]:
    """Return the median log duration of each item on each node class, from ends only."""
    values: dict[tuple[ClassKey, str, str], list[float]] = {}
    for key, observations in by_class.items():
        for observation in observations:
            if observation.is_complete and observation.node_class:
                at = (key, observation.item, observation.node_class)
                values.setdefault(at, []).append(log_seconds(observation.elapsed_s))
    return [Cell(*at, statistics.median(found)) for at, found in sorted(values.items())]


def _usual_scale(fits: Iterable[ClassFit]) -> float:
    scales = [fit.log_scale for fit in fits if fit.effective_count >= _ENOUGH]
    return statistics.median(scales) if len(scales) >= _ENOUGH else _USUAL_SCALE


def _usual_share(fits: Iterable[ClassFit]) -> float | None:
    known = [fit.between_items for fit in fits if fit.between_items is not None]
    shares = [share for share, freedom in known if freedom >= _ENOUGH_FREEDOM]
    return statistics.median(shares) if len(shares) >= _ENOUGH else None


def _newest_shape(observations: Sequence[Observation]) -> WorkShape | None:
    shaped = [
        (observation.seen_s, observation.shape)
        for observation in observations
        if observation.shape is not None
    ]
    return max(shaped)[1] if shaped else None


def _group(source: Source, key: ClassKey, shape: WorkShape | None) -> Group:
    """Return what a class shares with its kin of `source`, None where it says nothing of it."""
    match source:
        case Source.TEMPLATE:
            return key.template or None
        case Source.SHAPE:
            return shape
        case Source.WORKFLOW:
            return key.origin or None
        case _:
            return ""


def _grouped(
    group_of: Mapping[ClassKey, Group], fits: Mapping[ClassKey, ClassFit]
) -> dict[Group, list[float]]:
    groups: dict[Group, list[float]] = {}
    for key, group in group_of.items():
        if group is not None:
            groups.setdefault(group, []).append(fits[key].log_middle)
    return groups


def _kin_law(source: Source, groups: Mapping[Group, Sequence[float]]) -> tuple[float, float]:
    """Return spread and degrees of freedom of a step, from how far off it would have been so far.

    A class is off by its distance from the median of its group × n ∕ (n − 1): exactly so, against the others,
    for a mean, and for a median of two.
    """
    off = [
        abs(value - statistics.median(values)) * len(values) / (len(values) - 1)
        for values in groups.values()
        if len(values) > 1
        for value in values
    ]
    seen = MAD_TO_SIGMA * statistics.median(off) if off else 0.0
    freedom = _PRIOR_FREEDOM + len(off)
    squares = _PRIOR_FREEDOM * _KIN_SCALE[source] ** 2 + len(off) * seen**2
    return math.sqrt(squares / freedom), freedom
