"""The pod that the controller makes of a leaf template, and what of it decides where it may run.

The skeleton of the pod is put together once for each template and place it is called from, with its variables
still in it; each call then puts its values in. What is left with a variable is taken out of the shape and
told.

Source: Argo Workflows 4.0, `workflow/controller/workflowpod.go` (createWorkflowPod, addSchedulingConstraints,
processPodSpecPatch), `agent.go`; 4.1 for `podResources` and `resourceClaims`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final, cast

import yaml

from stowplan.core.domain import PodShape
from stowplan.kube.argo.effective import ControllerSettings, template_type
from stowplan.kube.argo.graph import PodPlan, UnknownField
from stowplan.kube.argo.merge import CONTAINER, POD_SPEC, merged
from stowplan.kube.argo.objects import Json, as_list, as_mapping, text_of, texts_of
from stowplan.kube.argo.variables import Variables, has_variable, put_in, tags_in, variables_in
from stowplan.kube.manifest.cursor import Cursor
from stowplan.kube.manifest.pods import read_pod_shape

__all__ = ["PatchError", "PodMaker", "Skeleton"]

_LABEL: Final = "workflows.argoproj.io/"
_SILENT: Final = frozenset(
    {"command", "args", "env", "envFrom", "volumeMounts", "livenessProbe", "readinessProbe", "startupProbe"}
    | {"lifecycle", "source", "dependencies", "mirrorVolumeMounts"}
)
"""Fields of containers that say nothing about placement."""
_WHOLE: Final = frozenset({"nodeAffinity", "podAffinity", "podAntiAffinity", "labelSelector"})
"""Taken out whole: a part of them means something else."""
_DESCENDED: Final = frozenset({"containers", "initContainers"})
_AGENT_RESOURCES: Final[Json] = {
    "requests": {"cpu": "10m", "memory": "64M"},
    "limits": {"cpu": "100m", "memory": "256M"},
}


class PatchError(ValueError):
    """A `podSpecPatch` that is no mapping in YAML."""


@lru_cache(maxsize=1024)
def _parsed_patch(text: str) -> Json:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        has_alias = any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=loader))
        value: object = None if has_alias else _text_keys(yaml.load(text, Loader=loader))  # noqa: S506  (both are safe)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())[:120]
        raise PatchError(f"write a part of a pod's spec in YAML or JSON ({reason})") from error
    if has_alias:  # one within another within … is small to write and endless to walk through
        raise PatchError("write out what its aliases (*name) stand for")
    if not isinstance(value, Mapping):
        raise PatchError("write a part of a pod's spec, a mapping in YAML or JSON")
    return cast("Json", value)


def _text_key(key: object) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


def _text_keys(value: object) -> object:
    """Write every key as text, as Kubernetes does when it turns YAML into JSON: `no:` becomes `false`."""
    if isinstance(value, Mapping):
        pairs = cast("Mapping[object, object]", value).items()
        return {_text_key(key): _text_keys(item) for key, item in pairs}
    if isinstance(value, list):
        return [_text_keys(item) for item in cast("list[object]", value)]
    return value


@dataclasses.dataclass(frozen=True, slots=True)
class Skeleton:
    """A pod with its variables still in it; `patches` are applied in order. `tags` are all its variables."""

    pod: Json
    patches: tuple[str, ...]
    tags: frozenset[str]
    inner_order: tuple[tuple[str, str], ...] = ()


class PodMaker:
    """Makes the pods of one workflow."""

    def __init__(self, name: str, namespace: str, spec: Json, settings: ControllerSettings) -> None:
        """Make pods for the workflow `name` (empty: not known yet) that runs the effective `spec`."""
        self._name = name
        self._namespace = namespace or "default"
        self._spec = spec
        self._settings = settings
        self._plans: dict[tuple[object, ...], PodPlan] = {}
        claims = (
            text_of(as_mapping(claim.get("metadata")).get("name"))
            for claim in as_list(spec.get("volumeClaimTemplates"))
        )
        self._claims = [
            {"name": claim, "persistentVolumeClaim": {"claimName": f"{name or '{{workflow.name}}'}-{claim}"}}
            for claim in claims
        ]

    # ---- skeletons ----

    def skeleton(self, template: Json, boundary: Json | None, *, on_exit: bool) -> Skeleton:
        """Return the pod of a leaf `template` (defaults put under it) that the template `boundary` calls."""
        main = [self._with_main_defaults(item) for item in self._main_containers(template)]
        spec: dict[str, object] = {
            "containers": [
                *self._waiting_container(template),
                *main,
                *(self._plain(item) for item in as_list(template.get("sidecars"))),
                *self._plugins(template, "outputs", "artifact-plugin-"),
            ],
            "initContainers": [
                self._argo_container("init"),
                *self._plugins(template, "inputs", "artifact-plugin-init-"),
                *(self._plain(item) for item in as_list(template.get("initContainers"))),
            ],
            "volumes": self._volumes(template),
            **self._constraints(template, boundary),
        }
        if template.get("resourceClaims") is not None or self._spec.get("resourceClaims") is not None:
            spec["resourceClaims"] = template.get("resourceClaims") or self._spec.get("resourceClaims")
        if template.get("podResources") is not None or self._spec.get("podResources") is not None:
            spec["resources"] = template.get("podResources") or self._spec.get("podResources")
        metadata = as_mapping(template.get("metadata"))
        pod = {"metadata": {"labels": self._labels(metadata, on_exit=on_exit)}, "spec": spec}
        patches = tuple(
            text for text in (text_of(item.get("podSpecPatch")) for item in (self._spec, template)) if text
        )
        order = tuple(
            (before, text_of(item.get("name")))
            for item in as_list(as_mapping(template.get("containerSet")).get("containers"))
            for before in texts_of(item.get("dependencies"))
        )
        return Skeleton(pod, patches, tags_in(pod) | tags_in(list(patches)), order)

    def agent(self, variables: Variables) -> PodPlan:
        """Return the pod that runs the workflow's http and plugin templates."""
        container = {"resources": _AGENT_RESOURCES}
        spec = {
            "containers": [{"name": "main", **container}],
            "initContainers": [{"name": "init", **container}],
            **self._constraints({}, None),
        }
        labels = {**self._labels({}, on_exit=False), f"{_LABEL}component": "agent"}
        patch = text_of(self._spec.get("podSpecPatch"))
        pod = {"metadata": {"labels": labels}, "spec": spec}
        patches = (patch,) if patch else ()
        return self.plan(Skeleton(pod, patches, tags_in(pod) | tags_in(patch)), variables, "agent")

    def _labels(self, metadata: Json, *, on_exit: bool) -> Json:
        labels: dict[str, object] = {f"{_LABEL}completed": "false"}
        if self._name:
            labels[f"{_LABEL}workflow"] = self._name
        if on_exit:
            labels[f"{_LABEL}on-exit"] = "true"
        if self._settings.instance_id:
            labels[f"{_LABEL}controller-instanceid"] = self._settings.instance_id
        shared = as_mapping(as_mapping(self._spec.get("podMetadata")).get("labels"))
        return {**labels, **shared, **as_mapping(metadata.get("labels"))}

    def _constraints(self, template: Json, boundary: Json | None) -> dict[str, object]:
        """Return the fields that say where the pod may run: the nearest value, taken whole."""
        found: dict[str, object] = {}
        for key in ("nodeSelector", "affinity", "tolerations"):
            for place in (template, boundary or {}, self._spec):
                if place.get(key) or (key == "affinity" and place.get(key) is not None):
                    found[key] = place[key]
                    break
        for key, workflow_key in (
            ("schedulerName", "schedulerName"),
            ("priorityClassName", "podPriorityClassName"),
        ):
            value = template.get(key) or self._spec.get(workflow_key)
            if value:
                found[key] = value
        if self._spec.get("hostNetwork") is not None:
            found["hostNetwork"] = self._spec["hostNetwork"]
        return found

    # ---- containers ----

    @staticmethod
    def _plain(container: Json) -> Json:
        plain = {key: value for key, value in container.items() if key not in _SILENT}
        binding = [item for item in as_list(container.get("volumeMounts")) if item.get("bindMountOptions")]
        return {**plain, "volumeMounts": binding} if binding else plain  # needs a feature of the node

    def _argo_container(self, name: str) -> Json:
        return {"name": name, "resources": self._settings.executor_resources}

    def _with_main_defaults(self, container: Json) -> Json:
        defaults = self._settings.main_container
        return as_mapping(merged(defaults, container, CONTAINER)) if defaults else container

    def _main_containers(self, template: Json) -> Iterator[Json]:
        match template_type(template):
            case "containerSet":
                for item in as_list(as_mapping(template["containerSet"]).get("containers")):
                    yield {**self._plain(item), "name": item.get("name") or "main"}
            case "container" | "script" as kind:
                yield {**self._plain(as_mapping(template[kind])), "name": "main"}
            case _:
                yield self._argo_container("main")

    def _waiting_container(self, template: Json) -> Iterator[Json]:
        """Yield the container that waits for the main one; data and most resource templates have none."""
        kind = template_type(template)
        saves_logs = as_mapping(template.get("archiveLocation")).get(
            "archiveLogs", self._spec.get("archiveLogs")
        )
        if saves_logs is None:
            saves_logs = self._settings.archive_logs
        if kind != "data" and (kind != "resource" or saves_logs is True):
            yield self._argo_container("wait")

    def _plugins(self, template: Json, side: str, prefix: str) -> Iterator[Json]:
        """Yield a container for each artifact plugin that inputs or outputs name."""
        artifacts = as_list(as_mapping(template.get(side)).get("artifacts"))
        names = (text_of(as_mapping(artifact.get("plugin")).get("name")) for artifact in artifacts)
        for name in dict.fromkeys(name for name in names if name):
            yield self._argo_container(f"{prefix}{name}")

    def _volumes(self, template: Json) -> list[Json]:
        """Return the template's volumes, and those of the workflow that its containers mount."""
        kind = template_type(template)
        mounting: list[Json] = [
            as_mapping(template.get(kind)) if kind in ("container", "script", "containerSet") else {},
            *as_list(as_mapping(template.get("containerSet")).get("containers")),
            *as_list(template.get("initContainers")),
            *as_list(template.get("sidecars")),
        ]
        mounted = {
            text_of(mount.get("name")) for item in mounting for mount in as_list(item.get("volumeMounts"))
        }
        own = as_list(template.get("volumes"))
        taken = {text_of(volume.get("name")) for volume in own}
        shared: list[Json] = []
        for volume in [*as_list(self._spec.get("volumes")), *self._claims]:
            name = text_of(volume.get("name"))
            if name in mounted and name not in taken:
                taken.add(name)
                shared.append(volume)
        return [*own, *shared]

    # ---- plans ----

    def plan(self, skeleton: Skeleton, variables: Variables, template: str) -> PodPlan:
        """Return the pod with the known values put in; `template` is the key of its template.

        Raises:
            InvalidObject: the pod has a field that cannot be used.
            PatchError: a patch is not a mapping.
            InvalidWorkflow: a text grows beyond all measure.
        """
        values = tuple((tag, variables.get(tag)) for tag in sorted(skeleton.tags))
        # Expressions and nested tags may use any variable: such pods are made anew for each call.
        is_simple = not any(tag.startswith("=") or "{{" in tag for tag in skeleton.tags)
        key = (id(skeleton), template, values)
        if is_simple and key in self._plans:
            return self._plans[key]
        plan = self._plan(skeleton, variables, template)
        if is_simple:
            self._plans[key] = plan
        return plan

    def _plan(self, skeleton: Skeleton, variables: Variables, template: str) -> PodPlan:
        pod = as_mapping(put_in(skeleton.pod, variables)) if skeleton.tags else skeleton.pod
        unknown: list[UnknownField] = []
        spec: object = pod["spec"]
        for patch in skeleton.patches:
            text = cast("str", put_in(patch, variables))
            if has_variable(text):
                unknown.append(UnknownField("podSpecPatch", variables_in(text)))
            else:
                spec = merged(spec, _parsed_patch(text), POD_SPEC)
        known = _known({"metadata": pod["metadata"], "spec": spec}, "", unknown)
        shape = self._shape(as_mapping(known), template)
        fields = as_mapping(as_mapping(known).get("spec"))
        return PodPlan(
            shape=shape,
            priority_class=text_of(fields.get("priorityClassName")),
            unknown=tuple(unknown),
            containers=tuple(
                text_of(item.get("name"))
                for key in ("initContainers", "containers")
                for item in as_list(fields.get(key))
            ),
            inner_order=skeleton.inner_order,
        )

    def _shape(self, pod: Json, template: str) -> PodShape:
        cursor = Cursor(pod, f"the pod of template {template!r}")
        shape = read_pod_shape(self._namespace, self._name or template, cursor)
        return dataclasses.replace(shape, template=template)


def _known(value: object, path: str, unknown: list[UnknownField]) -> object:
    """Return a pod without the parts that have a variable left, which are noted."""
    if isinstance(value, Mapping):
        kept: dict[str, object] = {}
        for key, item in cast("Mapping[str, object]", value).items():
            here = f"{path}.{key}" if path else key
            left = tags_in(key) or (
                tags_in(item) if key in _WHOLE or isinstance(item, str) else frozenset[str]()
            )
            if left:
                unknown.append(UnknownField(here, tuple(sorted(left))))
            else:
                kept[key] = _known(item, here, unknown)
        return kept
    if isinstance(value, list):
        is_descended = path.rpartition(".")[2] in _DESCENDED
        items: list[object] = []
        for number, item in enumerate(cast("list[object]", value)):
            here = f"{path}[{number}]"
            left = frozenset[str]() if is_descended else tags_in(item)
            if left:
                unknown.append(UnknownField(here, tuple(sorted(left))))
            else:
                items.append(_known(item, here, unknown) if is_descended else item)
        return items
    return value
