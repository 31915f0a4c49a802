"""PodDisruptionBudgets as the API server holds them."""

from typing import Any

import pytest

from stowplan.core.domain import DisruptionBudget, LabelSelector, Operator, Requirement
from stowplan.errors import InvalidObject
from stowplan.kube.manifest.budgets import read_budget
from stowplan.kube.manifest.cursor import Cursor


def read(document: dict[str, Any]) -> DisruptionBudget:
    return read_budget("shop", "one", Cursor(document, "PodDisruptionBudget shop/one"))


def test_spec_and_status() -> None:
    expressions = [{"key": "tier", "operator": "NotIn", "values": ["cache"]}]
    found = read(
        {
            "spec": {
                "minAvailable": 2,
                "selector": {"matchLabels": {"app": "web"}, "matchExpressions": expressions},
                "unhealthyPodEvictionPolicy": "AlwaysAllow",
            },
            "status": {
                "disruptionsAllowed": 3,
                "disruptedPods": {"web-1": "2026-01-01T00:00:00Z", "web-2": "2026-01-01T00:00:01Z"},
            },
        }
    )
    assert found == DisruptionBudget(
        "shop",
        "one",
        LabelSelector(
            (
                Requirement("app", Operator.IN, ("web",)),
                Requirement("tier", Operator.NOT_IN, ("cache",)),
            )
        ),
        disruptions_allowed=3,
        disrupted_pods=frozenset({"web-1", "web-2"}),
    )


def test_without_a_status_nothing_may_be_disrupted() -> None:
    assert read({"spec": {"selector": {}}}) == DisruptionBudget("shop", "one", LabelSelector())
    assert read({"spec": {}}) == DisruptionBudget("shop", "one", None)


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"spec": {"selector": "app=web"}}, ["spec.selector", "'app=web'", "mapping"]),
        ({"spec": {}, "status": {"disruptionsAllowed": "2"}}, ["status.disruptionsAllowed", "'2'", "whole"]),
        ({"spec": {}, "status": {"disruptedPods": ["web-1"]}}, ["status.disruptedPods", "mapping"]),
    ],
)
def test_what_cannot_be_used_is_named(document: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(InvalidObject) as caught:
        read(document)
    message = str(caught.value)
    assert "PodDisruptionBudget shop/one" in message
    assert all(word in message for word in words), message
