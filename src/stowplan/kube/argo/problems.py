"""What is wrong with an Argo object: every fault with its path, its value and the mend, told in one error.

Argo's own validation stops at the first fault and does not say where; whoever writes a manifest of two
hundred tasks wants them all at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from stowplan.errors import InvalidWorkflow

__all__ = ["MalformedWorkflow", "Problem", "Problems"]

_SHOWN: Final = 80  # characters of a value
_LISTED: Final = 50  # problems spelled out in the message; all are in `problems`


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault. `path` is the JSON path of the field (`spec.templates[2].dag.tasks[0].name`)."""

    path: str
    value: str
    mend: str

    def __str__(self) -> str:
        """Return the fault as one sentence."""
        return f"{self.path} is {self.value}; {self.mend}"

    @property
    def is_lack(self) -> bool:
        """Whether an object that it refers to is not there; it may come later, or be only unknown here."""
        return self.path.lower().endswith("templateref.name") and self.mend.endswith("create it")


class MalformedWorkflow(InvalidWorkflow):
    """An Argo object that cannot run. `problems` holds every fault, in the order of the manifest."""

    def __init__(self, owner: str, problems: tuple[Problem, ...]) -> None:
        """Say what is wrong with the object that `owner` names (`Workflow default/nightly`)."""
        told = [str(problem) for problem in problems[:_LISTED]]
        if len(problems) > _LISTED:
            told.append(f"and {len(problems) - _LISTED} problems more")
        super().__init__(f"{owner}: " + "; also ".join(told))
        self.owner = owner
        self.problems = problems

    def __reduce__(self) -> tuple[object, ...]:
        """Travel between processes with the problems."""
        return MalformedWorkflow, (self.owner, self.problems)


@dataclass(slots=True)
class Problems:
    """Collects the faults of one object."""

    owner: str
    found: list[Problem] = field(default_factory=list[Problem])
    _seen: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])

    def add(self, path: str, value: object, mend: str) -> None:
        """Note that the field at `path` has an unusable `value`; the same fault is noted once."""
        if (path, mend) in self._seen:
            return
        self._seen.add((path, mend))
        shown = repr(value)
        if len(shown) > _SHOWN:
            shown = shown[:_SHOWN] + "…"
        self.found.append(Problem(path, shown, mend))

    def __bool__(self) -> bool:
        """Tell whether there are any."""
        return bool(self.found)

    def raise_any(self) -> None:
        """Complain about all of them.

        Raises:
            MalformedWorkflow: there is at least one.
        """
        if self.found:
            raise MalformedWorkflow(self.owner, tuple(self.found))
