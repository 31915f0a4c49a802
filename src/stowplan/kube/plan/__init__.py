"""What is written on a workflow before it runs, so that Stowplan can place its pods well: as a JSON patch.

    plan = plan_object(raw, PlanOptions(mode=Mode.BINDER), source=Shelf(templates), history=history)
    plan.patch()   # RFC 6902, for the admission webhook
    plan.result    # the object with it, for `stowplan plan`
    plan.why()     # every reason in words

An author's own settings win and are told of; unknown fields and their order stay; a plan of a planned object
is empty. Nothing here does I/O or reads a clock.
"""

from stowplan.kube.plan.learned import history_of
from stowplan.kube.plan.make import plan_object
from stowplan.kube.plan.options import (
    DEFAULT_REQUESTS,
    DEFAULT_SCHEDULER,
    History,
    Mode,
    PlanOptions,
    Preference,
    Referencing,
    Requests,
)
from stowplan.kube.plan.order import RANK
from stowplan.kube.plan.outcome import Change, Kept, Plan
from stowplan.kube.plan.placement import ORIGIN
from stowplan.kube.plan.scheduler import GATE

__all__ = [
    "DEFAULT_REQUESTS",
    "DEFAULT_SCHEDULER",
    "GATE",
    "ORIGIN",
    "RANK",
    "Change",
    "History",
    "Kept",
    "Mode",
    "Plan",
    "PlanOptions",
    "Preference",
    "Referencing",
    "Requests",
    "history_of",
    "plan_object",
]
