"""The configuration of the webhook: where it listens, what it may write, how patient it is.

The mode is the scheduler's (`scheduler.mode`): what is written on a workflow must fit who places its pods.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field, PositiveFloat, PositiveInt

from stowplan.core.domain import milli_value, value
from stowplan.errors import InvalidInput
from stowplan.kube.argo import ControllerSettings
from stowplan.kube.plan import Mode, PlanOptions, Preference, Referencing, Requests
from stowplan.serve.scheduler.interface import Mode as SchedulerMode
from stowplan.serve.sections import Port, Section

__all__ = ["ControllerConfig", "PlanConfig", "PreferenceConfig", "RequestsConfig", "WebhookConfig"]

_PLANNED_AS: Final = {
    SchedulerMode.BINDER: Mode.BINDER,
    SchedulerMode.GATE: Mode.GATE,
    SchedulerMode.EXTENDER: Mode.EXTENDER,
    SchedulerMode.SHADOW: Mode.BINDER,  # what it would write if it were to place the pods itself
}


class RequestsConfig(Section):
    """What containers ask for that ask for nothing and have no history."""

    cpu: str = "100m"
    memory: str = "128Mi"


class PreferenceConfig(Section):
    """Nodes that are preferred: those with one of these values of a label."""

    label: str
    values: tuple[str, ...]
    weight: int = 50


class ControllerConfig(Section):
    """What Argo's controller is configured with, as far as it matters here.

    What is null here is read from the controller's ConfigMap.

    Attributes:
        config_map: NAMESPACE/NAME of that ConfigMap; empty: it is not read.
        allowed_fields: `WORKFLOW_USER_OVERRIDE_ALLOWLIST` of the controller's environment.
        template_referencing: `workflowRestrictions.templateReferencing`.
        workflow_defaults: `workflowDefaults.spec`.
        main_container: `mainContainer`.
        executor_resources: `executor.resources`.
        instance_id: `instanceID`.
    """

    config_map: str = "argo/workflow-controller-configmap"
    allowed_fields: tuple[str, ...] = ()
    template_referencing: Referencing | None = None
    workflow_defaults: dict[str, Any] | None = None
    main_container: dict[str, Any] | None = None
    executor_resources: dict[str, Any] | None = None
    instance_id: str | None = None

    def settings(self) -> ControllerSettings:
        """Return the settings as readers of workflows take them."""
        return ControllerSettings(
            executor_resources=self.executor_resources or {},
            main_container=self.main_container or {},
            workflow_defaults=self.workflow_defaults or {},
            instance_id=self.instance_id or "",
        )


class PlanConfig(Section):
    """What may be written on workflows; see `stowplan plan`.

    Attributes:
        scheduler_name: in extender and gate mode, the scheduler that pods are given to; empty: theirs.
        priority_classes: in extender mode, PriorityClasses of the cluster, the lowest first.
        requests: null writes none.
        prefer: nodes that are preferred.
    """

    scheduler_name: str = ""
    priority_classes: tuple[str, ...] = ()
    requests: RequestsConfig | None = RequestsConfig()
    prefer: tuple[PreferenceConfig, ...] = ()


class WebhookConfig(Section):
    """The webhook.

    Attributes:
        host, port: where it listens, by https.
        certificate, key: files of the serving certificate and its key; read again when they change.
        reload_s: how often they are looked at.
        plan: what may be written on workflows.
        controller: what Argo's controller is configured with.
        refuse: `rules`: also what Argo's controller would put to Error at once; `types`: only fields of a
            wrong type, which the controller cannot even decode.
        warnings: whoever submits is told at most so many things.
        deadline_s: after so long an object is admitted as it is; or 0.5 s before the API server gives up.
        body_timeout_s: a request must have arrived within so long.
        workers: threads that read workflows.
        waiting: with so many requests waiting, others are admitted as they are.
        drain_s: before it ends it serves on for so long, until nobody sends any more.
    """

    host: str = "127.0.0.1"
    port: Port = 10453
    certificate: Path | None = None
    key: Path | None = None
    reload_s: PositiveFloat = 10.0
    plan: PlanConfig = PlanConfig()
    controller: ControllerConfig = ControllerConfig()
    refuse: Literal["rules", "types"] = "rules"
    warnings: Annotated[int, Field(ge=0, le=20)] = 4
    deadline_s: PositiveFloat = 3.0
    body_timeout_s: PositiveFloat = 5.0
    workers: PositiveInt = 2
    waiting: PositiveInt = 64
    drain_s: Annotated[float, Field(ge=0.0)] = 5.0

    def plan_options(
        self, mode: SchedulerMode, scheduler_name: str, controller: ControllerConfig | None = None
    ) -> PlanOptions:
        """Return the options of the plans.

        Args:
            mode: how the scheduler acts on pods.
            scheduler_name: its name, in binder mode.
            controller: what the controller is configured with; by default, what is set here.

        Raises:
            InvalidInput: a name, quantity or preference cannot be used.
        """
        plan, planned_as, controller = self.plan, _PLANNED_AS[mode], controller or self.controller
        try:
            return PlanOptions(
                mode=planned_as,
                scheduler_name=scheduler_name if planned_as is Mode.BINDER else plan.scheduler_name,
                priority_classes=plan.priority_classes if planned_as is Mode.EXTENDER else (),
                requests=_requests(plan.requests),
                preferences=tuple(
                    Preference(prefer.label, prefer.values, prefer.weight) for prefer in plan.prefer
                ),
                referencing=controller.template_referencing or Referencing.NONE,
                allowed_fields=frozenset(controller.allowed_fields),
                settings=controller.settings(),
            )
        except InvalidInput as error:
            raise InvalidInput(f"webhook.plan: {error}") from None


def _requests(given: RequestsConfig | None) -> Requests | None:
    if given is None:
        return None
    return Requests(cpu_milli=milli_value(given.cpu), memory_bytes=value(given.memory))
