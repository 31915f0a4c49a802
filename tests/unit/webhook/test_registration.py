"""The configurations that tell the API server of the webhook."""

import base64

import pytest

from stowplan.errors import InvalidInput
from stowplan.serve.webhook.admission import REVIEWED
from stowplan.serve.webhook.registration import Registration, ServiceTarget, webhook_configurations


def test_by_default_a_silent_webhook_stops_nobody() -> None:
    for manifest in webhook_configurations(Registration(target=ServiceTarget("stowplan", "webhook"))):
        for webhook in manifest["webhooks"]:
            assert webhook["failurePolicy"] == "Ignore"
            assert webhook["timeoutSeconds"] == 5
            assert webhook["sideEffects"] == "None"
            assert webhook["admissionReviewVersions"] == ["v1"]
            (expression,) = webhook["namespaceSelector"]["matchExpressions"]
            assert expression["operator"] == "NotIn"
            assert set(expression["values"]) == {"kube-system", "stowplan"}


def test_the_plan_comes_before_the_check_and_may_be_asked_for_again() -> None:
    mutating, validating = webhook_configurations(Registration(target="https://10.0.0.1:8443/"))
    assert (mutating["kind"], validating["kind"]) == (
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
    )
    assert {webhook["reinvocationPolicy"] for webhook in mutating["webhooks"]} == {"IfNeeded"}
    assert all("reinvocationPolicy" not in webhook for webhook in validating["webhooks"])
    assert {webhook["clientConfig"]["url"] for webhook in mutating["webhooks"]} == {
        "https://10.0.0.1:8443/mutate-workflow"
    }
    assert {webhook["clientConfig"]["url"] for webhook in validating["webhooks"]} == {
        "https://10.0.0.1:8443/validate-workflow"
    }


def test_what_is_sent_is_what_is_reviewed() -> None:
    for manifest in webhook_configurations(Registration(target="https://x")):
        sent = {
            (operation, resource)
            for webhook in manifest["webhooks"]
            for rule in webhook["rules"]
            for operation in rule["operations"]
            for resource in rule["resources"]
        }
        reviewed = {
            (operation, f"{kind.lower()}s") for operation, kinds in REVIEWED.items() for kind in kinds
        }
        assert sent == reviewed


def test_a_service_and_who_vouches_for_it() -> None:
    registration = Registration(
        target=ServiceTarget("ours", "webhook", 8443),
        ca_bundle=b"PEM",
        name="other",
        failure_policy="Fail",
        timeout_s=2,
        namespace_labels={"team": "a"},
        object_labels={"plan": "yes"},
        match_conditions={"no-robots": "request.userInfo.username != 'robot'"},
    )
    for manifest in webhook_configurations(registration):
        assert manifest["metadata"]["name"] == "other"
        for webhook in manifest["webhooks"]:
            config = webhook["clientConfig"]
            assert base64.b64decode(config["caBundle"]) == b"PEM"
            service = config["service"]
            assert (service["namespace"], service["name"], service["port"]) == ("ours", "webhook", 8443)
            assert webhook["failurePolicy"] == "Fail"
            assert webhook["namespaceSelector"]["matchLabels"] == {"team": "a"}
            assert webhook["objectSelector"] == {"matchLabels": {"plan": "yes"}}
            assert "no-robots" in {condition["name"] for condition in webhook["matchConditions"]}


def test_without_a_bundle_the_field_is_left_to_who_injects_it() -> None:
    (webhook, _) = webhook_configurations(Registration(target="https://x"))[0]["webhooks"]
    assert set(webhook["clientConfig"]) == {"url"}


def test_what_the_api_server_would_refuse_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"http://x.*https:// only"):
        Registration(target="http://x")
    for timeout_s in (0, 31):
        with pytest.raises(InvalidInput, match=f"timeout of {timeout_s} s"):
            Registration(target="https://x", timeout_s=timeout_s)
