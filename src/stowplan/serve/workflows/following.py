"""Follows the live Argo objects: takes what the watches tell, and reads it in a thread, one after the other.

Of a workflow only its newest version is read; versions that came meanwhile are passed over. A workflow that
has ended is kept until its pods have had their last word, then it is dropped; one that had ended before it
was first seen, and whose pods nobody knows, is only noted in the history.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Final, Protocol

import structlog

from stowplan.errors import StowplanError
from stowplan.kube.api import resources
from stowplan.kube.api.client import ApiClient
from stowplan.kube.api.errors import KubernetesError, NotFound
from stowplan.kube.api.reflection import Health, Identity, ReflectorState, Settings
from stowplan.kube.api.reflector import Reflector
from stowplan.kube.live.templates import Templates
from stowplan.serve.workflows.document import Reading, WorkflowHead, WorkflowReader, head_of
from stowplan.serve.workflows.entries import WorkflowEntry
from stowplan.serve.workflows.expectations import Expectations
from stowplan.serve.workflows.metrics import WorkflowMetrics
from stowplan.serve.workflows.settings import BookSettings

__all__ = ["Following", "Owner"]

_log = structlog.get_logger(__name__)
_NAMES: Final = {
    resources.WORKFLOWS: "workflows",
    resources.WORKFLOW_TEMPLATES: "workflowtemplates",
    resources.CLUSTER_WORKFLOW_TEMPLATES: "clusterworkflowtemplates",
}


class Owner(Protocol):
    """Who is told what becomes of workflows, and holds those that are followed."""

    workflows: dict[str, WorkflowEntry]

    def workflow_read(self, entry: WorkflowEntry, *, is_new_graph: bool) -> None:
        """A version was read; with `is_new_graph` its tracking is another than before."""
        ...

    def workflow_gone(self, entry: WorkflowEntry) -> None:
        """A workflow is no longer followed."""
        ...

    def wants(self, head: WorkflowHead) -> bool:
        """Whether a workflow that ended before it was seen is to be read: pods of it are known."""
        ...


class Following:
    """The live workflows by namespace and name.

    Attributes:
        entries: those that are followed.
    """

    def __init__(  # noqa: PLR0913 - three of them have a default that fits
        self,
        client: ApiClient,
        owner: Owner,
        expectations: Expectations,
        metrics: WorkflowMetrics,
        settings: BookSettings,
        *,
        reflector_settings: Settings | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """Follow what `client` sees once `run` runs; tell `owner`."""
        self.entries = owner.workflows
        self._client = client
        self._owner = owner
        self._expectations = expectations
        self._metrics = metrics
        self._settings = settings
        self._monotonic = monotonic
        self._wall = wall
        self._templates = Templates(self._template_changed)
        self._inbox: dict[str, bytes | None] = {}
        self._renewals: set[str] = set()
        self._changed_namespaces: set[str] = set()
        self._wake = asyncio.Event()
        self._is_busy = False
        self._told: dict[str, tuple[ReflectorState, str]] = {}
        make = {
            resources.WORKFLOWS: self,
            resources.WORKFLOW_TEMPLATES: self._templates.local,
            resources.CLUSTER_WORKFLOW_TEMPLATES: self._templates.cluster,
        }
        self._reflectors = {
            _NAMES[resource]: Reflector(client, resource, bytes, receiver, settings=reflector_settings)
            for resource, receiver in make.items()
        }

    # ---- what the watches tell ----

    def set(self, identity: Identity, item: bytes) -> None:
        """A workflow came, or changed."""
        self._inbox[identity.key] = item
        self._wake.set()

    def delete(self, identity: Identity) -> None:
        """A workflow is gone."""
        self._inbox[identity.key] = None
        self._wake.set()

    def synced(self) -> None:
        """All were told."""

    def _template_changed(self, namespace: str) -> None:
        self._changed_namespaces.add(namespace)
        self._wake.set()

    # ---- how it fares ----

    @property
    def health(self) -> Mapping[str, Health]:
        """How the copies of the kinds fare."""
        return {name: reflector.health for name, reflector in self._reflectors.items()}

    @property
    def is_settled(self) -> bool:
        """Whether all workflows were listed and read. Where they cannot be, nobody is to wait for them."""
        health = self._reflectors["workflows"].health
        if health.state is ReflectorState.WAITING and not health.is_synced:
            return True
        return health.is_settled and not self._inbox and not self._is_busy

    @property
    def is_absent(self) -> bool:
        """Whether the server does not know Argo's workflows."""
        return self._reflectors["workflows"].health.state is ReflectorState.ABSENT

    def look(self) -> None:
        """Log what has changed in how the copies fare."""
        for name, health in self.health.items():
            now = (health.state, health.error if health.state is ReflectorState.WAITING else "")
            before = self._told.get(name)
            if now == before or health.state is ReflectorState.LISTING:
                continue
            self._told[name] = now
            if health.state is ReflectorState.ABSENT:
                _log.warning("argo is not installed", kind=name, reason=health.error)
            elif health.state is ReflectorState.WAITING:
                _log.warning("argo objects cannot be watched", kind=name, reason=health.error)
            elif before is not None:
                _log.info("argo objects are watched", kind=name)

    # ---- work ----

    async def run(self) -> None:
        """Follow until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for reflector in self._reflectors.values():
                tasks.create_task(reflector.run())
            tasks.create_task(self._work())

    async def _work(self) -> None:
        await self._templates_are_listed()
        while True:
            await self._wake.wait()
            self._wake.clear()
            self._is_busy = True
            try:
                await self._empty()
            finally:
                self._is_busy = False

    async def _empty(self) -> None:
        while self._inbox or self._renewals or self._changed_namespaces:
            if self._inbox:
                key = next(iter(self._inbox))
                raw = self._inbox.pop(key)
                if raw is None:
                    self.drop(key)
                else:
                    await self._take(key, raw)
            elif self._changed_namespaces:
                await self._read_again()
            else:
                await self._renew(self._renewals.pop())

    async def _templates_are_listed(self) -> None:
        until_s = self._monotonic() + self._settings.templates_s
        names = ("workflowtemplates", "clusterworkflowtemplates")
        while not all(self._reflectors[name].health.is_settled for name in names):
            if self._monotonic() >= until_s:
                _log.warning("workflows are read without templates", reason="they could not be listed yet")
                return
            await asyncio.sleep(0.05)

    def drop(self, key: str) -> None:
        """Follow a workflow no longer."""
        entry = self.entries.pop(key, None)
        self._renewals.discard(key)
        if entry is not None:
            self._owner.workflow_gone(entry)

    def renew(self) -> None:
        """Let the expected durations of all workflows follow from the newest model."""
        self._renewals = set(self.entries)
        self._wake.set()

    async def _take(self, key: str, raw: bytes) -> None:
        """Read a version of a workflow, and tell what it says."""
        try:
            head = await asyncio.to_thread(head_of, raw)
        except StowplanError as error:
            _log.warning("workflow cannot be read", workflow=key, reason=str(error))
            return
        entry = self.entries.get(key)
        if entry is not None and entry.head is not None and entry.head.uid != head.uid:
            self.drop(key)  # deleted and made again, unseen
            entry = None
        is_wanted = entry is not None or not head.has_ended or self._owner.wants(head)
        if entry is None:
            entry = WorkflowEntry(key)
            if is_wanted:
                self.entries[key] = entry
        begin_s = time.perf_counter()
        try:
            if is_wanted:
                of_graph, submitted_s = self._expectations.of_graph, self._submitted_mono_s(head)
                reading = await asyncio.to_thread(
                    entry.reader.read, raw, self._templates, of_graph, submitted_s
                )
            else:
                reading = await asyncio.to_thread(WorkflowReader.glance, raw)
        except StowplanError as error:
            _log.warning("workflow cannot be read", workflow=key, reason=str(error))
            return
        except Exception:  # noqa: BLE001 - whatever a reader trips over in one workflow, others go on
            _log.exception("workflow cannot be read", workflow=key)
            return
        self._metrics.read(time.perf_counter() - begin_s)
        await self._apply(entry, reading)

    async def _apply(self, entry: WorkflowEntry, reading: Reading) -> None:
        if reading.problem and reading.problem != entry.problem:
            _log.warning("workflow has no task graph", workflow=entry.key, reason=reading.problem)
        if reading.nodes_problem and reading.nodes_problem != entry.nodes_problem:
            _log.warning("workflow status cannot be read", workflow=entry.key, reason=reading.nodes_problem)
        entry.head, entry.origin = reading.head, reading.origin
        entry.problem, entry.nodes_problem = reading.problem, reading.nodes_problem
        is_new_graph = reading.tracking is not None or bool(reading.problem)
        if is_new_graph:
            entry.tracking = reading.tracking
        elif entry.tracking is not None:
            until_s = time.perf_counter() + self._settings.slice_s
            for fact in reading.facts:
                fact(entry.tracking)
                if time.perf_counter() >= until_s:
                    entry.tracking.settle()
                    await asyncio.sleep(0)
                    until_s = time.perf_counter() + self._settings.slice_s
            entry.tracking.settle()
        if not reading.head.has_ended:
            entry.ended_mono_s = None
        elif entry.ended_mono_s is None:
            entry.ended_mono_s = self._monotonic()
        self._owner.workflow_read(entry, is_new_graph=is_new_graph)

    async def _read_again(self) -> None:
        """Read the workflows again that have no graph: the template that they lacked may be there now."""
        namespaces, self._changed_namespaces = self._changed_namespaces, set()
        for entry in [one for one in self.entries.values() if one.problem and one.head is not None]:
            namespace, _, name = entry.key.partition("/")
            if "" not in namespaces and namespace not in namespaces:
                continue
            try:
                raw = await self._client.get(resources.WORKFLOWS, name, namespace)
            except NotFound:
                continue  # the watch will tell
            except KubernetesError as error:
                _log.warning("workflow cannot be fetched again", workflow=entry.key, reason=str(error))
                continue
            entry.reader.forget()
            await self._take(entry.key, raw)

    async def _renew(self, key: str) -> None:
        entry = self.entries.get(key)
        if entry is None or entry.tracking is None:
            return
        workflow = await asyncio.to_thread(entry.reader.renew, self._expectations.of_graph)
        if workflow is not None and self.entries.get(key) is entry:
            entry.tracking.expect(workflow)
            entry.tracking.settle()

    def _submitted_mono_s(self, head: WorkflowHead) -> float:
        now_s = self._wall()
        ago_s = 0.0 if head.submitted_s is None else max(0.0, now_s - head.submitted_s)
        return self._monotonic() - ago_s
