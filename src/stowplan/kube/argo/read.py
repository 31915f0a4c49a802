"""Reading an Argo object: its faults, or its task graph."""

from __future__ import annotations

from stowplan.errors import InvalidWorkflow
from stowplan.kube.argo.build import Builder
from stowplan.kube.argo.dag import Dags
from stowplan.kube.argo.effective import ControllerSettings, effective_spec
from stowplan.kube.argo.globals import global_variables
from stowplan.kube.argo.graph import NodeKind, TaskGraph
from stowplan.kube.argo.objects import ArgoObject, TemplateSource, as_mapping, text_of
from stowplan.kube.argo.pods import PodMaker
from stowplan.kube.argo.problems import MalformedWorkflow, Problem, Problems
from stowplan.kube.argo.resolution import Base, Resolver
from stowplan.kube.argo.rules import Rules
from stowplan.kube.argo.spots import ReadLimits, locks_of

__all__ = ["check_object", "origin_of", "read_graph"]

_CRON_LABEL = "workflows.argoproj.io/cron-workflow"
_TEMPLATE_LABELS = (
    "workflows.argoproj.io/workflow-template",
    "workflows.argoproj.io/cluster-workflow-template",
)


def origin_of(own: ArgoObject) -> str:
    """Return what a workflow was made from, the same for all its runs.

    That is its WorkflowTemplate (`template/NAME`), its CronWorkflow (`cron/NAME`), the beginning of its
    generated name (`generated/NAME`), or its own name (`name/NAME`).
    """
    if own.kind == "CronWorkflow":
        return f"cron/{own.name}"
    if own.is_template:
        return f"template/{own.name}"
    reference = text_of(as_mapping(own.spec.get("workflowTemplateRef")).get("name"))
    labelled = next((own.labels[key] for key in _TEMPLATE_LABELS if own.labels.get(key)), "")
    if reference or labelled:
        return f"template/{reference or labelled}"
    if own.labels.get(_CRON_LABEL):
        return f"cron/{own.labels[_CRON_LABEL]}"
    if own.generate_name:
        return f"generated/{own.generate_name.rstrip('-')}"
    return f"name/{own.name}"


def _opened(
    own: ArgoObject, source: TemplateSource | None, settings: ControllerSettings
) -> tuple[Problems, Resolver, Dags, Base]:
    """Find what the object refers to and check the rules; the base returned is what runs."""
    problems = Problems(own.title)
    resolver = Resolver(own, source, problems)
    referenced = resolver.referenced()
    problems.raise_any()
    spec = effective_spec(own, referenced, settings)
    base = resolver.root(spec, referenced)
    dags = Dags(problems)
    Rules(own, global_variables(own, spec), resolver, dags, problems).check(base)
    problems.raise_any()
    return problems, resolver, dags, base


def _too_deep(own: ArgoObject) -> MalformedWorkflow:
    fault = Problem(own.spec_path, "nested too deep", "write templates of their own instead of inline ones")
    return MalformedWorkflow(own.title, (fault,))


def check_object(
    own: ArgoObject, source: TemplateSource | None = None, settings: ControllerSettings | None = None
) -> None:
    """Check an object by the rules of Argo's controller.

    Raises:
        MalformedWorkflow: the controller would refuse it; all faults are told.
    """
    try:
        _opened(own, source, settings or ControllerSettings())
    except RecursionError as error:
        raise _too_deep(own) from error


def read_graph(
    own: ArgoObject,
    source: TemplateSource | None = None,
    settings: ControllerSettings | None = None,
    limits: ReadLimits | None = None,
) -> TaskGraph:
    """Return the task graph of a workflow, or of the workflow that a cron workflow or template would make.

    `source` hands out the templates that it refers to, `settings` is what the controller is configured with.

    Raises:
        MalformedWorkflow: the controller would refuse it, or it is too large; all faults are told.
        InvalidWorkflow: a template without an entry point: only workflows that refer to it say what runs.
    """
    settings = settings or ControllerSettings()
    try:
        problems, resolver, dags, base = _opened(own, source, settings)
        spec = base.spec
        if not text_of(spec.get("entrypoint")):
            raise InvalidWorkflow(
                f"{own.title}: {own.spec_path}.entrypoint is not set, so that nothing runs by itself; "
                "read a workflow that refers to it"
            )
        variables = global_variables(own, spec)
        name = own.name if own.kind == "Workflow" else ""
        pods = PodMaker(name, own.namespace, spec, settings)
        builder = Builder(
            spec=spec,
            variables=variables,
            resolver=resolver,
            dags=dags,
            pods=pods,
            problems=problems,
            limits=limits or ReadLimits(),
        )
        builder.workflow(base)
        problems.raise_any()
    except RecursionError as error:
        raise _too_deep(own) from error
    parallelism = spec.get("parallelism")
    needs_agent = any(node.kind is NodeKind.AGENT for node in builder.nodes)
    return TaskGraph(
        name=name,
        namespace=own.namespace,
        origin=origin_of(own),
        nodes=tuple(builder.nodes),
        calls=tuple(builder.calls),
        agent=pods.agent(variables) if needs_agent else None,
        parallelism=parallelism if isinstance(parallelism, int) else None,
        locks=locks_of(spec, variables),
    )
