"""The templates that workflows refer to, as the API server's watches say, always at hand.

Between a template's creation and a workflow that refers to it a watch may be a moment behind; whoever asks
treats a template that is not here as not known, not as missing. One that is here but cannot be read counts
as not known, too: what is wrong with it is its own author's to mend.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from stowplan.errors import InvalidInput
from stowplan.kube.api.client import ApiClient
from stowplan.kube.api.reflection import Health, Settings
from stowplan.kube.api.reflector import Reflector
from stowplan.kube.api.resources import CLUSTER_WORKFLOW_TEMPLATES, WORKFLOW_TEMPLATES
from stowplan.kube.argo import ArgoObject
from stowplan.kube.live.templates import Templates

__all__ = ["WatchedTemplates"]


class WatchedTemplates:
    """A TemplateSource that follows the cluster; may be asked from any thread."""

    def __init__(self, client: ApiClient, *, settings: Settings | None = None) -> None:
        """Follow what `client` can see; nothing is asked before `run`."""
        self._templates = Templates(lambda _: None)  # nothing is kept that follows from them
        self._reflectors = {
            resource.kind: Reflector(client, resource, bytes, receiver, settings=settings)
            for resource, receiver in (
                (WORKFLOW_TEMPLATES, self._templates.local),
                (CLUSTER_WORKFLOW_TEMPLATES, self._templates.cluster),
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
        return _readable(lambda: self._templates.workflow_template(namespace, name))

    def cluster_workflow_template(self, name: str) -> ArgoObject | None:
        """Return the ClusterWorkflowTemplate of that name."""
        return _readable(lambda: self._templates.cluster_workflow_template(name))


def _readable(get: Callable[[], ArgoObject | None]) -> ArgoObject | None:
    try:
        return get()
    except InvalidInput:
        return None
