"""The storage level of a device over time: quick to rise, slow to fall, unmoved by what was not measured.

* Three readings in a row on or above a higher level's bound move the level up at once (R8), to the highest
  level that all three reached.
* Six readings in a row below the bounds, lowered by the release share, move it down, to the highest level
  that any of the six was still in. Six and 0.8 are proposals: half a minute at one reading in 5 s, and a disk
  that hovers around a bound does not flap.
* A reading that is missing, stale or impossible is no reading: it neither counts as high nor as low. After a
  gap that is too long for "in a row", counting starts anew; the level stays what it was.
* Before the first three readings the level is not known; it is not zero.

The state is a value; the next one follows from it and one reading.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stowplan.core.semantics.catalogue import quantity
from stowplan.core.semantics.quantities import Source
from stowplan.core.semantics.storage_platforms import LEVEL_COUNT, StorageLevels
from stowplan.core.semantics.value import Value, measured, missing
from stowplan.errors import InvalidInput

__all__ = [
    "UNKNOWN_LEVEL",
    "LevelRule",
    "LevelState",
    "level_value",
    "next_level",
    "one_hot_levels",
    "storage_weight",
]

UNKNOWN_LEVEL: Final = -1
AWAIT: Final = "storage_await_s"


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelRule:
    """When a level moves, and what it costs a node.

    `weights` are the factors on a node's score by level, proposals but for one thing: level 2 must cost at
    once (R8).
    """

    readings_up: int = 3
    readings_down: int = 6
    release: float = 0.8
    """Bounds are multiplied by it on the way down."""
    longest_gap_s: float = 30.0
    """Between two readings in a row."""
    weights: tuple[float, ...] = (1.0, 0.9, 0.6, 0.3, 0.1)

    def __post_init__(self) -> None:
        """Refuse a rule without meaning.

        Raises:
            InvalidInput: a count is below 1, a share outside 0 … 1, or the weights are not one per level and
            falling.
        """
        falling = all(high >= low for high, low in pairwise(self.weights))
        checks = (
            ("readings_up", self.readings_up >= 1),
            ("readings_down", self.readings_down >= 1),
            ("release", 0.0 < self.release <= 1.0),
            ("longest_gap_s", self.longest_gap_s > 0.0),
            ("weights", len(self.weights) == LEVEL_COUNT and falling),
            ("weights", all(0.0 <= weight <= 1.0 for weight in self.weights)),
        )
        for name, holds in checks:
            if not holds:
                raise InvalidInput(f"LevelRule.{name} is {getattr(self, name)}; see its range in the class")


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelState:
    """What is remembered of one device."""

    level: int = UNKNOWN_LEVEL
    last_s: float = -math.inf
    """Time of the last reading that counted."""
    source: Source = Source.DISKSTATS
    """Of that reading."""
    reached: tuple[int, ...] = ()
    """Levels of the last readings in a row, oldest first; of as many as may still decide."""
    held: tuple[int, ...] = ()
    """Their levels by the lowered bounds."""


def next_level(state: LevelState, reading: Value, levels: StorageLevels, rule: LevelRule) -> LevelState:
    """Return the state after one reading of await; the same state when the reading does not count.

    A reading that is not younger than the last one is the same reading again, or a late one, and does not
    count. One that is older by more than the longest gap was taken after a clock was set back: counting
    starts anew with it.

    Raises:
        InvalidInput: the value is not an await.
    """
    if reading.quantity != AWAIT:
        raise InvalidInput(f"a storage level follows from {AWAIT}, not from {reading.quantity}")
    await_s, time_s = reading.known, reading.measured_s
    if await_s is None or time_s is None or 0.0 <= state.last_s - time_s <= rule.longest_gap_s:
        return state
    keep = max(rule.readings_up, rule.readings_down)
    in_a_row = 0.0 < time_s - state.last_s <= rule.longest_gap_s
    reached = ((*state.reached, levels.level(await_s)) if in_a_row else (levels.level(await_s),))[-keep:]
    now_held = levels.level(await_s, rule.release)
    held = ((*state.held, now_held) if in_a_row else (now_held,))[-keep:]
    level = state.level
    if len(reached) >= rule.readings_up:
        level = max(level, min(reached[-rule.readings_up :]))
    if len(held) >= rule.readings_down:
        level = min(level, max(held[-rule.readings_down :]))
    return replace(state, level=level, last_s=time_s, source=reading.source, reached=reached, held=held)


def level_value(state: LevelState, levels: StorageLevels, now_s: float) -> Value:
    """Return the level as a value at `now_s`: missing before three readings, stale after a long gap.

    The reason of a present one says when the default's bounds stand in for those of its platform.
    """
    if state.level == UNKNOWN_LEVEL:
        count = len(state.reached)
        reason = f"{count} readings of await in a row are too few for a level"
        measured_s = state.last_s if math.isfinite(state.last_s) else None
        return missing("storage_level", reason, source=state.source, measured_s=measured_s).at(now_s)
    flag = f"platform {levels.platform!r} has no bounds of its own" if levels.is_default else ""
    level = float(state.level)
    value = measured("storage_level", level, source=state.source, measured_s=state.last_s, reason=flag)
    return value.at(now_s)


def storage_weight(level: Value, rule: LevelRule) -> Value:
    """Return the factor on a node's score, of the quality of its level.

    Raises:
        InvalidInput: the value is not a storage level.
    """
    if level.quantity != quantity("storage_level").name:
        raise InvalidInput(f"a storage weight follows from storage_level, not from {level.quantity}")
    return level.derive("storage_weight", lambda number: rule.weights[int(number)])


def one_hot_levels(levels: NDArray[np.integer]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Return levels as one-hot rows (n, 5), and (n,) which are known; the row of an unknown level is zero.

    Args:
        levels: (n,) 0 … 4, or `UNKNOWN_LEVEL`.

    Raises:
        InvalidInput: a level is outside.
    """
    if levels.size and not (levels.min() >= UNKNOWN_LEVEL and levels.max() < LEVEL_COUNT):
        raise InvalidInput(
            f"storage levels go from {levels.min()} to {levels.max()}; {UNKNOWN_LEVEL} … {LEVEL_COUNT - 1} "
            "are possible"
        )
    columns = np.arange(LEVEL_COUNT)
    return (levels[:, None] == columns).astype(np.float32), levels != UNKNOWN_LEVEL
