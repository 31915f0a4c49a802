"""What a plan comes to: the patch, the document with it, and every reason in words."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from stowplan.kube.argo.objects import Json
from stowplan.kube.plan.patch import Operation, Pointer

__all__ = ["Change", "Kept", "Plan", "shown_path"]

_SHOWN: Final = 120


@dataclass(frozen=True, slots=True)
class Change:
    """A field that was set."""

    path: Pointer
    value: object
    reason: str

    def __str__(self) -> str:
        """Return the change as one line."""
        return f"set {shown_path(self.path)} to {_shown(self.value)}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Kept:
    """A field that would have been set, but has its author's value."""

    path: Pointer
    value: object
    reason: str

    def __str__(self) -> str:
        """Return the fact as one line."""
        return f"{shown_path(self.path)} is left as it is ({_shown(self.value)}), because {self.reason}"


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan for one object.

    Attributes:
        title: what the object is called in messages.
        result: the object with the patch applied; the object itself, if there is nothing to do.
        operations: the patch.
        changes: what is set, and why.
        kept: what is left as it is, and why.
        notes: what else whoever runs it should know.
        advice: what whoever set the options should know; the same for all objects.
    """

    title: str
    result: Json
    operations: tuple[Operation, ...] = ()
    changes: tuple[Change, ...] = ()
    kept: tuple[Kept, ...] = ()
    notes: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()

    def patch(self) -> list[dict[str, object]]:
        """Return the patch as JSON has it (RFC 6902)."""
        return [operation.to_json() for operation in self.operations]

    def why(self) -> list[str]:
        """Return every reason, one line each."""
        told = [*map(str, self.changes), *map(str, self.kept), *self.notes, *self.advice]
        return told if self.changes else ["nothing is changed", *told]


def shown_path(path: Pointer) -> str:
    """Return a pointer as people write it: `spec.templates[2].name`."""
    text = ""
    for token in path:
        if isinstance(token, int):
            text += f"[{token}]"
        elif not token.replace("_", "").isalnum():
            text += f"[{json.dumps(token)}]"
        else:
            text += f".{token}" if text else token
    return text


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
