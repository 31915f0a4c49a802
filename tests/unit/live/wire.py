"""A cluster's objects as an API server would tell them, event by event or as a list, to a feed under test."""

import json
from contextlib import suppress

import msgspec

from stowplan.core.domain import ClusterState
from stowplan.kube.api.resources import Resource
from stowplan.kube.api.wire import Page, WatchEvent
from stowplan.kube.live.feed import ClusterFeed
from stowplan.kube.live.listener import ClusterChange
from stowplan.kube.live.pod import LivePod
from tests.unit.live.objects import Json

Key = tuple[str, str, str]
"""Kind, namespace (empty where there is none) and name."""


def key_of(document: Json) -> Key:
    metadata = document["metadata"]
    return document["kind"], metadata.get("namespace", ""), metadata["name"]


class Server:
    """Holds objects; each change of one gets the next version. It is the feed's client for lists."""

    def __init__(self) -> None:
        self.objects: dict[Key, Json] = {}
        self.version = 100

    def put(self, document: Json) -> Json:
        """Create or change an object."""
        self.version += 1
        stored = json.loads(json.dumps(document))
        stored["metadata"]["resourceVersion"] = str(self.version)
        self.objects[key_of(stored)] = stored
        return stored

    def remove(self, key: Key) -> Json:
        """Delete an object; the last that is told of it."""
        self.version += 1
        last = self.objects.pop(key)
        return {**last, "metadata": {**last["metadata"], "resourceVersion": str(self.version)}}

    async def page(self, resource: Resource, *_: object, **__: object) -> Page:
        """All objects of a kind, on one page."""
        items = [raw_of(each) for (kind, _, _), each in self.objects.items() if kind == resource.kind]
        return Page(items, str(self.version), "")


def raw_of(document: Json) -> msgspec.Raw:
    """An object as it comes in a list or a watch: its kind is not in it."""
    return msgspec.Raw(json.dumps({k: v for k, v in document.items() if k != "kind"}).encode())


class Listening:
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.pods: list[tuple[LivePod | None, LivePod]] = []
        self.gone: list[LivePod] = []
        self.changes: list[ClusterChange] = []

    def pod_set(self, before: LivePod | None, now: LivePod) -> None:
        self.pods.append((before, now))

    def pod_gone(self, last: LivePod) -> None:
        self.gone.append(last)

    def cluster_changed(self, change: ClusterChange) -> None:
        self.changes.append(change)


class World:
    """A server, and a feed that hears of its changes when the test says so."""

    def __init__(self) -> None:
        self.server = Server()
        self.state = ClusterState()
        self.feed = ClusterFeed(self.server, self.state)  # pyright: ignore[reportArgumentType]
        self.heard = Listening()
        self.feed.listen(self.heard)

    def put(self, document: Json) -> None:
        """Create or change an object, and tell."""
        self.tell("MODIFIED", self.server.put(document))

    def remove(self, kind: str, name: str, namespace: str = "") -> None:
        """Delete an object, and tell."""
        self.tell("DELETED", self.server.remove((kind, namespace, name)))

    def tell(self, event: str, document: Json) -> None:
        """One event of a watch."""
        self.feed._reflectors[document["kind"]]._take(WatchEvent(event, raw_of(document)))

    def relist(self, *kinds: str) -> None:
        """List kinds (all, if none is named) as after a watch that was lost for too long."""
        for kind in kinds or self.feed._reflectors:
            with suppress(StopIteration):  # nothing in it waits, so no event loop is needed
                self.feed._reflectors[kind]._list().send(None)

    def pod(self, name: str, namespace: str = "default") -> LivePod:
        return self.feed.pods[f"{namespace}/{name}"]
