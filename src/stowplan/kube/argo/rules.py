"""Argo's rules for a workflow, beyond the types of its fields: those by which its controller would refuse it.

Every template of the object is checked, whether or not the entry point reaches it, and every template that is
referred to. Not checked: whether outputs of other tasks exist where they are used, names of metrics,
places of artifacts.

Source: Argo Workflows 4.0, `workflow/validate/validate.go`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, cast

from stowplan.kube.argo.dag import Dags, DagTasks
from stowplan.kube.argo.effective import LEAF_TYPES, TEMPLATE_TYPES, template_type
from stowplan.kube.argo.objects import ArgoObject, Json, as_list, as_mapping, text_of, texts_of
from stowplan.kube.argo.problems import Problems
from stowplan.kube.argo.resolution import AtRunTime, Base, Resolved, Resolver
from stowplan.kube.argo.retry import POLICIES
from stowplan.kube.argo.rules_leaf import check_leaf
from stowplan.kube.argo.variables import Variables, has_variable, put_in, tags_in

__all__ = ["Rules", "check_names"]

_FIELD_NAME: Final = re.compile(r"[a-zA-Z0-9][-a-zA-Z0-9]{0,127}", re.ASCII)
_PARAMETER_NAME: Final = re.compile(r"[-a-zA-Z0-9_]+", re.ASCII)
_LONGEST_NAME: Final = 63
_LONGEST_CRON_NAME: Final = 52  # the time of the run is appended
_NAME_MEND: Final = "write letters, digits and '-', beginning with a letter or digit, at most 128"
_PARAMETER_MEND: Final = "write letters, digits, '-' and '_'"
_GC: Final = ("", "OnPodCompletion", "OnPodSuccess", "OnWorkflowCompletion", "OnWorkflowSuccess")
_CONCURRENCY: Final = ("", "Allow", "Forbid", "Replace")
_NOT_OF_STEPS: Final = frozenset(
    {*TEMPLATE_TYPES, "depends", "dependencies", "inputs", "outputs", "retryStrategy", "timeout", "failFast"}
    | {
        "parallelism",
        "nodeSelector",
        "affinity",
        "tolerations",
        "podSpecPatch",
        "memoize",
        "daemon",
        "target",
    }
    | {"synchronization", "initContainers", "sidecars", "activeDeadlineSeconds", "schedulerName", "image"}
    | {"value", "valueFrom", "entrypoint"}
)
"""Fields of templates and dag tasks: on steps the controller itself is strict."""
_OUTPUT_SOURCES: Final = ("path", "jqFilter", "jsonPath", "parameter", "expression", "supplied")
_SOURCES: Final[dict[str, tuple[str, ...]]] = {
    "container": ("path",),
    "containerSet": ("path",),
    "script": ("path",),
    "resource": ("jqFilter", "jsonPath"),
    "dag": ("parameter", "expression"),
    "steps": ("parameter", "expression"),
}
_GIVEN: Final = ("configMapKeyRef", "event", "supplied")
_NOT_GIVEN: Final = ("path", "jsonPath", "parameter", "expression")


def check_names(items: Iterable[Json], path: str, problems: Problems, *, is_parameter: bool = False) -> None:
    """Note names that are missing, not unique or not of the allowed form."""
    seen: set[str] = set()
    pattern, mend = (_PARAMETER_NAME, _PARAMETER_MEND) if is_parameter else (_FIELD_NAME, _NAME_MEND)
    for number, item in enumerate(items):
        name = text_of(item.get("name"))
        where = f"{path}[{number}].name"
        if not name:
            problems.add(where, item.get("name"), "write a name")
        elif pattern.fullmatch(name) is None:
            problems.add(where, name, mend)
        elif name in seen:
            problems.add(where, name, "it is taken by another one of the list; names are unique")
        seen.add(name)


class Rules:
    """Checks one object; faults go to `problems`."""

    def __init__(
        self, own: ArgoObject, variables: Variables, resolver: Resolver, dags: Dags, problems: Problems
    ) -> None:
        """Check `own`, whose global `variables` are known; `dags` keeps what is read of its dags."""
        self._own = own
        self._globals = variables
        self._resolver = resolver
        self._dags = dags
        self._problems = problems
        self._checked: set[tuple[str, str]] = set()
        self._inputs: dict[int, tuple[tuple[str, ...], tuple[str, ...]]] = {}

    # ---- the object ----

    def check(self, base: Base) -> None:
        """Check everything; `base` holds the templates of the effective specification."""
        own, spec, path, problems = self._own, base.spec, self._own.spec_path, self._problems
        longest = _LONGEST_CRON_NAME if own.kind == "CronWorkflow" else _LONGEST_NAME
        if len(own.name) > longest:
            problems.add("metadata.name", own.name, f"write at most {longest} characters")
        if own.spec.get("workflowTemplateRef") is not None and as_list(own.spec.get("templates")):
            problems.add(
                f"{path}.templates",
                [item.get("name") for item in as_list(own.spec["templates"])],
                "a workflow with a workflowTemplateRef has no templates of its own; remove either",
            )
        check_names(as_list(own.spec.get("templates")), f"{path}.templates", problems)
        for arguments in (own.spec.get("arguments"), spec.get("arguments")):
            self._check_arguments(as_mapping(arguments), f"{path}.arguments", may_be_open=own.is_template)
        self._check_cron(as_mapping(own.raw.get("spec")))
        if not text_of(spec.get("entrypoint")) and not own.is_template:
            problems.add(f"{path}.entrypoint", spec.get("entrypoint"), "name the template to begin with")
        for key in ("entrypoint", "onExit"):
            name = text_of(spec.get(key))
            called = self._resolver.by_name(name, base, f"{path}.{key}") if name else None
            if called is not None and not own.is_template:
                self._check_call(called, as_mapping(spec.get("arguments")), f"{path}.arguments")
        self._check_hooks(spec, base, path)
        strategy = text_of(as_mapping(spec.get("podGC")).get("strategy"))
        if strategy not in _GC:
            problems.add(f"{path}.podGC.strategy", strategy, f"write one of {', '.join(_GC[1:])}")
        self._check_retry(spec, path)
        for name in base.templates:
            found = self._resolver.by_name(name, base, path)
            if found is not None:
                self._check_template(found)

    def _check_cron(self, spec: Json) -> None:
        problems = self._problems
        if self._own.kind != "CronWorkflow":
            return
        schedules = texts_of(spec.get("schedules"))
        if not schedules:
            problems.add("spec.schedules", spec.get("schedules"), "write at least one schedule ('0 3 * * *')")
        for number, schedule in enumerate(schedules):
            words = schedule.split()
            if words and words[0].startswith(("TZ=", "CRON_TZ=")):
                words = words[1:]
            if len(words) != 5 and not (words and words[0].startswith("@")):
                problems.add(
                    f"spec.schedules[{number}]", schedule, "write five fields ('0 3 * * *') or '@daily'"
                )
        policy = text_of(spec.get("concurrencyPolicy"))
        if policy not in _CONCURRENCY:
            problems.add("spec.concurrencyPolicy", policy, f"write one of {', '.join(_CONCURRENCY[1:])}")
        deadline = spec.get("startingDeadlineSeconds")
        if isinstance(deadline, int) and deadline < 0:
            problems.add("spec.startingDeadlineSeconds", deadline, "write a number of at least 0")

    # ---- arguments and hooks ----

    def _check_arguments(self, arguments: Json, path: str, *, may_be_open: bool = False) -> None:
        problems = self._problems
        parameters, artifacts = as_list(arguments.get("parameters")), as_list(arguments.get("artifacts"))
        check_names(parameters, f"{path}.parameters", problems, is_parameter=True)
        check_names(artifacts, f"{path}.artifacts", problems, is_parameter=True)
        for number, parameter in enumerate(parameters):
            where, source = f"{path}.parameters[{number}]", parameter.get("valueFrom")
            if parameter.get("value") is None and source is None and not may_be_open:
                problems.add(f"{where}.value", None, "write a value, or where it comes from (valueFrom)")
            if source is not None:
                given = as_mapping(source)
                if all(given.get(key) is None for key in _GIVEN) or any(given.get(key) for key in _NOT_GIVEN):
                    problems.add(f"{where}.valueFrom", dict(given), f"write one of {', '.join(_GIVEN)}")
            choices = parameter.get("enum")
            if isinstance(choices, list) and parameter.get("value") not in choices and not may_be_open:
                problems.add(f"{where}.value", parameter.get("value"), f"write one of {choices}")

    def _check_hooks(self, holder: Json, base: Base, path: str) -> None:
        for name, hook in as_mapping(holder.get("hooks")).items():
            fields, where = as_mapping(hook), f"{path}.hooks.{name}"
            if name != "exit" and not text_of(fields.get("expression")):
                self._problems.add(
                    f"{where}.expression", fields.get("expression"), "write when the hook is to run"
                )
            self._check_holder(fields, base, where)

    # ---- templates ----

    def _check_template(self, found: Resolved) -> None:
        key = (found.base.key, found.name or found.path)
        if key in self._checked:
            return
        self._checked.add(key)
        template, path, problems = found.template, found.path, self._problems
        kinds = [kind for kind in TEMPLATE_TYPES if template.get(kind) is not None]
        if len(kinds) != 1:
            problems.add(
                path,
                " and ".join(kinds) or "without a type",
                f"give it one type of {', '.join(TEMPLATE_TYPES)}",
            )
            return
        self._check_inputs_and_outputs(template, path)
        for number, container in enumerate(as_list(template.get("initContainers"))):
            if not text_of(container.get("name")):
                problems.add(f"{path}.initContainers[{number}].name", container.get("name"), "write a name")
        if found.key:  # an inline one is checked with what it is in
            self._check_variables(template, path, frozenset())
        self._check_retry(template, path)
        if template.get("timeout") and kinds[0] not in LEAF_TYPES:
            problems.add(f"{path}.timeout", template["timeout"], f"a {kinds[0]} template has none, remove it")
        match kinds[0]:
            case "steps":
                self._check_composite(template, path)
                self._check_steps(template, found.base, path)
            case "dag":
                self._check_composite(template, path)
                self._check_dag(template, found.base, path)
            case _:
                defaults = as_mapping(found.base.spec.get("templateDefaults"))
                check_leaf(template, defaults, path, problems)

    def _check_variables(self, template: Json, path: str, outer: frozenset[str]) -> None:
        """Note inputs and parameters that are used but not declared; `outer` are those around."""
        declared = {*outer, "inputs.parameters", "workflow.parameters", "workflow.parameters.json"}
        inputs = as_mapping(template.get("inputs"))
        for kind in ("parameters", "artifacts"):
            for item in as_list(inputs.get(kind)):
                name = f"inputs.{kind}.{text_of(item.get('name'))}"
                declared |= {name, f"{name}.path"}
        # What else a dag or steps has (a nodeSelector …) is put in with the inputs of each pod.
        is_composite = template_type(template) in ("dag", "steps")
        own = [template.get("outputs"), as_mapping(template.get("dag")).get("target")]
        used = set(tags_in(own if is_composite else list(template.values())))
        for where, task in _tasks(template):
            used |= tags_in({key: value for key, value in task.items() if key != "inline"})
            if task.get("inline") is not None:
                inline = as_mapping(task["inline"])
                self._check_variables(inline, f"{path}.{where}.inline", frozenset(declared))
        for tag in sorted(used - declared):
            is_own = tag.startswith("inputs.")
            is_global = tag.startswith("workflow.parameters.") and not self._own.is_template
            if is_own or (is_global and tag not in self._globals):
                what = "input of the template" if is_own else "argument of the workflow"
                self._problems.add(path, f"{{{{{tag}}}}}", f"{tag} is used but is no {what}; declare it")

    def _check_retry(self, holder: Json, path: str) -> None:
        policy = text_of(as_mapping(holder.get("retryStrategy")).get("retryPolicy"))
        if policy and policy not in POLICIES:
            self._problems.add(
                f"{path}.retryStrategy.retryPolicy", policy, f"write one of {', '.join(POLICIES)}"
            )

    def _check_inputs_and_outputs(self, template: Json, path: str) -> None:
        problems = self._problems
        is_leaf = template_type(template) in LEAF_TYPES
        for side in ("inputs", "outputs"):
            declared = as_mapping(template.get(side))
            parameters, artifacts = as_list(declared.get("parameters")), as_list(declared.get("artifacts"))
            check_names(parameters, f"{path}.{side}.parameters", problems, is_parameter=True)
            check_names(artifacts, f"{path}.{side}.artifacts", problems, is_parameter=True)
            for number, artifact in enumerate(artifacts):
                where = f"{path}.{side}.artifacts[{number}]"
                if bool(artifact.get("path")) != is_leaf:
                    mend = (
                        "write where it is in the container"
                        if is_leaf
                        else "only a template with a pod has it"
                    )
                    problems.add(f"{where}.path", artifact.get("path"), mend)
                if side == "inputs" and artifact.get("from"):
                    problems.add(
                        f"{where}.from", artifact["from"], "an input does not say where it comes from"
                    )
            if side == "outputs":
                needed = _SOURCES.get(template_type(template))
                for number, parameter in enumerate(parameters):
                    self._check_output(parameter, needed, f"{path}.outputs.parameters[{number}]")

    def _check_output(self, parameter: Json, needed: tuple[str, ...] | None, path: str) -> None:
        source, value = parameter.get("valueFrom"), parameter.get("value")
        if source is not None and value is not None:
            self._problems.add(path, value, "write either value or valueFrom, not both")
        elif source is None and value is None:
            self._problems.add(path, None, "write where its value comes from (valueFrom)")
        elif source is not None:
            given = as_mapping(source)
            named = [key for key in _OUTPUT_SOURCES if given.get(key) not in (None, "")]
            if len(named) != 1 or (needed is not None and named[0] not in needed):
                mend = f"write one of {', '.join(needed or _OUTPUT_SOURCES)}"
                self._problems.add(f"{path}.valueFrom", dict(given), mend)

    def _check_composite(self, template: Json, path: str) -> None:
        if template.get("activeDeadlineSeconds") is not None:
            self._problems.add(
                f"{path}.activeDeadlineSeconds",
                template["activeDeadlineSeconds"],
                "only a template with a pod has a deadline, remove it",
            )

    # ---- steps and dags ----

    def _check_steps(self, template: Json, base: Base, path: str) -> None:
        names: set[str] = set()
        for number, group in enumerate(cast("list[object]", template["steps"])):
            for place, step in enumerate(as_list(group)):
                where = f"{path}.steps[{number}][{place}]"
                for key in _NOT_OF_STEPS & step.keys():
                    mend = (
                        "a step has no such field, and the controller cannot decode the workflow; remove it"
                    )
                    self._problems.add(f"{where}.{key}", step[key], mend)
                name = text_of(step.get("name"))
                if not name:
                    self._problems.add(f"{where}.name", step.get("name"), "write a name")
                elif _FIELD_NAME.fullmatch(name) is None:
                    self._problems.add(f"{where}.name", name, _NAME_MEND)
                elif name in names:
                    self._problems.add(f"{where}.name", name, "it is taken by another step; names are unique")
                names.add(name)
                self._check_task(step, base, where)

    def _check_dag(self, template: Json, base: Base, path: str) -> None:
        tasks = as_list(as_mapping(template["dag"]).get("tasks"))
        if not tasks:
            self._problems.add(f"{path}.dag.tasks", tasks, "write at least one task")
            return
        check_names(tasks, f"{path}.dag.tasks", self._problems)
        dag = self._dags.read(template, path)
        for number, task in enumerate(tasks):
            where = f"{path}.dag.tasks[{number}]"
            self._check_task(task, base, where)
            self._check_sources(task, dag, where)

    def _check_sources(self, task: Json, dag: DagTasks, path: str) -> None:
        """Note arguments that come from a task which is not waited for."""
        arguments = as_mapping(task.get("arguments"))
        for key, field in (("parameters", "value"), ("artifacts", "from")):
            for number, item in enumerate(as_list(arguments.get(key))):
                value = item.get(field)
                if not isinstance(value, str) or not value.startswith("{{tasks."):
                    continue
                producer = value.split(".")[1]
                if not dag.waits_for(text_of(task.get("name")), producer):
                    self._problems.add(
                        f"{path}.arguments.{key}[{number}].{field}",
                        value,
                        f"the task does not wait for {producer!r}; add it to depends or dependencies",
                    )

    def _check_task(self, task: Json, base: Base, path: str) -> None:
        given = [key for key in ("withItems", "withParam", "withSequence") if task.get(key)]
        if len(given) > 1:
            self._problems.add(f"{path}.{given[1]}", task[given[1]], f"it has {given[0]} as well; keep one")
        sequence = as_mapping(task.get("withSequence"))
        if sequence.get("count") is not None and sequence.get("end") is not None:
            self._problems.add(f"{path}.withSequence.end", sequence["end"], "write either count or end")
        arguments = as_mapping(task.get("arguments"))
        self._check_arguments(arguments, f"{path}.arguments")
        self._check_hooks(task, base, path)
        if text_of(task.get("onExit")):
            self._resolver.by_name(text_of(task["onExit"]), base, f"{path}.onExit")
        found = self._check_holder(task, base, path)
        if found is not None:
            self._check_call(found, arguments, f"{path}.arguments")

    def _check_holder(self, holder: Json, base: Base, path: str) -> Resolved | None:
        if has_variable(text_of(holder.get("template"))):
            holder = {**holder, "template": put_in(holder["template"], self._globals)}
        found = self._resolver.resolve(holder, base, path)
        if found is None or isinstance(found, AtRunTime):
            return None
        self._check_template(found)
        return found

    def _check_call(self, found: Resolved, arguments: Json, path: str) -> None:
        """Note the inputs of a template that a call of it leaves open."""
        key = id(found.template)
        if key not in self._inputs:
            self._inputs[key] = _required(as_mapping(found.template.get("inputs")))
        for kind, needed in zip(("parameters", "artifacts"), self._inputs[key], strict=True):
            if needed:
                given = {text_of(item.get("name")) for item in as_list(arguments.get(kind))}
                for name in needed:
                    if name not in given:
                        self._problems.add(
                            f"{path}.{kind}",
                            sorted(given),
                            f"template {found.name or 'inline'!r} needs the input {name!r}; pass it",
                        )


def _tasks(template: Json) -> Iterator[tuple[str, Json]]:
    """Yield the tasks or steps of a template, each with its path."""
    for number, task in enumerate(as_list(as_mapping(template.get("dag")).get("tasks"))):
        yield f"dag.tasks[{number}]", task
    for number, group in enumerate(cast("list[object]", template.get("steps") or [])):
        for place, step in enumerate(as_list(group)):
            yield f"steps[{number}][{place}]", step


def _required(inputs: Json) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the parameters and artifacts that a call must pass."""
    parameters = tuple(
        text_of(item.get("name"))
        for item in as_list(inputs.get("parameters"))
        if all(item.get(key) is None for key in ("value", "default"))
        and as_mapping(item.get("valueFrom")).get("configMapKeyRef") is None
    )
    artifacts = tuple(
        text_of(item.get("name"))
        for item in as_list(inputs.get("artifacts"))
        if item.get("optional") is not True and not _has_place(item)
    )
    return parameters, artifacts


_PLACES: Final = ("s3", "git", "http", "artifactory", "hdfs", "raw", "oss", "gcs", "azure", "plugin")


def _has_place(artifact: Mapping[str, object]) -> bool:
    return any(artifact.get(key) is not None for key in _PLACES)
