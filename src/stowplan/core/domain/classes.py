"""What makes runs alike: the class of a task, and the shape of its pod.

Pods live once; what the next run can learn from the last hangs on a name that both share. Argo itself has
none across workflows, so the class is made of the workflow's template, the task's template and the place of
the task in the workflow, with the workflow's own name, items and attempts left out.
"""

from __future__ import annotations

from dataclasses import dataclass

from stowplan.errors import InvalidInput

__all__ = ["ClassKey", "WorkShape"]


@dataclass(frozen=True, slots=True, order=True)
class ClassKey:
    """The class of a task.

    `origin` names what the workflow was made from (a workflow template), `template` the task's template, and
    `place` the place of the task in the workflow.
    """

    origin: str
    template: str
    place: str

    def __post_init__(self) -> None:
        """Refuse a key that names nothing, or that no database takes.

        Raises:
            InvalidInput: all parts are empty, or one holds a NUL character.
        """
        if not (self.origin or self.template or self.place):
            raise InvalidInput("class key: origin, template and place are all empty; give at least one")
        for name in ("origin", "template", "place"):
            text: str = getattr(self, name)
            if "\0" in text:
                raise InvalidInput(f"class key: {name} is {text!r}; it must not hold a NUL character")

    def in_words(self) -> str:
        """Return the key as one line for people."""
        return " · ".join(part for part in (self.origin, self.template, self.place) if part)


@dataclass(frozen=True, slots=True, order=True)
class WorkShape:
    """What a pod's specification tells about its work, whatever it is called: the fall-back for new names.

    `command` is the command line with its arguments (or a digest of it).
    """

    image: str
    command: str
    cpu_request_cores: float
    memory_request_bytes: int
