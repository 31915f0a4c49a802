"""Label selectors and node selector terms, with the API's semantics.

Source: apimachinery `labels.Requirement` and component-helpers `nodeaffinity`. `NotIn` and `DoesNotExist`
match an object that lacks the key; `Gt` and `Lt` compare base-10 integers and never match what is not one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from stowplan.errors import InvalidObject

__all__ = [
    "LabelSelector",
    "Labels",
    "NodeSelectorTerm",
    "Operator",
    "Requirement",
    "freeze_labels",
    "parse_label_integer",
]

Labels = tuple[tuple[str, str], ...]
"""Labels as sorted (key, value) pairs: hashable, so that equal label sets are stored once."""

_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_INT64: Final = 2**63


class Operator(StrEnum):
    """Operators of selector requirements."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


def freeze_labels(labels: Mapping[str, str] | None) -> Labels:
    """Return labels as sorted pairs."""
    return tuple(sorted(labels.items())) if labels else ()


def parse_label_integer(text: str) -> int | None:
    """Return the 64-bit integer that `text` denotes to Go's `strconv.ParseInt(text, 10, 64)`, or None."""
    if _INTEGER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if -_INT64 <= number < _INT64 else None


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label key."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what the API would refuse.

        Raises:
            InvalidObject: the number of values does not fit the operator.
        """
        count = len(self.values)
        if self.operator in (Operator.IN, Operator.NOT_IN) and count == 0:
            raise InvalidObject(
                f"selector on {self.key!r}: operator {self.operator} needs at least one value"
            )
        if self.operator in (Operator.EXISTS, Operator.DOES_NOT_EXIST) and count != 0:
            raise InvalidObject(f"selector on {self.key!r}: operator {self.operator} takes no values")
        if self.operator in (Operator.GT, Operator.LT) and count != 1:
            raise InvalidObject(
                f"selector on {self.key!r}: operator {self.operator} takes exactly one integer"
            )

    def matches_value(self, label: str | None) -> bool:
        """Tell whether an object whose label `key` is `label` (None: absent) meets the requirement."""
        match self.operator:
            case Operator.IN:
                return label is not None and label in self.values
            case Operator.NOT_IN:
                return label is None or label not in self.values
            case Operator.EXISTS:
                return label is not None
            case Operator.DOES_NOT_EXIST:
                return label is None
            case Operator.GT | Operator.LT:
                if label is None:
                    return False
                have, bound = parse_label_integer(label), parse_label_integer(self.values[0])
                if have is None or bound is None:
                    return False
                return have > bound if self.operator is Operator.GT else have < bound


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """A conjunction of requirements; the empty one matches everything."""

    requirements: tuple[Requirement, ...] = ()

    @classmethod
    def from_labels(cls, labels: Mapping[str, str]) -> LabelSelector:
        """Return the selector that `matchLabels` stands for."""
        return cls(tuple(Requirement(key, Operator.IN, (label,)) for key, label in sorted(labels.items())))

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether `labels` meet every requirement."""
        return all(
            requirement.matches_value(labels.get(requirement.key)) for requirement in self.requirements
        )

    def and_also(self, *more: Requirement) -> LabelSelector:
        """Return this selector with further requirements."""
        return LabelSelector((*self.requirements, *more))


@dataclass(frozen=True, slots=True)
class NodeSelectorTerm:
    """Requirements on a node's labels and fields (`metadata.name`); a term with neither matches no node."""

    expressions: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str], node_name: str) -> bool:
        """Tell whether a node of that name and those labels meets the term."""
        if not self.expressions and not self.fields:
            return False
        return all(r.matches_value(labels.get(r.key)) for r in self.expressions) and all(
            r.matches_value(node_name if r.key == "metadata.name" else None) for r in self.fields
        )
