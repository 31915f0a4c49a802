"""What all records share: their format, who decided, and lists of numbers written as runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from stowplan.core.constraints import NO_RULES, RuleTable
from stowplan.errors import InvalidFile

__all__ = ["FORMAT", "Setup", "from_runs", "to_runs"]

FORMAT: Final = 2
"""Version of the layout of frames; records of another one are refused by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """Who decides, as it is needed to decide again.

    Attributes:
        version: of Stowplan.
        policy, options: for `make_policy`; options are plain data.
        fallback: name of the policy that decides when the other fails; "" for none.
        rules: the operator's rule table.
        explains: whether placements carry explanations.
    """

    version: str
    policy: str
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    fallback: str = ""
    rules: RuleTable = NO_RULES
    explains: bool = True


def to_runs(numbers: Sequence[int]) -> list[int]:
    """Return numbers as first, length, first, length …: what came together has numbers in a row."""
    values = np.array(numbers, dtype=np.int64)
    if not values.size:
        return []
    starts = np.flatnonzero(np.diff(values, prepend=values[0] - 2) != 1)
    lengths = np.diff(starts, append=values.size)
    return np.stack([values[starts], lengths], axis=1).ravel().tolist()


def from_runs(runs: Sequence[int]) -> list[int]:
    """Return the numbers again.

    Raises:
        InvalidFile: a first without a length.
    """
    if len(runs) % 2:
        raise InvalidFile(f"the record has a list of runs of odd length {len(runs)}")
    return [
        number
        for first, length in zip(runs[::2], runs[1::2], strict=True)
        for number in range(first, first + length)
    ]
