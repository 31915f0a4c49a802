"""The book of workflows where Argo is not installed, comes later, and a template comes after its caller."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from structlog.testing import capture_logs

from stowplan.core.domain import ClusterState
from stowplan.kube.api.client import ApiClient
from stowplan.kube.api.reflection import ReflectorState, Settings
from stowplan.kube.api.resources import (
    CLUSTER_WORKFLOW_TEMPLATES,
    WORKFLOW_TEMPLATES,
    WORKFLOWS,
    Resource,
)
from stowplan.kube.live.feed import ClusterFeed
from stowplan.serve.workflows.book import WorkflowBook
from stowplan.serve.workflows.settings import BookSettings
from tests.cluster.kube_api_plane import DEFINITIONS, Plane, bare_plane

Json = dict[str, Any]

OPEN: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
API = "argoproj.io/v1alpha1"
TEMPLATE: Json = {
    "apiVersion": API,
    "kind": "WorkflowTemplate",
    "metadata": {"name": "later"},
    "spec": {"entrypoint": "main", "templates": [{"name": "main", "container": {"image": "x"}}]},
}
CALLER: Json = {
    "apiVersion": API,
    "kind": "Workflow",
    "metadata": {"name": "caller"},
    "spec": {"workflowTemplateRef": {"name": "later"}},
}


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    with bare_plane() as made:
        yield made


def definition(resource: Resource) -> Json:
    """What installing Argo tells the API server of a kind, in short."""
    version = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": OPEN, "status": OPEN}}},
    }
    return {
        "metadata": {"name": f"{resource.plural}.{resource.group}"},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced" if resource.is_namespaced else "Cluster",
            "names": {
                "plural": resource.plural,
                "singular": resource.kind.lower(),
                "kind": resource.kind,
            },
            "versions": [version],
        },
    }


async def until(what: str, look: Callable[[], object], within_s: float = 30.0) -> None:
    begin_s = time.monotonic()
    while not look():
        assert time.monotonic() - begin_s < within_s, what
        await asyncio.sleep(0.02)


def test_argo_may_be_installed_later_and_a_template_may_come_after_its_caller(plane: Plane) -> None:
    namespace = plane.make_namespace("later")

    async def follow() -> None:
        async with ApiClient(plane.access) as client:
            patient = Settings(first_pause_s=0.05, longest_pause_s=0.5, absent_pause_s=0.2)
            feed = ClusterFeed(client, ClusterState(), settings=patient)
            book = WorkflowBook(client, feed, reflector_settings=patient, settings=BookSettings(tick_s=0.05))
            tasks = [asyncio.create_task(feed.run()), asyncio.create_task(book.run())]
            try:
                await absent(book)
                await installed(client, book, namespace)
            finally:
                for task in tasks:
                    task.cancel()
                    with suppress(asyncio.CancelledError):
                        await task

    async def absent(book: WorkflowBook) -> None:
        await until("it goes on without Argo", lambda: book.is_settled)
        assert book.status["argo"] == "not installed"
        await until("it says so", lambda: said("argo is not installed", "workflows") == 1)
        assert book.health["workflows"].state is ReflectorState.ABSENT
        await asyncio.sleep(0.5)  # it looks again several times, and says no more

    async def installed(client: ApiClient, book: WorkflowBook, namespace: str) -> None:
        for resource in (WORKFLOWS, WORKFLOW_TEMPLATES, CLUSTER_WORKFLOW_TEMPLATES):
            await client.create(DEFINITIONS, definition(resource))
        await until("the kinds are watched", lambda: watched(book))
        await client.create(WORKFLOWS, CALLER, namespace)
        await until("its fault is known", lambda: book.degraded.get("workflows"))
        explained = book.explain_workflow(namespace, "caller")
        assert explained is not None
        assert "no WorkflowTemplate of that name" in explained["problem"]
        assert book.progress_of(f"{namespace}/caller") is None
        await client.create(WORKFLOW_TEMPLATES, TEMPLATE, namespace)
        await until("it has a graph", lambda: book.progress_of(f"{namespace}/caller"))
        assert book.degraded == {}
        await client.delete(WORKFLOWS, "caller", namespace)
        await until("it is gone", lambda: book.explain_workflow(namespace, "caller") is None)

    def watched(book: WorkflowBook) -> bool:
        return all(health.state is ReflectorState.WATCHING for health in book.health.values())

    def said(event: str, kind: str) -> int:
        return sum(line["event"] == event and line["kind"] == kind for line in lines if "kind" in line)

    with capture_logs() as lines:
        asyncio.run(follow())
    assert said("argo is not installed", "workflows") == 1
    assert said("argo objects are watched", "workflows") == 1
    faults = [line for line in lines if line["event"] == "workflow has no task graph"]
    assert [line["workflow"] for line in faults] == [f"{namespace}/caller"]
