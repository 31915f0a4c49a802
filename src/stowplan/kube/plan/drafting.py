"""What the parts of a plan share: the object, what is known about it, and what has been decided so far."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, cast

from stowplan.kube.argo import ArgoObject, TaskGraph
from stowplan.kube.argo.effective import template_type
from stowplan.kube.argo.objects import Json, as_list, as_mapping, text_of
from stowplan.kube.plan.options import PlanOptions, Referencing
from stowplan.kube.plan.outcome import Change, Kept
from stowplan.kube.plan.patch import Draft, Pointer

__all__ = ["Drafting", "Leaf"]

_WITH_POD: Final = frozenset({"container", "containerSet", "script", "resource", "data"})
_DEEPEST: Final = 20  # inline templates within inline templates


@dataclass(frozen=True, slots=True)
class Leaf:
    """A template with a pod, where it stands in the object.

    `name` is empty for an inline one, which is then the task `task` of the template `outer` (whose own name
    is empty if it is inline itself).
    """

    path: Pointer
    template: Json
    kind: str
    name: str
    outer: str = ""
    task: str = ""


@dataclass
class Drafting:
    """A plan while it is made.

    `referenced` is the object that the workflow takes its templates from, if it is known; `lacks` are the
    references that are not. `graph` is None where it cannot be known.
    """

    own: ArgoObject
    options: PlanOptions
    referenced: ArgoObject | None
    lacks: tuple[str, ...]
    graph: TaskGraph | None
    draft: Draft
    changes: list[Change] = field(default_factory=list[Change])
    kept: list[Kept] = field(default_factory=list[Kept])
    notes: list[str] = field(default_factory=list[str])
    advice: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        """Find the templates with pods."""
        self.spec_path: Pointer = tuple(self.own.spec_path.split("."))
        self.leaves = tuple(self._leaves())

    # ---- what is known ----

    @property
    def reference(self) -> str:
        """The name of the object that the workflow takes its templates from; empty if it has its own."""
        return text_of(as_mapping(self.own.spec.get("workflowTemplateRef")).get("name"))

    @property
    def is_restricted(self) -> bool:
        """Whether the controller refuses a workflow that sets what is not allowed."""
        is_submitted = self.own.kind in ("Workflow", "CronWorkflow")
        return is_submitted and self.options.referencing is not Referencing.NONE

    def may_set(self, key: str) -> bool:
        """Tell whether a field of the specification may be set at all."""
        return not self.is_restricted or (bool(self.reference) and key in self.options.allowed_fields)

    def settled(self, key: str) -> tuple[Pointer, object, str] | None:
        """Return where a field of the specification is set already, its value, and by whom; None if nowhere.

        A field of a workflow goes before the same field of the object that it refers to, so that to set it
        here would overrule that object's author.
        """
        if self.own.spec.get(key):
            return (*self.spec_path, key), self.own.spec[key], f"{self.own.kind} sets it"
        if self.referenced is not None and self.referenced.spec.get(key):
            value = self.referenced.spec[key]
            return (*self.spec_path, key), value, f"{self.referenced.title}, which it refers to, sets it"
        return None

    def is_reference_unknown(self) -> bool:
        """Tell whether the workflow takes its templates from an object that is not known."""
        return bool(self.reference) and self.referenced is None

    def patches_mentioning(self, word: str) -> Iterator[Pointer]:
        """Yield every `podSpecPatch` of the object in which a word stands; it is applied last of all."""
        defaults = as_mapping(self.own.spec.get("templateDefaults"))
        for path, holder in (
            (self.spec_path, self.own.spec),
            ((*self.spec_path, "templateDefaults"), defaults),
            *((leaf.path, leaf.template) for leaf in self.leaves),
        ):
            if word in text_of(holder.get("podSpecPatch")):
                yield (*path, "podSpecPatch")
        if self.referenced is not None and word in text_of(self.referenced.spec.get("podSpecPatch")):
            yield (*self.spec_path, "workflowTemplateRef")

    # ---- what is decided ----

    def put(self, path: Pointer, value: object, reason: str) -> None:
        """Set a value."""
        if self.draft.put(path, value):
            self.changes.append(Change(path, value, reason))

    def keep(self, path: Pointer, value: object, reason: str) -> None:
        """Leave a value."""
        self.kept.append(Kept(path, value, reason))

    def note(self, words: str) -> None:
        """Tell something, once."""
        if words not in self.notes:
            self.notes.append(words)

    def advise(self, words: str) -> None:
        """Tell something that follows from the options, whatever the object."""
        if words not in self.advice:
            self.advice.append(words)

    # ---- templates ----

    def _leaves(self) -> Iterator[Leaf]:
        for number, template in enumerate(as_list(self.own.spec.get("templates"))):
            path = (*self.spec_path, "templates", number)
            yield from self._leaves_in(Leaf(path, template, "", text_of(template.get("name"))), 0)

    def _leaves_in(self, leaf: Leaf, depth: int) -> Iterator[Leaf]:
        kind = template_type(leaf.template)
        if kind in _WITH_POD:
            yield Leaf(leaf.path, leaf.template, kind, leaf.name, leaf.outer, leaf.task)
        if depth > _DEEPEST:
            return
        for path, task in _tasks(leaf, kind):
            if task.get("inline") is not None:
                inline = as_mapping(task["inline"])
                within = Leaf((*path, "inline"), inline, "", "", leaf.name, text_of(task.get("name")))
                yield from self._leaves_in(within, depth + 1)


def _tasks(leaf: Leaf, kind: str) -> Iterator[tuple[Pointer, Json]]:
    if kind == "dag":
        for number, task in enumerate(as_list(as_mapping(leaf.template["dag"]).get("tasks"))):
            yield (*leaf.path, "dag", "tasks", number), task
    elif kind == "steps":
        for number, group in enumerate(cast("list[object]", leaf.template["steps"])):
            for position, step in enumerate(as_list(group)):
                yield (*leaf.path, "steps", number, position), step
