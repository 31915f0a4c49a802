"""Finding the template that a step, task, hook or entry point means.

A name means a template of the object that the caller's own template came from: inside a WorkflowTemplate,
names are that WorkflowTemplate's.

Source: Argo Workflows 4.0, `workflow/templateresolution/context.go`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from stowplan.kube.argo.objects import ArgoObject, Json, TemplateSource, as_list, as_mapping, text_of
from stowplan.kube.argo.problems import Problems
from stowplan.kube.argo.variables import has_variable, variables_in

__all__ = ["AtRunTime", "Base", "Resolved", "Resolver"]

_METADATA_KEYS: Final = ("labels", "annotations")


@dataclass(frozen=True, slots=True)
class Base:
    """An object that names of templates are looked up in.

    `key` tells bases apart (empty: the workflow itself), `where` begins the paths of its templates in errors.
    """

    key: str
    where: str
    templates: dict[str, tuple[int, Json]]
    spec: Json


@dataclass(frozen=True, slots=True)
class Resolved:
    """A template, with what names in it mean.

    `key` names the template across workflows: its name, `object/name` for one of another object. It is empty
    for an inline one. `path` is where it stands, for errors.
    """

    template: Json
    base: Base
    key: str
    path: str

    @property
    def name(self) -> str:
        """The template's own name; empty for an inline one."""
        return text_of(self.template.get("name"))


@dataclass(frozen=True, slots=True)
class AtRunTime:
    """Which template is meant is only known at run time, from `variables`."""

    variables: tuple[str, ...]


def _base(where: str, key: str, spec: Json) -> Base:
    templates: dict[str, tuple[int, Json]] = {}
    for number, template in enumerate(as_list(spec.get("templates"))):
        templates.setdefault(text_of(template.get("name")), (number, template))
    return Base(key, where, templates, spec)


class Resolver:
    """Looks templates up and keeps what it found."""

    def __init__(self, own: ArgoObject, source: TemplateSource | None, problems: Problems) -> None:
        """Look up names of `own` and references in `source`; what cannot be found goes to `problems`."""
        self._own = own
        self._source = source
        self._problems = problems
        self._bases: dict[tuple[bool, str], Base | None] = {}
        self._found: dict[tuple[str, str], Resolved] = {}

    def referenced(self) -> ArgoObject | None:
        """Return the object that the workflow's `workflowTemplateRef` means."""
        ref = as_mapping(self._own.spec.get("workflowTemplateRef"))
        if not ref:
            return None
        name, is_cluster = text_of(ref.get("name")), ref.get("clusterScope") is True
        found = self._fetch(name, is_cluster=is_cluster)
        if found is None:
            kind = "ClusterWorkflowTemplate" if is_cluster else "WorkflowTemplate"
            self._problems.add(
                f"{self._own.spec_path}.workflowTemplateRef.name",
                name,
                f"there is no {kind} of that name; create it",
            )
        return found

    def _fetch(self, name: str, *, is_cluster: bool) -> ArgoObject | None:
        if self._own.is_template and name == self._own.name:
            same = is_cluster == (self._own.kind == "ClusterWorkflowTemplate")
            if same:
                return self._own
        if self._source is None:
            return None
        if is_cluster:
            return self._source.cluster_workflow_template(name)
        return self._source.workflow_template(self._own.namespace, name)

    def root(self, spec: Json, referenced: ArgoObject | None) -> Base:
        """Return the base of the workflow's templates: its own, or those of `referenced`."""
        where = self._own.spec_path if referenced is None else f"{referenced.title}: {referenced.spec_path}"
        return _base(where, "", spec)

    def _base_of(self, name: str, *, is_cluster: bool) -> Base | None:
        key = (is_cluster, name)
        if key not in self._bases:
            found = self._fetch(name, is_cluster=is_cluster)
            self._bases[key] = (
                None
                if found is None
                else _base(
                    f"{found.title}: {found.spec_path}", f"cluster:{name}" if is_cluster else name, found.spec
                )
            )
        return self._bases[key]

    def resolve(self, holder: Json, base: Base, path: str) -> Resolved | AtRunTime | None:
        """Return the template that a step, task or hook at `path` means; None after noting a problem."""
        inline, ref, name = holder.get("inline"), holder.get("templateRef"), text_of(holder.get("template"))
        if inline is not None:
            return Resolved(as_mapping(inline), base, "", f"{path}.inline")
        if ref is not None:
            return self._by_reference(as_mapping(ref), name, path)
        if not name:
            self._problems.add(path, dict(holder), "name its template (template, templateRef or inline)")
            return None
        return self.by_name(name, base, f"{path}.template")

    def by_name(self, name: str, base: Base, path: str) -> Resolved | None:
        """Return the template of that name; None after noting that there is none."""
        known = self._found.get((base.key, name))
        if known is not None:
            return known
        found = base.templates.get(name)
        if found is None:
            mend = (
                "a template's name cannot be decided at run time, only a templateRef can"
                if has_variable(name)
                else f"there is no template of that name among {_shown(base.templates)}"
            )
            self._problems.add(path, name, mend)
            return None
        number, template = found
        resolved = self._found[base.key, name] = Resolved(
            _with_pod_metadata(template, base.spec),
            base,
            f"{base.key}/{name}" if base.key else name,
            f"{base.where}.templates[{number}]",
        )
        return resolved

    def _by_reference(self, ref: Json, name: str, path: str) -> Resolved | AtRunTime | None:
        owner, template = text_of(ref.get("name")), text_of(ref.get("template"))
        if name:
            self._problems.add(f"{path}.template", name, "write either template or templateRef, not both")
            return None
        for key, value in (("name", owner), ("template", template)):
            if not value:
                self._problems.add(f"{path}.templateRef.{key}", value, "name the object and its template")
                return None
        if has_variable(owner) or has_variable(template):
            return AtRunTime(variables_in(owner + template))
        is_cluster = ref.get("clusterScope") is True
        base = self._base_of(owner, is_cluster=is_cluster)
        if base is None:
            kind = "ClusterWorkflowTemplate" if is_cluster else "WorkflowTemplate"
            self._problems.add(
                f"{path}.templateRef.name", owner, f"there is no {kind} of that name; create it"
            )
            return None
        return self.by_name(template, base, f"{path}.templateRef.template")


def _shown(templates: dict[str, tuple[int, Json]]) -> str:
    names = list(templates)
    return ", ".join(names[:10]) + (", …" if len(names) > 10 else "") if names else "none"


def _with_pod_metadata(template: Json, spec: Json) -> Json:
    """Return a template with the `podMetadata` of the object that it came from put over its own."""
    shared = as_mapping(spec.get("podMetadata"))
    if not shared:
        return template
    own = as_mapping(template.get("metadata"))
    joined = {key: {**as_mapping(own.get(key)), **as_mapping(shared.get(key))} for key in _METADATA_KEYS}
    return {**template, "metadata": joined}
