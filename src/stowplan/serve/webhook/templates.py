"""The templates that workflows refer to, as the API server's watches say, always at hand.

Between a template's creation and a workflow that refers to it a watch may be a moment behind; whoever asks
treats a template that is not here as not known, not as missing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import structlog

from stowplan.kube.api.client import ApiClient
from stowplan.kube.api.reflection import Health, Identity, Settings
from stowplan.kube.api.reflector import Reflector
from stowplan.kube.api.resources import CLUSTER_WORKFLOW_TEMPLATES, WORKFLOW_TEMPLATES, Resource
from stowplan.kube.argo import ArgoObject, open_object
from stowplan.kube.argo.objects import as_mapping

__all__ = ["WatchedTemplates"]

_log = structlog.get_logger(__name__)


class _Shelf:
    """Keeps the templates of one kind by key; told by a reflector."""

    def __init__(self, resource: Resource) -> None:
        self.items: dict[str, ArgoObject] = {}
        self._resource = resource

    def set(self, identity: Identity, item: ArgoObject) -> None:
        self.items[identity.key] = item

    def delete(self, identity: Identity) -> None:
        self.items.pop(identity.key, None)

    def synced(self) -> None:
        _log.debug("templates listed", kind=self._resource.kind, count=len(self.items))


class WatchedTemplates:
    """A TemplateSource that follows the cluster; may be asked from any thread."""

    def __init__(self, client: ApiClient, *, settings: Settings | None = None) -> None:
        """Follow what `client` can see; nothing is asked before `run`."""
        self._local, self._cluster = _Shelf(WORKFLOW_TEMPLATES), _Shelf(CLUSTER_WORKFLOW_TEMPLATES)
        self._reflectors = {
            resource.kind: Reflector(client, resource, _reader(resource), shelf, settings=settings)
            for resource, shelf in (
                (WORKFLOW_TEMPLATES, self._local),
                (CLUSTER_WORKFLOW_TEMPLATES, self._cluster),
            )
        }

    async def run(self) -> None:
        """Follow until cancelled."""
        async with asyncio.TaskGroup() as group:
            for reflector in self._reflectors.values():
                group.create_task(reflector.run())

    @property
    def health(self) -> Mapping[str, Health]:
        """How the watches fare, by kind."""
        return {kind: reflector.health for kind, reflector in self._reflectors.items()}

    @property
    def is_settled(self) -> bool:
        """Whether every kind was listed, or is not known to the server."""
        return all(health.is_settled for health in self.health.values())

    def workflow_template(self, namespace: str, name: str) -> ArgoObject | None:
        """Return the WorkflowTemplate of that name."""
        return self._local.items.get(f"{namespace}/{name}")

    def cluster_workflow_template(self, name: str) -> ArgoObject | None:
        """Return the ClusterWorkflowTemplate of that name."""
        return self._cluster.items.get(name)


def _reader(resource: Resource) -> Callable[[bytes | msgspec.Raw], ArgoObject]:
    what = {"apiVersion": resource.api_version, "kind": resource.kind}  # items of lists do not say it

    def read(raw: bytes | msgspec.Raw) -> ArgoObject:
        found: dict[str, Any] = msgspec.json.decode(raw, type=dict[str, Any])
        metadata = dict(as_mapping(found.get("metadata")))
        metadata.pop("managedFields", None)  # as long as the rest, and of no use here
        return open_object({**found, **what, "metadata": metadata})

    return read
