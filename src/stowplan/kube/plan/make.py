"""The plan for one Argo object: everything above, in order.

The webhook calls this at CREATE and answers with the patch; `stowplan plan` calls it and prints the result.
A workflow has no UID then, and often no name; nothing here needs one.
"""

from __future__ import annotations

from stowplan.kube.argo import (
    ArgoObject,
    MalformedWorkflow,
    TaskGraph,
    TemplateSource,
    check_object,
    open_object,
    read_graph,
)
from stowplan.kube.argo.effective import effective_spec
from stowplan.kube.argo.objects import Json, as_mapping, text_of
from stowplan.kube.plan.drafting import Drafting
from stowplan.kube.plan.options import History, PlanOptions
from stowplan.kube.plan.order import plan_order
from stowplan.kube.plan.outcome import Plan
from stowplan.kube.plan.patch import Draft
from stowplan.kube.plan.placement import plan_origin, plan_preferences
from stowplan.kube.plan.requests import plan_requests
from stowplan.kube.plan.scheduler import plan_gate, plan_scheduler

__all__ = ["plan_object"]


def plan_object(
    raw: Json,
    options: PlanOptions | None = None,
    *,
    source: TemplateSource | None = None,
    history: History | None = None,
) -> Plan:
    """Return the plan for a Workflow, WorkflowTemplate, ClusterWorkflowTemplate or CronWorkflow.

    Args:
        raw: the object as a parser returns it; it is not changed.
        options: what may be written.
        source: the templates that it refers to.
        history: what earlier runs tell.

    Raises:
        InvalidObject: it is another kind of object.
        MalformedWorkflow: Argo's controller would refuse it; all faults are told, with their paths.
    """
    options = options or PlanOptions()
    history = history or History()
    own = open_object(raw)
    referenced = _referenced(own, source)
    graph, lacks = _read(own, referenced, source, options)
    drafting = Drafting(
        own=own,
        options=options,
        referenced=referenced,
        lacks=lacks,
        graph=graph,
        draft=Draft(raw),
    )
    if drafting.is_restricted and not drafting.reference:
        drafting.note(
            f"the controller runs no workflow of this kind: with templateReferencing {options.referencing} "
            "it must refer to a WorkflowTemplate (workflowTemplateRef)"
        )
        return _ended(drafting)
    if graph is None and not lacks:
        drafting.note(
            "it has no entry point: only workflows that refer to it know the ranks of its templates"
        )
    for lack in lacks:
        drafting.note(f"{lack}: it is not given, so that nothing is known of what is in it; no ranks")
    plan_scheduler(drafting)
    plan_gate(drafting)
    plan_order(drafting, history)
    plan_requests(drafting, history)
    plan_preferences(drafting)
    plan_origin(drafting)
    _tell_of_limits(drafting)
    return _ended(drafting)


def _ended(drafting: Drafting) -> Plan:
    return Plan(
        title=drafting.own.title,
        result=drafting.draft.document,
        operations=tuple(drafting.draft.operations),
        changes=tuple(drafting.changes),
        kept=tuple(drafting.kept),
        notes=tuple(drafting.notes),
        advice=tuple(drafting.advice),
    )


def _referenced(own: ArgoObject, source: TemplateSource | None) -> ArgoObject | None:
    reference = as_mapping(own.spec.get("workflowTemplateRef"))
    name = text_of(reference.get("name"))
    if not name or source is None:
        return None
    if reference.get("clusterScope") is True:
        return source.cluster_workflow_template(name)
    return source.workflow_template(own.namespace, name)


def _read(
    own: ArgoObject, referenced: ArgoObject | None, source: TemplateSource | None, options: PlanOptions
) -> tuple[TaskGraph | None, tuple[str, ...]]:
    """Check the object by Argo's rules, and return its task graph and which references are not there.

    A plan can do without what an object refers to; a workflow cannot, but may get it later. There is no graph
    then, nor where nothing says what to begin with.

    Raises:
        MalformedWorkflow: anything else is wrong, or the graph is too large, or has a pod that cannot be.
    """
    has_entry = text_of(effective_spec(own, referenced, options.settings).get("entrypoint"))
    try:
        if has_entry:  # what reads it checks it, too
            return read_graph(own, source, options.settings), ()
        check_object(own, source, options.settings)
    except MalformedWorkflow as error:
        lacks = tuple(problem for problem in error.problems if problem.is_lack)
        others = tuple(problem for problem in error.problems if not problem.is_lack)
        if others:
            raise MalformedWorkflow(error.owner, others) from None
        return None, tuple(f"{problem.path} is {problem.value}" for problem in lacks)
    return None, ()


def _tell_of_limits(drafting: Drafting) -> None:
    """Tell what of this object no patch of it can reach."""
    if drafting.reference:
        if drafting.is_restricted:
            drafting.note(
                f"with templateReferencing {drafting.options.referencing} the controller refuses a workflow "
                f"that sets more than it allows; plan {drafting.reference} instead, or allow fields by "
                "WORKFLOW_USER_OVERRIDE_ALLOWLIST"
            )
        drafting.note(
            f"its templates are those of {drafting.reference}: ranks and requests are planned there"
        )
    status = as_mapping(drafting.own.raw.get("status"))
    if text_of(status.get("phase")):
        drafting.note(f"it has begun ({status['phase']}): pods that exist stay as they are")
