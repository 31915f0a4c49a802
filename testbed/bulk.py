"""Requests in bulk: JSON over kept connections, with little work of our own, for what is timed.

A typed client spends a millisecond on an object; where thousands are made while something is measured on the
same processors, that is a part of the measurement.
"""

import http.client
import json
import ssl
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Self

from testbed.control_plane import ControlPlane
from testbed.errors import ComponentFailed
from testbed.spec import Json

CONNECTIONS = 8
JSON = "application/json"
METADATA = f"{JSON};as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"


class Connection:
    """A connection to the API server with all rights, ended by its block; one thread may use it at a time."""

    def __init__(self, plane: ControlPlane) -> None:
        context = ssl.create_default_context(cafile=plane.authority.pair.certificate)
        context.load_cert_chain(plane.administrator.certificate, plane.administrator.key)
        self._connection = http.client.HTTPSConnection(plane.site.hub_address, context=context)

    def send(self, method: str, path: str, body: Json | None = None, accept: str = JSON) -> bytes:
        """Make a request and return the answer's body, in the form that is accepted.

        Raises:
            ComponentFailed: The API server refused it.
        """
        text = None if body is None else json.dumps(body)
        self._connection.request(method, path, text, {"Content-Type": JSON, "Accept": accept})
        answer = self._connection.getresponse()
        said = answer.read()
        if answer.status >= http.HTTPStatus.BAD_REQUEST:
            raise ComponentFailed(f"{method} {path}: {answer.status} {said.decode()[:300]}")
        return said

    def get(self, path: str) -> Json:
        """An object, or a list of them."""
        return json.loads(self.send("GET", path))

    def metadata(self, path: str) -> list[Json]:
        """The metadata of the objects of a list: what can be asked for again and again at little cost."""
        return [
            item["metadata"] for item in json.loads(self.send("GET", path, accept=METADATA))["items"] or []
        ]

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the connection."""
        self._connection.close()


def create_pods(plane: ControlPlane, namespace: str, manifests: Sequence[Json]) -> None:
    """Create pods over several connections at once, roughly in their order.

    Raises:
        ComponentFailed: The API server refused one.
    """

    def create(first: int) -> None:
        with Connection(plane) as connection:
            for manifest in manifests[first::CONNECTIONS]:
                connection.send("POST", f"/api/v1/namespaces/{namespace}/pods", manifest)

    with ThreadPoolExecutor(CONNECTIONS) as pool:
        for done in [pool.submit(create, first) for first in range(CONNECTIONS)]:
            done.result()


def delete_pods(connection: Connection, namespace: str) -> None:
    """Delete all pods of a namespace without waiting for their grace; returns when all deletions are made."""
    connection.send("DELETE", f"/api/v1/namespaces/{namespace}/pods?gracePeriodSeconds=0")


def count_pods(connection: Connection, namespace: str) -> int:
    """How many pods a namespace has, without reading them."""
    listed = connection.get(f"/api/v1/namespaces/{namespace}/pods?limit=1")
    return len(listed["items"]) + listed["metadata"].get("remainingItemCount", 0)
