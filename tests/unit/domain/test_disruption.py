"""Which pods a budget is about, by kube-scheduler's rules."""

import pytest

from stowplan.core.domain import DisruptionBudget, LabelSelector, Operator, PodShape, Requirement

WEB = LabelSelector.from_labels({"app": "web"})


def budget(selector: LabelSelector | None) -> DisruptionBudget:
    return DisruptionBudget("shop", "one", selector, disruptions_allowed=1)


@pytest.mark.parametrize(
    ("selector", "namespace", "labels", "expected"),
    [
        (WEB, "shop", (("app", "web"), ("tier", "1")), True),
        (WEB, "shop", (("app", "db"),), False),
        (WEB, "default", (("app", "web"),), False),
        (None, "shop", (("app", "web"),), False),
        (LabelSelector(), "shop", (("app", "web"),), False),  # the eviction API would count it
        (LabelSelector((Requirement("app", Operator.DOES_NOT_EXIST),)), "shop", (("a", "b"),), True),
        (LabelSelector((Requirement("app", Operator.DOES_NOT_EXIST),)), "shop", (), False),  # without labels
    ],
)
def test_which_pods_it_covers(
    selector: LabelSelector | None, namespace: str, labels: tuple[tuple[str, str], ...], *, expected: bool
) -> None:
    shape = PodShape(namespace=namespace, labels=labels)
    assert budget(selector).covers(shape) is expected


def test_it_is_known_by_namespace_and_name() -> None:
    assert budget(WEB).key == "shop/one"
