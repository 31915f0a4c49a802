"""What the history tells a plan, by its duration model."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from stowplan.core.domain import ClassKey
from stowplan.kube.plan.options import History
from stowplan.observe.history import DurationModel, Source

__all__ = ["history_of"]

_KEPT: Final = 1 << 16


def history_of(model: DurationModel) -> History:
    """Return what plans take from `model`: expected durations, where anything at all is known.

    An answer costs more the more classes there are that the one asked for may be kin to. The model does not
    change, so answers are kept.
    """

    @lru_cache(maxsize=_KEPT)
    def expected_s(key: ClassKey) -> float | None:
        expected = model.expected(key)
        return None if expected.source is Source.NOTHING else expected.expected_s

    return History(expected_s)
