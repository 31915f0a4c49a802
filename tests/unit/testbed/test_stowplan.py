"""Stowplan's process on the test cluster: the rights that an operator applies are those that it asks for."""

import pytest

from stowplan.serve.rights import cluster_role, lease_role, rights_of
from stowplan.serve.scheduler.interface import Mode
from testbed.stowplan import ACCOUNT, MODES, NAMESPACE, rights


def granted(document: dict[str, object]) -> set[tuple[str, str, str]]:
    """Group, resource and verb of each right."""
    rules = document["rules"]
    assert isinstance(rules, list)
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


@pytest.mark.parametrize("mode", MODES)
def test_the_example_grants_what_each_mode_asks_for_and_no_more(mode: str) -> None:
    documents = list(rights(mode))
    roles = {each["metadata"]["name"]: each for each in documents if each["kind"] == "ClusterRole"}
    assert set(roles) == {f"{ACCOUNT}-{each}" for each in MODES}
    wanted = cluster_role(f"{ACCOUNT}-{mode}", rights_of(Mode(mode)))
    assert granted(roles[f"{ACCOUNT}-{mode}"]) == granted(wanted)
    (binding,) = (each for each in documents if each["kind"] == "ClusterRoleBinding")
    assert binding["roleRef"]["name"] == f"{ACCOUNT}-{mode}"


def test_the_lease_is_written_in_one_namespace_only() -> None:
    (role,) = (each for each in rights("binder") if each["kind"] == "Role")
    assert role["metadata"]["namespace"] == NAMESPACE
    assert granted(role) == granted(lease_role(ACCOUNT, NAMESPACE))
