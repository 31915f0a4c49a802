"""A real API server with Argo's full definitions takes every planned example that it takes unplanned.

The full definitions check every field of a workflow, those that Stowplan writes among them, and the rules of
the API server (CEL) bound how much there may be of each.
"""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stowplan.kube.api.access import from_kubeconfig
from stowplan.kube.api.client import ApiClient
from stowplan.kube.api.errors import NotFound, Refused, ServerFailed, TooManyRequests
from stowplan.kube.api.resources import (
    CLUSTER_WORKFLOW_TEMPLATES,
    CRON_WORKFLOWS,
    WORKFLOW_TEMPLATES,
    WORKFLOWS,
)
from stowplan.kube.argo import Shelf, is_argo_object, open_object
from stowplan.kube.plan import plan_object
from testbed import cluster as clusters
from testbed.argo import manifests
from testbed.cluster import Cluster
from testbed.errors import MissingPrerequisite
from testbed.pods import kubectl
from testbed.programs import PROGRAMS, module_folder
from testbed.spec import ClusterSpec
from testbed.waiting import wait_for
from tests.golden.plan.cases import OPTIONS, read_examples

Json = dict[str, Any]

KINDS = {
    resource.kind: resource
    for resource in (WORKFLOWS, WORKFLOW_TEMPLATES, CLUSTER_WORKFLOW_TEMPLATES, CRON_WORKFLOWS)
}
SERVED_S = 240.0
NOT_SERVED = "not served"
AT_ONCE = 4

# The API server compiles 2.5 MB of schema for each kind: 15 s on two idle cores, a minute on busy ones.
pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="session")
def plane(repository: Path) -> Iterator[Cluster]:
    """A cluster of its own without scheduler and nodes, with Argo's full definitions."""
    try:
        running = clusters.start(ClusterSpec(scheduler=None), owned=True)
    except MissingPrerequisite as missing:
        pytest.skip(str(missing))
    try:
        _define(running)
        yield running
    except BaseException:
        running.keep_logs(repository / "out" / "cluster-logs" / running.site.name)
        raise
    finally:
        running.down()


def _define(running: Cluster) -> None:
    """Create the definitions and wait until their kinds are served."""
    folder = module_folder(PROGRAMS["workflow-controller"], manifests.MODULE) / "manifests/base/crds/full"
    for resource in KINDS.values():
        kubectl(running.site, "create", "-f", str(folder / f"{resource.group}_{resource.plural}.yaml"))
    empty = {kind: {"kind": kind} for kind in KINDS}
    wait_for("Argo's kinds are served", lambda: NOT_SERVED not in verdicts(running, empty).values(), SERVED_S)


async def _verdict(client: ApiClient, raw: Json) -> str:
    """What the API server says to an object, in a dry run: nothing, if it would take it."""
    resource = KINDS[raw["kind"]]
    body = {"apiVersion": resource.api_version, **raw}
    while True:
        try:
            await client.create(resource, body, "default" if resource.is_namespaced else None, dry_run=True)
        except (NotFound, ServerFailed):
            return NOT_SERVED
        except TooManyRequests:  # it sets up the storage of the kind
            await asyncio.sleep(0.5)
        except Refused as refused:
            return str(refused)
        else:
            return ""


def verdicts(plane: Cluster, documents: dict[str, Json]) -> dict[str, str]:
    """What the API server says to each document."""

    async def ask() -> dict[str, str]:
        free = asyncio.Semaphore(AT_ONCE)
        async with ApiClient(from_kubeconfig([plane.site.kubeconfig])) as client:

            async def of(key: str) -> tuple[str, str]:
                async with free:
                    return key, await _verdict(client, documents[key])

            return dict(await asyncio.gather(*map(of, documents)))

    return asyncio.run(ask())


@pytest.fixture(scope="session")
def examples(shared_data: Path) -> dict[str, Json]:
    """The shared examples of Argo's kinds."""
    found = {key: raw for key, raw in read_examples(shared_data).items() if is_argo_object(raw)}
    assert len(found) > 150
    return found


@pytest.fixture(scope="session")
def unplanned(plane: Cluster, examples: dict[str, Json]) -> dict[str, str]:
    """What the API server says to the examples as they are."""
    return verdicts(plane, examples)


def test_the_api_server_reads_what_is_in_a_workflow(plane: Cluster, unplanned: dict[str, str]) -> None:
    assert sum(not verdict for verdict in unplanned.values()) > 150
    wrong = {
        "metadata": {"name": "wrong"},
        "spec": {"entrypoint": "main", "schedulerName": 1, "templates": [{"name": "main", "suspend": {}}]},
    }
    assert "schedulerName" in verdicts(plane, {"wrong": {"kind": "Workflow", **wrong}})["wrong"]


@pytest.mark.parametrize("name", OPTIONS)
def test_every_planned_example_is_taken_as_the_example_itself_is(
    plane: Cluster, examples: dict[str, Json], unplanned: dict[str, str], name: str
) -> None:
    shelf = Shelf(open_object(raw) for raw in examples.values())
    planned = {key: plan_object(raw, OPTIONS[name], source=shelf).result for key, raw in examples.items()}
    assert verdicts(plane, json.loads(json.dumps(planned))) == unplanned
