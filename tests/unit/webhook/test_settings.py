"""The settings of the webhook, and the options of plans that they come to."""

import pytest
from pydantic import ValidationError

from stowplan.errors import InvalidInput
from stowplan.kube.plan import Mode, Preference, Referencing, Requests
from stowplan.serve.scheduler.interface import Mode as SchedulerMode
from stowplan.serve.webhook.settings import WebhookConfig


@pytest.mark.parametrize(
    ("mode", "planned_as", "scheduler"),
    [
        (SchedulerMode.BINDER, Mode.BINDER, "ours"),
        (SchedulerMode.SHADOW, Mode.BINDER, "ours"),
        (SchedulerMode.GATE, Mode.GATE, ""),
        (SchedulerMode.EXTENDER, Mode.EXTENDER, ""),
    ],
)
def test_plans_fit_the_mode(mode: SchedulerMode, planned_as: Mode, scheduler: str) -> None:
    options = WebhookConfig().plan_options(mode, "ours")
    assert (options.mode, options.wanted_scheduler) == (planned_as, scheduler)


def test_everything_that_can_be_said_arrives() -> None:
    config = WebhookConfig.model_validate(
        {
            "plan": {
                "scheduler_name": "with-extender",
                "priority_classes": ["low", "high"],
                "requests": {"cpu": "250m", "memory": "1Gi"},
                "prefer": [{"label": "zone", "values": ["a"], "weight": 7}],
            },
            "controller": {
                "template_referencing": "secure",
                "allowed_fields": ["schedulerName"],
                "workflow_defaults": {"entrypoint": "main"},
                "instance_id": "team-a",
            },
        }
    )
    options = config.plan_options(SchedulerMode.EXTENDER, "ours")
    assert options.scheduler_name == "with-extender"
    assert options.priority_classes == ("low", "high")
    assert options.requests == Requests(cpu_milli=250, memory_bytes=1 << 30)
    assert options.preferences == (Preference("zone", ("a",), 7),)
    assert (options.referencing, options.allowed_fields) == (Referencing.SECURE, {"schedulerName"})
    assert options.settings.workflow_defaults == {"entrypoint": "main"}
    assert options.settings.instance_id == "team-a"
    # They are kube-scheduler's to order by; in the other modes they would only tell who may be preempted.
    assert config.plan_options(SchedulerMode.GATE, "ours").priority_classes == ()
    none = WebhookConfig.model_validate({"plan": {"requests": None}})
    assert none.plan_options(SchedulerMode.BINDER, "ours").requests is None


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        ({"requests": {"cpu": "much"}}, "webhook.plan: .*much"),
        ({"requests": {"cpu": "0"}}, "webhook.plan: requests: cpu_milli is 0"),
        ({"scheduler_name": "No!"}, "webhook.plan: scheduler name 'No!'"),
        ({"prefer": [{"label": "zone", "values": []}]}, "webhook.plan: no value of the label zone"),
    ],
)
def test_what_cannot_be_used_is_named(plan: dict[str, object], words: str) -> None:
    config = WebhookConfig.model_validate({"plan": plan})
    with pytest.raises(InvalidInput, match=words):
        config.plan_options(SchedulerMode.EXTENDER, "ours")


def test_a_misspelt_key_is_no_setting() -> None:
    with pytest.raises(ValidationError, match="deadline"):
        WebhookConfig.model_validate({"deadline": 3})
