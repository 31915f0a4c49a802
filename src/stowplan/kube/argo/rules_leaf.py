"""Argo's rules for the templates that hold no others.

Source: Argo Workflows 4.0, `workflow/validate/validate.go` (validateLeaf), `container_set_template_types.go`.
"""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter
from typing import Final, cast

from stowplan.kube.argo.effective import template_type
from stowplan.kube.argo.objects import Json, as_list, as_mapping, text_of, texts_of
from stowplan.kube.argo.problems import Problems
from stowplan.kube.argo.variables import has_variable

__all__ = ["check_leaf"]

_ACTIONS: Final = ("get", "create", "apply", "delete", "replace", "patch")
_NEED_MANIFEST: Final = ("create", "apply", "replace", "patch")


def check_leaf(template: Json, defaults: Json, path: str, problems: Problems) -> None:
    """Note what is wrong with a leaf `template`; an image may be in the `templateDefaults` of its object."""
    kind = template_type(template)
    if template.get("parallelism") is not None:
        problems.add(
            f"{path}.parallelism", template["parallelism"], "only steps and dag templates have a parallelism"
        )
    _check_times(template, path, problems)
    fields = as_mapping(template.get(kind))
    match kind:
        case "container" | "script":
            if not text_of(fields.get("image") or as_mapping(defaults.get(kind)).get("image")):
                problems.add(f"{path}.{kind}.image", fields.get("image"), "name the image")
            if kind == "container":
                _check_mounts(fields, template, path, problems)
        case "containerSet":
            _check_container_set(template, path, problems)
        case "resource":
            _check_resource(fields, f"{path}.resource", problems)
        case "plugin" if len(fields) != 1:
            problems.add(f"{path}.plugin", template["plugin"], "write one key, the name of the plugin")
        case _:
            pass


def _check_times(template: Json, path: str, problems: Problems) -> None:
    deadline = template.get("activeDeadlineSeconds")
    if deadline is not None and not has_variable(str(deadline)) and not str(deadline).strip().isdigit():
        problems.add(f"{path}.activeDeadlineSeconds", deadline, "write a whole number of seconds")
    timeout = text_of(template.get("timeout"))
    if timeout.lstrip("+-").isdigit():
        problems.add(f"{path}.timeout", timeout, "write the unit as well ('30s')")


def _check_mounts(container: Json, template: Json, path: str, problems: Problems) -> None:
    taken: set[str] = set()
    for number, mount in enumerate(as_list(container.get("volumeMounts"))):
        _take(taken, mount.get("mountPath"), f"{path}.container.volumeMounts[{number}].mountPath", problems)
    for number, artifact in enumerate(as_list(as_mapping(template.get("inputs")).get("artifacts"))):
        _take(taken, artifact.get("path"), f"{path}.inputs.artifacts[{number}].path", problems)


def _take(taken: set[str], place: object, path: str, problems: Problems) -> None:
    text = text_of(place)
    if text in taken:
        problems.add(path, text, "something else is mounted there; choose another path")
    taken.add(text)


def _check_container_set(template: Json, path: str, problems: Problems) -> None:
    here = f"{path}.containerSet"
    containers = as_list(as_mapping(template["containerSet"]).get("containers"))
    if not containers:
        problems.add(f"{here}.containers", containers, "write at least one container")
        return
    order: dict[str, list[str]] = {}
    for number, container in enumerate(containers):
        name = text_of(container.get("name"))
        if not name:
            problems.add(f"{here}.containers[{number}].name", container.get("name"), "write a name")
        elif name in order:
            problems.add(f"{here}.containers[{number}].name", name, "it is taken; names are unique")
        order[name] = texts_of(container.get("dependencies"))
    for number, container in enumerate(containers):
        for place, before in enumerate(texts_of(container.get("dependencies"))):
            if before not in order:
                problems.add(
                    f"{here}.containers[{number}].dependencies[{place}]",
                    before,
                    f"there is no container of that name among {', '.join(order)}",
                )
    try:
        TopologicalSorter(order).prepare()
    except CycleError as error:
        cycle = " → ".join(cast("list[str]", error.args[1])[::-1])
        problems.add(f"{here}.containers", cycle, "the containers wait for each other; remove a dependency")
    passes = (
        as_mapping(template.get(side)).get(key)
        for side, key in (("inputs", "artifacts"), ("outputs", "parameters"), ("outputs", "artifacts"))
    )
    if any(passes) and "main" not in order:
        problems.add(f"{here}.containers", list(order), "name one 'main': inputs and outputs are its own")


def _check_resource(resource: Json, here: str, problems: Problems) -> None:
    action = text_of(resource.get("action"))
    if action not in _ACTIONS and not has_variable(action):
        problems.add(f"{here}.action", resource.get("action"), f"write one of {', '.join(_ACTIONS)}")
    has_text, has_source = bool(resource.get("manifest")), resource.get("manifestFrom") is not None
    if action in _NEED_MANIFEST and has_text == has_source:
        mend = "write either manifest or manifestFrom" + (", not both" if has_text else "")
        problems.add(f"{here}.manifest", resource.get("manifest"), mend)
