"""How the API server is told of the webhook: two configurations, as manifests and applied.

Workflows are reviewed when they are created, and only then: Argo's controller updates them all the time.
Templates and cron workflows also when their specification changes; the condition keeps the controller's
updates of a cron workflow's status away. By default a webhook that does not answer stops nobody
(`failurePolicy: Ignore`).

Source: kubernetes.io/docs/concepts/cluster-administration/admission-webhooks-good-practices,
k8s.io/api/admissionregistration/v1 types.go.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from stowplan.errors import InvalidInput
from stowplan.kube.api.apply import apply
from stowplan.kube.api.client import ApiClient
from stowplan.kube.api.resources import Resource
from stowplan.serve.webhook.application import MUTATE_PATH, VALIDATE_PATH

__all__ = [
    "MUTATING_CONFIGURATIONS",
    "VALIDATING_CONFIGURATIONS",
    "Registration",
    "ServiceTarget",
    "register",
    "webhook_configurations",
]

Json = dict[str, Any]

_GROUP: Final = "admissionregistration.k8s.io"
MUTATING_CONFIGURATIONS: Final = Resource(
    _GROUP, "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", is_namespaced=False
)
VALIDATING_CONFIGURATIONS: Final = Resource(
    _GROUP, "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", is_namespaced=False
)
_RESOURCES: Final = {
    resource.kind: resource for resource in (MUTATING_CONFIGURATIONS, VALIDATING_CONFIGURATIONS)
}
_SPEC_CHANGED: Final = {
    "name": "specification-changed",
    "expression": "request.operation == 'CREATE' || object.spec != oldObject.spec",
}
_REVIEWED: Final[tuple[tuple[str, list[str], list[str], list[Json]], ...]] = (
    ("workflows", ["CREATE"], ["workflows"], []),
    (
        "templates",
        ["CREATE", "UPDATE"],
        ["workflowtemplates", "clusterworkflowtemplates", "cronworkflows"],
        [_SPEC_CHANGED],
    ),
)
_NAMESPACE_LABEL: Final = "kubernetes.io/metadata.name"
_SECONDS: Final = range(1, 31)


@dataclass(frozen=True, slots=True)
class ServiceTarget:
    """A Service in front of the webhook."""

    namespace: str
    name: str
    port: int = 443


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """Where the webhook is, and what is sent to it.

    Attributes:
        target: a Service, or the beginning of an https address.
        ca_bundle: PEM that vouches for the serving certificate; empty leaves the field to who injects it.
        name: of both configurations.
        failure_policy: what is done when the webhook does not answer; `Ignore` admits, `Fail` refuses.
        timeout_s: how long the API server waits.
        excluded_namespaces: whose objects are not sent; the webhook's own should be among them.
        namespace_labels: only namespaces with all of these labels.
        object_labels: only objects with all of these labels.
        match_conditions: CEL conditions by name, which must all hold.
    """

    target: ServiceTarget | str
    ca_bundle: bytes = b""
    name: str = "stowplan"
    failure_policy: Literal["Ignore", "Fail"] = "Ignore"
    timeout_s: int = 5
    excluded_namespaces: tuple[str, ...] = ("kube-system", "stowplan")
    namespace_labels: Mapping[str, str] = field(default_factory=dict[str, str])
    object_labels: Mapping[str, str] = field(default_factory=dict[str, str])
    match_conditions: Mapping[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        """Refuse what the API server would refuse.

        Raises:
            InvalidInput: the address is not https, or the time is outside of 1–30 s.
        """
        if isinstance(self.target, str) and not self.target.startswith("https://"):
            raise InvalidInput(f"webhook address {self.target!r}: the API server calls https:// only")
        if self.timeout_s not in _SECONDS:
            raise InvalidInput(f"timeout of {self.timeout_s} s: the API server waits 1 to 30 s")


def webhook_configurations(registration: Registration) -> list[Json]:
    """Return the MutatingWebhookConfiguration and the ValidatingWebhookConfiguration."""
    return [
        _configuration(MUTATING_CONFIGURATIONS, registration, "mutate", MUTATE_PATH),
        _configuration(VALIDATING_CONFIGURATIONS, registration, "validate", VALIDATE_PATH),
    ]


async def register(client: ApiClient, manifests: Iterable[Json]) -> None:
    """Apply the configurations: create them, or give them these fields.

    Raises:
        Conflict: another manager owns a field, such as an injected `caBundle`.
        KubernetesError: they could not be applied.
    """
    for manifest in manifests:
        await apply(client, _RESOURCES[manifest["kind"]], manifest["metadata"]["name"], manifest)


def _configuration(resource: Resource, registration: Registration, verb: str, path: str) -> Json:
    conditions = [
        {"name": name, "expression": expression} for name, expression in registration.match_conditions.items()
    ]
    webhooks: list[Json] = []
    for name, operations, resources, own_conditions in _REVIEWED:
        rule = {
            "apiGroups": ["argoproj.io"],
            "apiVersions": ["v1alpha1"],
            "operations": operations,
            "resources": resources,
            "scope": "*",
        }
        webhook: Json = {
            "name": f"{name}.{verb}.stowplan.io",
            "admissionReviewVersions": ["v1"],
            "clientConfig": _client_config(registration, path),
            "rules": [rule],
            "failurePolicy": registration.failure_policy,
            "timeoutSeconds": registration.timeout_s,
            "sideEffects": "None",
            "namespaceSelector": _namespace_selector(registration),
            "objectSelector": {"matchLabels": dict(registration.object_labels)},
            "matchConditions": [*own_conditions, *conditions],
        }
        if resource is MUTATING_CONFIGURATIONS:
            webhook["reinvocationPolicy"] = "IfNeeded"
        webhooks.append(webhook)
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": registration.name, "labels": {"app.kubernetes.io/name": "stowplan"}},
        "webhooks": webhooks,
    }


def _client_config(registration: Registration, path: str) -> Json:
    target = registration.target
    config: Json = (
        {"url": target.rstrip("/") + path}
        if isinstance(target, str)
        else {
            "service": {
                "namespace": target.namespace,
                "name": target.name,
                "port": target.port,
                "path": path,
            }
        }
    )
    if registration.ca_bundle:
        config["caBundle"] = base64.b64encode(registration.ca_bundle).decode()
    return config


def _namespace_selector(registration: Registration) -> Json:
    selector: Json = {"matchLabels": dict(registration.namespace_labels)}
    if registration.excluded_namespaces:
        selector["matchExpressions"] = [
            {
                "key": _NAMESPACE_LABEL,
                "operator": "NotIn",
                "values": list(registration.excluded_namespaces),
            }
        ]
    return selector
