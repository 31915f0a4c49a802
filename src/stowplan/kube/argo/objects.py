"""Argo objects as they are: the raw mapping, what it is, and the workflow specification in it.

The raw object is kept and never written to, so that whoever patches it loses no field that this version of
ours does not know. Types are checked when an object is read (`fields`), so that the modules that follow need
not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol, cast

from stowplan.errors import InvalidObject
from stowplan.kube.argo.fields import CRON_WORKFLOW_SPEC, WORKFLOW_SPEC, check_fields
from stowplan.kube.argo.problems import Problems

__all__ = [
    "ArgoObject",
    "Json",
    "Shelf",
    "TemplateSource",
    "as_list",
    "as_mapping",
    "is_argo_object",
    "open_object",
    "text_of",
    "texts_of",
]

Json = Mapping[str, object]
"""A mapping as a YAML or JSON parser returns it."""

_GROUP: Final = "argoproj.io/"
_SPECS: Final = {
    "Workflow": ("spec",),
    "WorkflowTemplate": ("spec",),
    "ClusterWorkflowTemplate": ("spec",),
    "CronWorkflow": ("spec", "workflowSpec"),
}
_EMPTY: Final[Json] = {}


def as_mapping(value: object) -> Json:
    """Return a mapping whose type has been checked; of an absent one, the empty one."""
    return cast("Json", value) if isinstance(value, Mapping) else _EMPTY


def as_list(value: object) -> list[Json]:
    """Return a list of mappings whose type has been checked; of an absent one, the empty one."""
    return cast("list[Json]", value) if isinstance(value, list) else []


def text_of(value: object) -> str:
    """Return a text whose type has been checked; of an absent one, the empty one."""
    return value if isinstance(value, str) else ""


def texts_of(value: object) -> list[str]:
    """Return a list of texts whose type has been checked; null in it is an empty text, as Go decodes it."""
    return [text_of(item) for item in cast("list[object]", value)] if isinstance(value, list) else []


@dataclass(frozen=True, slots=True)
class ArgoObject:
    """A Workflow, WorkflowTemplate, ClusterWorkflowTemplate or CronWorkflow.

    `spec` is the specification of the workflow in it and `spec_path` where it stands. `name` is empty for a
    workflow that gets its name when it is created (`generate_name` then begins it).
    """

    kind: str
    name: str
    generate_name: str
    namespace: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    spec: Json
    spec_path: str
    raw: Json

    @property
    def is_template(self) -> bool:
        """Whether workflows take templates from this object."""
        return self.kind.endswith("WorkflowTemplate")

    @property
    def title(self) -> str:
        """What errors call the object."""
        name = self.name or f"{self.generate_name}…" if self.generate_name else self.name or "without a name"
        return f"{self.kind} {self.namespace}/{name}" if self.namespace else f"{self.kind} {name}"

    def templates(self) -> dict[str, Json]:
        """Return the templates by name."""
        return {text_of(template.get("name")): template for template in as_list(self.spec.get("templates"))}


class TemplateSource(Protocol):
    """Hands out the templates that workflows refer to; None where there is none of that name."""

    def workflow_template(self, namespace: str, name: str) -> ArgoObject | None:
        """Return the WorkflowTemplate of that name."""
        ...

    def cluster_workflow_template(self, name: str) -> ArgoObject | None:
        """Return the ClusterWorkflowTemplate of that name."""
        ...


class Shelf:
    """A TemplateSource over objects in hand. Templates without a namespace are found from every one."""

    def __init__(self, objects: Iterable[ArgoObject] = ()) -> None:
        """Keep the templates among `objects`."""
        self._local: dict[tuple[str, str], ArgoObject] = {}
        self._cluster: dict[str, ArgoObject] = {}
        for item in objects:
            if item.kind == "WorkflowTemplate":
                self._local[item.namespace, item.name] = item
            elif item.kind == "ClusterWorkflowTemplate":
                self._cluster[item.name] = item

    def workflow_template(self, namespace: str, name: str) -> ArgoObject | None:
        """Return the WorkflowTemplate of that name in that namespace."""
        return self._local.get((namespace, name)) or self._local.get(("", name))

    def cluster_workflow_template(self, name: str) -> ArgoObject | None:
        """Return the ClusterWorkflowTemplate of that name."""
        return self._cluster.get(name)


def is_argo_object(raw: Json) -> bool:
    """Tell whether `open_object` reads objects of this kind and group."""
    return text_of(raw.get("apiVersion")).startswith(_GROUP) and text_of(raw.get("kind")) in _SPECS


def _labels(metadata: Json, key: str, problems: Problems) -> Mapping[str, str]:
    _note_no_mapping(metadata.get(key), f"metadata.{key}", problems)
    found: dict[str, str] = {}
    for name, text in as_mapping(metadata.get(key)).items():
        if isinstance(text, str):
            found[name] = text
        else:
            problems.add(
                f"metadata.{key}.{name}", text, "write text; quote what YAML reads as something else"
            )
    return found


def _note_no_mapping(value: object, path: str, problems: Problems) -> None:
    if value is not None and not isinstance(value, Mapping):
        problems.add(path, value, "write a mapping")


def _metadata_text(metadata: Json, key: str, problems: Problems) -> str:
    value = metadata.get(key)
    if value is not None and not isinstance(value, str):
        problems.add(f"metadata.{key}", value, "write text; quote what YAML reads as something else")
    return text_of(value)


def open_object(raw: Json) -> ArgoObject:
    """Take a parsed manifest and check the type of every field that Argo's controller decodes.

    Raises:
        InvalidObject: it is no Workflow, WorkflowTemplate, ClusterWorkflowTemplate or CronWorkflow.
        MalformedWorkflow: fields have the wrong type; all of them are told.
    """
    if not is_argo_object(raw):
        raise InvalidObject(
            f"an object of kind {raw.get('kind')!r} and apiVersion {raw.get('apiVersion')!r} is not one of "
            f"{', '.join(_SPECS)} of {_GROUP}v1alpha1"
        )
    kind = cast("str", raw["kind"])
    problems = Problems(kind)
    _note_no_mapping(raw.get("metadata"), "metadata", problems)
    metadata = as_mapping(raw.get("metadata"))
    expected = CRON_WORKFLOW_SPEC if kind == "CronWorkflow" else WORKFLOW_SPEC
    try:
        check_fields(raw.get("spec"), expected, "spec", problems)
    except RecursionError:
        problems.add("spec", "nested too deep", "write templates of their own instead of inline ones")
    spec: object = raw
    for key in _SPECS[kind]:
        spec = as_mapping(spec).get(key)
    if spec is None:
        problems.add(".".join(_SPECS[kind]), spec, "write the workflow's specification")
    opened = ArgoObject(
        kind=kind,
        name=_metadata_text(metadata, "name", problems),
        generate_name=_metadata_text(metadata, "generateName", problems),
        namespace=""
        if kind == "ClusterWorkflowTemplate"
        else _metadata_text(metadata, "namespace", problems),
        labels=_labels(metadata, "labels", problems),
        annotations=_labels(metadata, "annotations", problems),
        spec=as_mapping(spec),
        spec_path=".".join(_SPECS[kind]),
        raw=raw,
    )
    problems.owner = opened.title
    problems.raise_any()
    return opened
