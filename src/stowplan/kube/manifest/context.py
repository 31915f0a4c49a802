"""What other objects add to the shape of a pod: its priority class, its Services, its controller.

A pod says of itself what `read_pod_shape` reads. The rest may change, or become known, after the pod was
read; then its shape is completed anew from the same reading.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Final

from stowplan.core.domain import LabelSelector, PodShape
from stowplan.kube.manifest.cursor import Cursor
from stowplan.kube.manifest.owners import Controller, SpreadOwners, read_controller

__all__ = ["PriorityClasses", "ShapeContext", "ShapeNeeds", "read_needs", "read_priority_class"]

_REMEMBERED: Final = 2048  # shapes; their templates come and go


class PriorityClasses:
    """Priorities by class, for pods that name a class and no number (the API server writes the number)."""

    def __init__(self) -> None:
        """Start with none."""
        self._values: dict[str, tuple[int, bool]] = {}

    def set(self, name: str, value: int, *, is_default: bool) -> bool:
        """Note a class; tell whether that is news."""
        changed = self._values.get(name) != (value, is_default)
        self._values[name] = (value, is_default)
        return changed

    def remove(self, name: str) -> bool:
        """Forget a class; tell whether it was known."""
        return self._values.pop(name, None) is not None

    def priority(self, class_name: str) -> int:
        """Return the priority of a class; of none, or one that is not known, that of the default class."""
        known = self._values.get(class_name) if class_name else None
        if known is not None:
            return known[0]
        return min((value for value, is_default in self._values.values() if is_default), default=0)


def read_priority_class(cursor: Cursor) -> tuple[int, bool]:
    """Return the value of a PriorityClass, and whether pods that name no class have it."""
    return cursor["value"].integer(), cursor["globalDefault"].flag()


@dataclass(frozen=True, slots=True)
class ShapeNeeds:
    """What a pod leaves to other objects.

    `priority_class` is the class that its priority follows from, None where the pod has the number itself;
    `controller` is its controller, None when it has none.
    """

    priority_class: str | None = None
    controller: Controller | None = None


def read_needs(cursor: Cursor) -> ShapeNeeds:
    """Return what a pod leaves to other objects."""
    spec = cursor["spec"]
    has_number = spec["priority"].is_set
    return ShapeNeeds(None if has_number else spec["priorityClassName"].text(), read_controller(cursor))


class ShapeContext:
    """Completes shapes. Equal results are one object, as long as they are remembered."""

    def __init__(self) -> None:
        """Start with no other objects."""
        self.priorities = PriorityClasses()
        self.owners = SpreadOwners()
        self._completed: dict[tuple[PodShape, int, LabelSelector | None], PodShape] = {}

    def complete(self, shape: PodShape, needs: ShapeNeeds, *, own_nomination: str = "") -> PodShape:
        """Return the shape with what other objects add.

        `own_nomination` is the pod's key while it waits and a node is promised to it.
        """
        priority = shape.priority
        if needs.priority_class is not None:
            priority = self.priorities.priority(needs.priority_class)
        selector = self.owners.selector_for(shape.namespace, shape.labels, needs.controller)
        if priority != shape.priority or selector is not None:
            key = (shape, priority, selector)
            completed = self._completed.get(key)
            if completed is None:
                completed = dataclasses.replace(shape, priority=priority, default_spread_selector=selector)
                if len(self._completed) >= _REMEMBERED:
                    self._completed.clear()
                self._completed[key] = completed
            shape = completed
        if own_nomination:
            return dataclasses.replace(shape, own_nomination=own_nomination)
        return shape
