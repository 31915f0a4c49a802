"""Requests to the cluster's API server, by lightkube with its typed resources."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
from lightkube import ApiError, Client, KubeConfig
from lightkube.codecs import from_dict
from lightkube.resources.core_v1 import Node, Pod, ServiceAccount

from testbed.spec import Json
from testbed.waiting import wait_for

PARALLEL_REQUESTS = 8
LONGEST_REQUEST_S = 60.0  # to delete hundreds of pods by collection is one request


def connect(kubeconfig: Path) -> Client:
    """A client with the rights of that kubeconfig; it must be closed after use."""
    return Client(
        KubeConfig.from_file(kubeconfig),
        timeout=httpx2.Timeout(LONGEST_REQUEST_S),
        trust_env=False,
        field_manager="stowplan-testbed",
    )


def create_all(client: Client, objects: Iterable[Json]) -> None:
    """Create objects as they are written in manifests, several at a time, in no particular order.

    Raises:
        ApiError: The API server refused one.
    """

    def create(manifest: Json) -> None:
        client.create(from_dict(manifest))

    with ThreadPoolExecutor(PARALLEL_REQUESTS) as pool:
        for _ in pool.map(create, objects):
            pass  # the result is nothing; going through them raises what a request raised


def make_namespace(client: Client, name: str) -> None:
    """Make a namespace and wait until pods can be created in it.

    Raises:
        ApiError: It exists.
        ComponentFailed: The controller manager did not give it a service account.
    """
    client.create(from_dict({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
    wait_for(f"service account of {name}", lambda: exists(client, ServiceAccount, "default", name), 20.0)


def exists(client: Client, kind: type, name: str, namespace: str | None = None) -> bool:
    """Whether the API server has an object of that kind and name."""
    try:
        client.get(kind, name, **({"namespace": namespace} if namespace else {}))
    except ApiError as error:
        if error.status.code == 404:
            return False
        raise
    return True


def ready_nodes(client: Client) -> set[str]:
    """Names of the nodes whose condition Ready is true."""
    ready: set[str] = set()
    for node in client.list(Node):
        conditions = (node.status and node.status.conditions) or []
        if node.metadata and any(c.type == "Ready" and c.status == "True" for c in conditions):
            ready.add(str(node.metadata.name))
    return ready


def delete_pods(client: Client, namespace: str) -> None:
    """Delete all pods of a namespace without waiting for their processes to end by themselves."""
    client.deletecollection(Pod, namespace=namespace, grace_period=0)
