"""What a scheduler may do in the cluster: the least rights per mode, to be granted and checked at start.

One table is both the ClusterRole that an operator grants and what is asked of the API server when the process
starts, so that a right that is missing is named, with its verb, before a pod waits for it.
Source of the check: authorization.k8s.io/v1 SelfSubjectAccessReview, which everybody may create.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import structlog

from stowplan.kube.api.client import ApiClient
from stowplan.kube.api.errors import InvalidAccess, KubernetesError, Unauthorized
from stowplan.kube.api.resources import Resource
from stowplan.serve.scheduler.interface import Mode

__all__ = [
    "Right",
    "RightsCheck",
    "cluster_role",
    "lease_rights",
    "lease_role",
    "missing_rights",
    "rights_of",
]

Json = dict[str, Any]

_REVIEWS: Final = Resource(
    "authorization.k8s.io",
    "v1",
    "selfsubjectaccessreviews",
    "SelfSubjectAccessReview",
    is_namespaced=False,
)
_READ: Final = ("get", "list", "watch")
_ASK_SOON_S: Final = 5.0
_ASK_AGAIN_S: Final = 300.0

_LOG = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Right:
    """Verbs on one resource, in all namespaces or in one."""

    group: str
    resource: str
    verbs: tuple[str, ...]
    namespace: str = ""

    def __str__(self) -> str:
        name = f"{self.resource}.{self.group}" if self.group else self.resource
        where = f" in namespace {self.namespace}" if self.namespace else ""
        return f"{', '.join(self.verbs)} {name}{where}"


_SEEN: Final = (
    Right("", "pods", _READ),
    Right("", "nodes", _READ),
    Right("", "namespaces", _READ),
    Right("", "persistentvolumes", _READ),
    Right("", "persistentvolumeclaims", _READ),
    Right("", "services", _READ),
    Right("", "replicationcontrollers", _READ),
    Right("apps", "replicasets", _READ),
    Right("apps", "statefulsets", _READ),
    Right("policy", "poddisruptionbudgets", _READ),
    Right("scheduling.k8s.io", "priorityclasses", _READ),
    Right("storage.k8s.io", "storageclasses", _READ),
    Right("storage.k8s.io", "csinodes", _READ),
    Right("storage.k8s.io", "csidrivers", _READ),
    Right("storage.k8s.io", "csistoragecapacities", _READ),
    Right("storage.k8s.io", "volumeattachments", _READ),
    Right("argoproj.io", "workflows", _READ),
    Right("argoproj.io", "workflowtemplates", _READ),
    Right("argoproj.io", "clusterworkflowtemplates", _READ),
)
_SPOKEN: Final = (Right("events.k8s.io", "events", ("create", "patch")),)
_BOUND: Final = (
    Right("", "pods/binding", ("create",)),
    Right("", "pods/status", ("patch",)),
    Right("", "persistentvolumeclaims", ("patch", "update")),
    Right("", "persistentvolumes", ("patch", "update")),
)
_ENDED: Final = (Right("", "pods", ("delete",)),)  # of pods that make room for one of higher priority
_GATED: Final = (Right("", "pods", ("patch",)), Right("", "pods/status", ("patch",)))
_OF_MODE: Final[dict[Mode, tuple[Right, ...]]] = {
    Mode.EXTENDER: (*_SEEN, *_SPOKEN, *_GATED),
    Mode.BINDER: (*_SEEN, *_SPOKEN, *_BOUND, *_ENDED),
    Mode.GATE: (*_SEEN, *_SPOKEN, *_GATED),
    Mode.SHADOW: _SEEN,
}


def rights_of(mode: Mode, *, preempts: bool = True) -> tuple[Right, ...]:
    """Return what a mode needs in all namespaces; without `preempts` it ends no pods."""
    return tuple(right for right in _OF_MODE[mode] if preempts or right not in _ENDED)


def lease_rights(namespace: str) -> tuple[Right, ...]:
    """Return what the election needs in the namespace of its lease."""
    return (Right("coordination.k8s.io", "leases", (*_READ, "create", "update"), namespace),)


def cluster_role(name: str, rights: Iterable[Right]) -> Json:
    """Return the manifest of a ClusterRole with `rights`."""
    return _role("ClusterRole", {"name": name}, rights)


def lease_role(name: str, namespace: str) -> Json:
    """Return the manifest of the Role for the election."""
    return _role("Role", {"name": name, "namespace": namespace}, lease_rights(namespace))


def _role(kind: str, metadata: Json, rights: Iterable[Right]) -> Json:
    merged: dict[tuple[str, str], list[str]] = {}
    for right in rights:
        verbs = merged.setdefault((right.group, right.resource), [])
        verbs += [verb for verb in right.verbs if verb not in verbs]
    rules = [
        {"apiGroups": [group], "resources": [resource], "verbs": verbs}
        for (group, resource), verbs in merged.items()
    ]
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": metadata, "rules": rules}


class _Status(msgspec.Struct):
    allowed: bool = False


class _Review(msgspec.Struct):
    status: _Status


_DECODER: Final = msgspec.json.Decoder(_Review)


async def missing_rights(client: ApiClient, rights: Sequence[Right]) -> list[Right]:
    """Ask the API server for each right, and return those that are not granted, a verb each.

    Raises:
        KubernetesError: it could not be asked.
    """
    single = [Right(right.group, right.resource, (verb,), right.namespace) for right, verb in _verbs(rights)]
    granted = await asyncio.gather(*(_is_granted(client, right) for right in single))
    return [right for right, is_granted in zip(single, granted, strict=True) if not is_granted]


def _verbs(rights: Iterable[Right]) -> Iterator[tuple[Right, str]]:
    for right in rights:
        for verb in right.verbs:
            yield right, verb


async def _is_granted(client: ApiClient, right: Right) -> bool:
    resource, _, subresource = right.resource.partition("/")
    attributes: Json = {"group": right.group, "resource": resource, "verb": right.verbs[0]}
    if subresource:
        attributes["subresource"] = subresource
    if right.namespace:
        attributes["namespace"] = right.namespace
    body: Json = {
        "apiVersion": _REVIEWS.api_version,
        "kind": _REVIEWS.kind,
        "spec": {"resourceAttributes": attributes},
    }
    return _DECODER.decode(await client.create(_REVIEWS, body)).status.allowed


class RightsCheck:
    """Asks for the rights of a service from time to time: they may be granted, or taken away, while it runs.

    Attributes:
        missing: the rights that are not granted, a verb each, as far as is known.
        error: why it could not be asked last time; empty: it could.
    """

    def __init__(self, client: ApiClient, rights: Sequence[Right]) -> None:
        """Ask `client` for `rights`."""
        self._client = client
        self._rights = rights
        self.missing: list[Right] = []
        self.error = ""

    @property
    def why(self) -> str:
        """What is wrong, in words; empty: nothing."""
        if self.missing:
            named = "; ".join(map(str, self.missing))
            return f"this service may not {named}; grant it (see the roles in docs/LIVE.md)"
        return self.error

    async def ask(self) -> None:
        """Ask once. A server that cannot be reached, or fails, is asked again by `run`.

        Raises:
            InvalidAccess: the server does not know us: no patience mends that.
        """
        try:
            missing = await missing_rights(self._client, self._rights)
        except Unauthorized as error:
            raise InvalidAccess(
                f"{self._client.access.server} does not accept our credentials "
                f"({self._client.access.origin or 'unknown origin'}): {error}; renew them"
            ) from None
        except KubernetesError as error:
            self.error = str(error)
            return
        self.error = ""
        if missing != self.missing:
            for right in missing:
                _LOG.error("right is missing", right=str(right))
            if not missing:
                _LOG.info("all rights are granted")
        self.missing = missing

    async def run(self) -> None:
        """Ask again and again, until cancelled."""
        while True:
            await asyncio.sleep(_ASK_SOON_S if self.why else _ASK_AGAIN_S)
            try:
                await self.ask()
            except InvalidAccess as error:  # it was accepted when we began: a token may be on its way
                self.error = str(error)
