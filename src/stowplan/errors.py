"""The one exception tree of Stowplan.

Every message names the thing that was wrong, the value it had and what to do about it, so that a platform
engineer can act on it without reading code. The command line turns any `StowplanError` into one line and exit
code 2.

    StowplanError
    ├── InvalidInput            what the caller handed in cannot be used
    │   ├── InvalidQuantity     a Kubernetes quantity that does not parse, is negative or does not fit
    │   ├── InvalidObject       a Kubernetes object, node or pod with a field that cannot be used
    │   ├── InvalidWorkflow     a workflow that is not a DAG of known tasks
    │   ├── InvalidFile         a file that is unreadable, truncated or of another format or version
    │   └── UnknownName         a policy, filter, resource … that does not exist; carries the nearest one
    ├── StateConflict           an event contradicts the cluster state (duplicate node, pod bound twice …)
    ├── Unfamiliar              a model is to decide on what is unlike all that it was trained on
    ├── OutputError             a result could not be written
    ├── ReplayDiffers           a recorded decision comes out otherwise when it is made again
    └── InternalError           an invariant of ours does not hold: a defect in Stowplan, with the evidence
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "InternalError",
    "InvalidFile",
    "InvalidInput",
    "InvalidObject",
    "InvalidQuantity",
    "InvalidWorkflow",
    "OutputError",
    "ReplayDiffers",
    "StateConflict",
    "StowplanError",
    "Unfamiliar",
    "UnknownName",
]


class StowplanError(Exception):
    """Root of every error that Stowplan raises on purpose."""


class InvalidInput(StowplanError):
    """What the caller handed in cannot be used."""


class InvalidQuantity(InvalidInput):
    """A Kubernetes quantity that does not parse, is negative, or does not fit in 63 bits."""


class InvalidObject(InvalidInput):
    """A Kubernetes object, node or pod has a field that cannot be used."""


class InvalidWorkflow(InvalidInput):
    """A workflow is not a directed acyclic graph of known, distinct tasks."""


class InvalidFile(InvalidInput):
    """A file is unreadable, truncated, or of another format or version than the reader expects."""


class UnknownName(InvalidInput):
    """A name that is not among the known ones; the message offers the nearest."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        """Describe the unknown `name` of a `kind` ("policy", "filter", …) against the `known` names."""
        choices = sorted(known)
        near = difflib.get_close_matches(name, choices, n=1, cutoff=0.5)
        near = near or [choice for choice in choices if name and choice.startswith(name)]
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(choices)}"
        super().__init__(f"unknown {kind} {name!r}; {hint}")
        self.name = name
        self.nearest: str | None = near[0] if near else None

    def __reduce__(self) -> tuple[object, ...]:
        """Travel between processes as the finished message; the known names stay behind."""
        return _unknown_name, (str(self), self.name, self.nearest)


def _unknown_name(message: str, name: str, nearest: str | None) -> UnknownName:
    error = UnknownName.__new__(UnknownName)
    InvalidInput.__init__(error, message)
    error.name, error.nearest = name, nearest
    return error


class StateConflict(StowplanError):
    """An event contradicts the cluster state, for example a node added twice."""


class Unfamiliar(StowplanError):
    """A model is to decide on what is unlike all that it was trained on; a rule should decide instead."""


class OutputError(StowplanError):
    """A result could not be written where it was asked for."""


class ReplayDiffers(StowplanError):
    """A recorded decision comes out otherwise when it is made again; the message says where first."""


class InternalError(StowplanError):
    """An invariant of Stowplan does not hold. This is a defect; the message carries the evidence."""
