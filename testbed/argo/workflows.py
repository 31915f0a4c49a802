"""Workflows in tests: a namespace where tasks may report; submitting, waiting, reading what became.

A workflow stays a plain mapping, as it is written and as the API server returns it: nothing that a test looks
at can be lost in a model of ours.
"""

from collections.abc import Mapping
from typing import Any, cast

from lightkube import Client
from lightkube.generic_resource import create_namespaced_resource

from testbed import api
from testbed.argo import manifests
from testbed.errors import ComponentFailed
from testbed.spec import Json
from testbed.waiting import wait_for

SERVICE_ACCOUNT = "workflow"  # of a workflow's pods, where the workflow names no other
OVER = {"Succeeded", "Failed", "Error"}

Workflow = create_namespaced_resource("argoproj.io", "v1alpha1", "Workflow", "workflows")


def prepare_namespace(client: Client, namespace: str) -> None:
    """Give a namespace the service account that its workflows' pods have, with the right to report results.

    Raises:
        ApiError: The namespace does not exist, or was prepared before.
    """
    role = manifests.executor_role(namespace)
    placed = {"name": SERVICE_ACCOUNT, "namespace": namespace}
    api.create_all(
        client,
        [
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": placed},
            role,
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "RoleBinding",
                "metadata": placed,
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "Role",
                    "name": role["metadata"]["name"],
                },
                "subjects": [{"kind": "ServiceAccount", **placed}],
            },
        ],
    )


def submit(client: Client, namespace: str, workflow: Json) -> str:
    """Create a workflow, written as in a manifest, and return its name (drawn where it has a `generateName`).

    Raises:
        ApiError: The API server refused it.
    """
    created = client.create(Workflow.from_dict(workflow), namespace=namespace)
    assert created.metadata is not None  # noqa: S101 - the API server gives every object its metadata
    return str(created.metadata.name)


def get(client: Client, namespace: str, name: str) -> Json:
    """The workflow as it is now."""
    return dict(client.get(Workflow, name, namespace=namespace).to_dict())


def phase_of(workflow: Json) -> str:
    """Its phase; empty before the controller has looked at it."""
    return str((workflow.get("status") or {}).get("phase") or "")


def wait_for_end(client: Client, namespace: str, name: str, within_s: float = 60.0) -> Json:
    """Wait until a workflow is over, however it ended, and return it.

    Raises:
        ComponentFailed: It was not over in time; the message says how far it was.
    """
    seen: Json = {}

    def look() -> bool:
        seen.clear()
        seen.update(get(client, namespace, name))
        return phase_of(seen) in OVER

    try:
        wait_for(f"workflow {namespace}/{name} is over", look, within_s)
    except ComponentFailed as late:
        tasks = ", ".join(f"{task}={node['phase']}" for task, node in nodes(seen).items())
        raise ComponentFailed(f"{late}: phase {phase_of(seen) or 'none'}, {tasks or 'no task yet'}") from late
    return seen


def nodes(workflow: Json) -> dict[str, Json]:
    """What became of its tasks and of the groups that they are in, by their path in the workflow.

    The whole has the workflow's own name, a task of the entry point that of the task; `fan(3:d)` is an item
    of a fan-out, `shaky(1)` the second attempt of a task that is tried again, `onExit` the exit handler.

    Raises:
        ComponentFailed: Argo packed them, as it does above 1 MB; this reader does not unpack.
    """
    status = cast("Mapping[str, Any]", workflow.get("status") or {})
    if status.get("compressedNodes") or status.get("offloadNodeStatusVersion"):
        raise ComponentFailed(
            "the states of the workflow's tasks are packed (status.compressedNodes): use fewer tasks"
        )
    prefix = f"{workflow['metadata']['name']}."
    found = cast("Mapping[str, Json]", status.get("nodes") or {})
    return {str(node["name"]).removeprefix(prefix): node for node in found.values()}


def pod_nodes(workflow: Json) -> dict[str, Json]:
    """Those of `nodes` that are one pod each."""
    return {name: node for name, node in nodes(workflow).items() if node["type"] == "Pod"}
