"""The tasks of a `dag` template: who waits for whom, and on which condition.

Source: Argo Workflows 4.0, `workflow/common/ancestry.go`, `workflow/validate/validate.go` (validateDAG),
`workflow/controller/dag.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from stowplan.kube.argo.depends import (
    Depends,
    DependsError,
    Result,
    Results,
    dependencies_as_depends,
    parse_depends,
)
from stowplan.kube.argo.objects import Json, as_list, as_mapping, text_of, texts_of
from stowplan.kube.argo.problems import Problems
from stowplan.kube.argo.variables import has_variable

__all__ = ["DagTasks", "Dags", "continued", "is_expanded"]

_SHOWN: Final = 8  # names of a cycle in an error before "…"


def continued(task: Json) -> Results:
    """Return the failures of a task that those who wait for it accept."""
    fields = as_mapping(task.get("continueOn"))
    return frozenset(
        result
        for key, result in (("failed", Result.FAILED), ("error", Result.ERRORED))
        if fields.get(key) is True
    )


@dataclass(frozen=True, slots=True)
class DagTasks:
    """Tasks by name, in an order in which those waited for come first.

    `depends` has no entry for tasks that wait for nothing.
    """

    tasks: Mapping[str, Json]
    positions: Mapping[str, int]
    depends: Mapping[str, Depends]
    order: tuple[str, ...]

    def before(self, name: str) -> tuple[str, ...]:
        """Return the tasks that a task waits for."""
        depends = self.depends.get(name)
        return depends.tasks if depends is not None else ()

    def waits_for(self, name: str, other: str) -> bool:
        """Tell whether a task waits for another one, directly or through others."""
        seen: set[str] = set()
        open_names = list(self.before(name))
        if other in open_names:
            return True
        while open_names:
            one = open_names.pop()
            if one == other:
                return True
            if one not in seen:
                seen.add(one)
                open_names.extend(self.before(one))
        return False

    def targets(self, target: str) -> tuple[str, ...]:
        """Return the tasks that the dag is done with: those named, or those that no other waits for."""
        if target and not has_variable(target):
            return tuple(name for name in target.split(" ") if name in self.tasks)
        awaited = {other for name in self.tasks for other in self.before(name)}
        return tuple(name for name in self.tasks if name not in awaited)

    def reached(self, targets: tuple[str, ...]) -> frozenset[str]:
        """Return the tasks that are run: the targets and all before them."""
        found = set(targets)
        open_names = list(targets)
        while open_names:
            for one in self.before(open_names.pop()):
                if one not in found:
                    found.add(one)
                    open_names.append(one)
        return frozenset(found)


def _depends_of(
    tasks: Mapping[str, Json], positions: Mapping[str, int], path: str, problems: Problems
) -> dict[str, Depends]:
    """Read what each task waits for; what cannot be read, or names no task, is noted and left out."""
    accepted = {name: results for name, task in tasks.items() if (results := continued(task))}
    uses_depends = any(task.get("depends") for task in tasks.values())
    found: dict[str, Depends] = {}
    parsed: dict[str, Depends] = {}  # tasks side by side often wait for the same
    for name, task in tasks.items():
        where = f"{path}.dag.tasks[{positions[name]}]"
        text, listed = text_of(task.get("depends")), tuple(texts_of(task.get("dependencies")))
        if uses_depends and listed:
            problems.add(
                f"{where}.dependencies",
                list(listed),
                "other tasks of the dag use depends; write either depends or dependencies in all of them",
            )
        if uses_depends and task.get("continueOn") is not None:
            problems.add(
                f"{where}.continueOn",
                task["continueOn"],
                f"the dag uses depends; there write {name}.Failed or {name}.Errored instead",
            )
        if (uses_depends or listed) and name[:1].isdigit():
            problems.add(f"{where}.name", name, "begin it with a letter: depends and dependencies need that")
        if text:
            try:
                depends = parsed.get(text) or parsed.setdefault(text, parse_depends(text, accepted))
            except DependsError as error:
                problems.add(f"{where}.depends", text, str(error))
                continue
        elif listed:
            depends = dependencies_as_depends(listed, accepted)
        else:
            continue
        field = "depends" if text else "dependencies"
        if _names_are_known(depends, name, tasks, f"{where}.{field}", problems):
            found[name] = depends
    return found


def _names_are_known(
    depends: Depends, name: str, tasks: Mapping[str, Json], path: str, problems: Problems
) -> bool:
    is_known = True
    for other in depends.tasks:
        if other == name:
            problems.add(path, depends.text, "the task waits for itself; remove its name")
            is_known = False
        elif other not in tasks:
            problems.add(
                path, depends.text, f"there is no task {other!r} in the dag; add it or remove its name"
            )
            is_known = False
        elif other in depends.of_items and not is_expanded(tasks[other]):
            problems.add(
                path,
                depends.text,
                f"{other!r} has no items to ask AnySucceeded or AllFailed of; ask for Succeeded or Failed",
            )
    return is_known


def is_expanded(task: Json) -> bool:
    """Tell whether a task fans out."""
    return bool(task.get("withItems") or task.get("withParam")) or task.get("withSequence") is not None


def _sorted(before: Mapping[str, tuple[str, ...]]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names so that those waited for come first, and the names of a cycle if there is one."""
    waiting = {name: len(others) for name, others in before.items()}
    after: dict[str, list[str]] = {name: [] for name in before}
    for name, others in before.items():
        for other in others:
            after[other].append(name)
    order = [name for name, count in waiting.items() if count == 0]
    for name in order:
        for follower in after[name]:
            waiting[follower] -= 1
            if waiting[follower] == 0:
                order.append(follower)
    if len(order) == len(before):
        return tuple(order), ()
    # Each name that still waits has another such before it: walking up must meet itself.
    name = next(name for name, count in waiting.items() if count > 0)
    trail: dict[str, None] = {}
    while name not in trail:
        trail[name] = None
        name = next(other for other in before[name] if waiting[other] > 0)
    walked = list(trail)
    return tuple(order), tuple(reversed(walked[walked.index(name) :]))


def _read_dag(template: Json, path: str, problems: Problems) -> DagTasks:
    """Read the tasks of a dag `template` that stands at `path`; what is wrong goes to `problems`.

    Where there are problems, what is returned lacks the edges that cannot be used.
    """
    dag = as_mapping(template["dag"])
    tasks: dict[str, Json] = {}
    positions: dict[str, int] = {}
    for number, task in enumerate(as_list(dag.get("tasks"))):
        name = text_of(task.get("name"))
        tasks.setdefault(name, task)
        positions.setdefault(name, number)
    depends = _depends_of(tasks, positions, path, problems)
    before = {name: depends[name].tasks if name in depends else () for name in tasks}
    order, cycle = _sorted(before)
    if cycle:
        shown = " → ".join(cycle[:_SHOWN]) + (" → …" if len(cycle) > _SHOWN else f" → {cycle[0]}")
        problems.add(f"{path}.dag.tasks", shown, "the tasks wait for each other; remove a dependency")
    target = text_of(dag.get("target"))
    if not has_variable(target):
        for name in target.split(" ") if target else ():
            if name not in tasks:
                problems.add(f"{path}.dag.target", target, f"there is no task {name!r} in the dag")
    return DagTasks(tasks, positions, depends, order)


class Dags:
    """Reads dag templates once each."""

    def __init__(self, problems: Problems) -> None:
        """Note in `problems` what is wrong with them."""
        self._problems = problems
        self._read: dict[int, tuple[Json, DagTasks]] = {}  # by identity; the values hold on to the keys

    def read(self, template: Json, path: str) -> DagTasks:
        """Return the tasks of the dag of a `template` that stands at `path`."""
        dag = as_mapping(template["dag"])
        if id(dag) not in self._read:
            self._read[id(dag)] = (dag, _read_dag(template, path, self._problems))
        return self._read[id(dag)][1]
