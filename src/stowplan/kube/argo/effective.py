"""The specification that the controller executes: the object's own, over what it refers to, over defaults.

Source: Argo Workflows 4.0, `workflow/util/merge.go` (JoinWorkflowSpec), `operator.go`
(mergedTemplateDefaultsInto).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from stowplan.kube.argo.merge import WORKFLOW, merged
from stowplan.kube.argo.objects import ArgoObject, Json, as_list, as_mapping, text_of

__all__ = [
    "LEAF_TYPES",
    "TEMPLATE_TYPES",
    "ControllerSettings",
    "effective_spec",
    "template_type",
    "with_defaults",
]

TEMPLATE_TYPES: Final = (
    "container",
    "containerSet",
    "steps",
    "dag",
    "script",
    "resource",
    "data",
    "suspend",
    "http",
    "plugin",
)
"""In the order in which the controller asks for them."""

LEAF_TYPES: Final = frozenset({"container", "containerSet", "script", "resource", "data", "http", "plugin"})
"""Those that are leaves to Argo's rules; suspend is neither leaf nor composite."""


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """What the configuration of the controller (ConfigMap `workflow-controller-configmap`) adds to workflows.

    `executor_resources` are the resources of the containers that Argo adds (`executor.resources`),
    `main_container` the defaults under every main container (`mainContainer`), `workflow_defaults` the
    defaults under every workflow (`workflowDefaults.spec`). `instance_id` labels the pods. `archive_logs` is
    `artifactRepository.archiveLogs`.
    """

    executor_resources: Json = field(default_factory=dict[str, object])
    main_container: Json = field(default_factory=dict[str, object])
    workflow_defaults: Json = field(default_factory=dict[str, object])
    instance_id: str = ""
    archive_logs: bool = False


def template_type(template: Json) -> str:
    """Return the type of a template, empty where it has none."""
    return next((kind for kind in TEMPLATE_TYPES if template.get(kind) is not None), "")


def _has_value(parameter: Json) -> bool:
    return any(parameter.get(key) is not None for key in ("value", "default", "valueFrom"))


def _joined(over: Json, under: Json) -> Json:
    """Return the specification `over` with what it leaves open taken from `under`."""
    own_hooks, other_hooks = as_mapping(over.get("hooks")), as_mapping(under.get("hooks"))
    whole = dict(as_mapping(merged(_without(under, "hooks"), _without(over, "hooks"), WORKFLOW)))
    if own_hooks or other_hooks:
        whole["hooks"] = {**other_hooks, **own_hooks}  # a hook is taken whole
    parameters = as_list(as_mapping(whole.get("arguments")).get("parameters"))
    if parameters:
        # Of value, default and valueFrom only those count that the nearest specification has.
        near, far = (
            {
                text_of(item.get("name")): item
                for item in as_list(as_mapping(spec.get("arguments")).get("parameters"))
                if _has_value(item)
            }
            for spec in (over, under)
        )
        chosen = [
            near.get(name, far.get(name, item)) for item in parameters for name in [text_of(item.get("name"))]
        ]
        whole["arguments"] = {**as_mapping(whole["arguments"]), "parameters": chosen}
    return whole


def _without(spec: Json, key: str) -> Json:
    return {name: value for name, value in spec.items() if name != key}


def effective_spec(own: ArgoObject, referenced: ArgoObject | None, settings: ControllerSettings) -> Json:
    """Return what runs: the specification of `own` over that of `referenced` over the defaults."""
    spec = own.spec
    if referenced is not None:
        spec = _joined(spec, referenced.spec)
        if own.spec.get("suspend") is None:  # a workflow is suspended only where it says so itself
            spec = _without(spec, "suspend")
    if settings.workflow_defaults:
        spec = _joined(spec, settings.workflow_defaults)
    return spec


def with_defaults(template: Json, defaults: Mapping[str, object]) -> Json:
    """Return a template over the workflow's `templateDefaults`, those of other template types left out."""
    if not defaults:
        return template
    own = template_type(template)
    fitting = {key: value for key, value in defaults.items() if key == own or key not in TEMPLATE_TYPES}
    return as_mapping(merged(fitting, template, WORKFLOW))
