"""The rights of each mode: the least, and the same in the role as in the check at start."""

import asyncio
import json
from typing import Any

from stowplan.kube.api.client import ApiClient
from stowplan.kube.api.resources import Resource
from stowplan.serve.rights import Right, cluster_role, lease_role, missing_rights, rights_of
from stowplan.serve.scheduler.interface import Mode


class Reviews(ApiClient):
    """Grants what it was told, and keeps what it was asked."""

    def __init__(self, granted: set[tuple[str, str, str]]) -> None:
        self.granted = granted
        self.asked: list[dict[str, str]] = []

    async def create(
        self,
        resource: Resource,
        body: dict[str, Any] | bytes,
        namespace: str | None = None,
        *,
        dry_run: bool = False,
    ) -> bytes:
        assert (resource.plural, namespace, dry_run) == ("selfsubjectaccessreviews", None, False)
        assert isinstance(body, dict)
        attributes = body["spec"]["resourceAttributes"]
        self.asked.append(attributes)
        name = "/".join(filter(None, (attributes["resource"], attributes.get("subresource"))))
        is_granted = (attributes["group"], name, attributes["verb"]) in self.granted
        return json.dumps({"status": {"allowed": is_granted}}).encode()


def test_each_verb_is_asked_for_and_what_is_missing_is_named() -> None:
    client = Reviews({("", "pods", "list"), ("", "pods/binding", "create")})
    rights = [Right("", "pods", ("list", "delete")), Right("", "pods/binding", ("create",))]
    missing = asyncio.run(missing_rights(client, rights))
    assert [str(right) for right in missing] == ["delete pods"]
    assert {"group": "", "resource": "pods", "subresource": "binding", "verb": "create"} in client.asked


def test_a_right_in_one_namespace_is_asked_for_there() -> None:
    client = Reviews(set())
    right = Right("coordination.k8s.io", "leases", ("update",), "kube-system")
    (missing,) = asyncio.run(missing_rights(client, [right]))
    assert client.asked[0]["namespace"] == "kube-system"
    assert str(missing) == "update leases.coordination.k8s.io in namespace kube-system"


def test_shadow_mode_may_change_nothing() -> None:
    verbs = {verb for right in rights_of(Mode.SHADOW) for verb in right.verbs}
    assert verbs == {"get", "list", "watch"}


def test_only_the_binder_may_bind_and_delete() -> None:
    for mode in Mode:
        granted = {(right.resource, verb) for right in rights_of(mode) for verb in right.verbs}
        assert (("pods/binding", "create") in granted) == (mode is Mode.BINDER)
        assert (("pods", "delete") in granted) == (mode is Mode.BINDER)
        assert not any(resource == "secrets" or verb == "*" for resource, verb in granted)


def test_a_binder_that_does_not_preempt_needs_no_right_to_delete() -> None:
    lost = set(rights_of(Mode.BINDER)) - set(rights_of(Mode.BINDER, preempts=False))
    assert [str(right) for right in lost] == ["delete pods"]
    for mode in set(Mode) - {Mode.BINDER}:
        assert rights_of(mode, preempts=False) == rights_of(mode)


def test_a_role_has_one_rule_per_resource() -> None:
    rules = cluster_role("stowplan", rights_of(Mode.BINDER))["rules"]
    names = [(rule["apiGroups"][0], rule["resources"][0]) for rule in rules]
    assert len(names) == len(set(names))
    (pods,) = (rule for rule in rules if rule["resources"] == ["pods"])
    assert pods["verbs"] == ["get", "list", "watch", "delete"]
    assert lease_role("stowplan", "ns")["metadata"]["namespace"] == "ns"
