"""Strategic merge as the API server does it."""

from typing import Any

import pytest

from stowplan.kube.argo.merge import POD_SPEC, WORKFLOW, merged

BASE: dict[str, Any] = {
    "nodeSelector": {"a": "1", "b": "2"},
    "tolerations": [{"key": "x"}],
    "containers": [{"name": "wait"}, {"name": "main", "image": "i", "env": [{"name": "A", "value": "1"}]}],
}


@pytest.mark.parametrize(
    ("patch", "change"),
    [
        ({"nodeSelector": {"a": "9"}}, {"nodeSelector": {"a": "9", "b": "2"}}),
        ({"nodeSelector": {"a": None}}, {"nodeSelector": {"b": "2"}}),
        ({"nodeSelector": {"$patch": "replace", "c": "3"}}, {"nodeSelector": {"c": "3"}}),
        ({"nodeSelector": None}, {"nodeSelector": None}),
        ({"tolerations": [{"key": "y"}]}, {"tolerations": [{"key": "y"}]}),
        (
            {"containers": [{"name": "main", "env": [{"name": "B", "value": "2"}]}]},
            {
                "containers": [
                    {"name": "wait"},
                    {
                        "name": "main",
                        "image": "i",
                        "env": [{"name": "B", "value": "2"}, {"name": "A", "value": "1"}],
                    },
                ]
            },
        ),
        ({"containers": [{"name": "wait", "$patch": "delete"}]}, {"containers": [BASE["containers"][1]]}),
        (
            {"containers": [{"$patch": "replace"}, {"name": "only"}]},
            {"containers": [{"name": "only"}]},
        ),
        ({"containers": [{"name": "new"}]}, {"containers": [{"name": "new"}, *BASE["containers"]]}),
        ({"schedulerName": "s"}, {"schedulerName": "s"}),
    ],
)
def test_patches_of_a_pod(patch: dict, change: dict) -> None:
    expected = {key: value for key, value in {**BASE, **change}.items() if value is not None}
    before = repr(BASE)
    assert merged(BASE, patch, POD_SPEC) == expected
    assert repr(BASE) == before


def test_tolerations_have_a_key_in_a_workflow_only() -> None:
    base, patch = (
        {"tolerations": [{"key": "x", "value": "1"}]},
        {"tolerations": [{"key": "x", "effect": "NoSchedule"}]},
    )
    assert merged(base, patch, POD_SPEC) == patch
    assert merged(base, patch, WORKFLOW) == {
        "tolerations": [{"key": "x", "value": "1", "effect": "NoSchedule"}]
    }


@pytest.mark.parametrize(
    ("patch", "order"),
    [("", "abc"), ("b", "abc"), ("c", "abc"), ("ca", "bca"), ("xb", "xabc"), ("bx", "abxc"), ("xy", "xyabc")],
)
def test_the_order_of_a_merged_list_is_the_api_server_s(patch: str, order: str) -> None:
    base, change = ({"containers": [{"name": name} for name in names]} for names in ("abc", patch))
    result: Any = merged(base, change, POD_SPEC)
    assert "".join(container["name"] for container in result["containers"]) == order
