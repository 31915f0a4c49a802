"""An API server of a few objects for tests of actuators: reads, patches that may be refused, bindings."""

import json
from collections.abc import Callable
from typing import Any

from aiohttp import web

from tests.unit.kube_api.server import FakeServer

Json = dict[str, Any]
Fault = Callable[[str, str], int | None]


class ObjectServer(FakeServer):
    """Objects by path; patches merge, or are JSON patches; every change is a new version.

    Attributes:
        kept: Objects by path.
        fault: Asked with method and path of each request; a status code refuses it.
        on_change: Called after each change.
    """

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[str, Json] = {}
        self.fault: Fault = lambda *_: None
        self.on_change: Callable[[], None] = lambda: None
        self.patches: list[tuple[str, Any]] = []
        self.bound: list[Json] = []

    def keep(self, path: str, **fields: Any) -> Json:  # noqa: ANN401 - whatever the object has
        """Put an object there."""
        self.version += 1
        metadata = {"uid": f"uid-{path.rpartition('/')[2]}", **fields.pop("metadata", {})}
        metadata |= {"name": path.rpartition("/")[2], "resourceVersion": str(self.version)}
        if "namespaces" in path:
            metadata["namespace"] = path.split("/")[4]
        self.kept[path] = {"metadata": metadata, "spec": {}, **fields}
        return self.kept[path]

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        path = request.path
        code = self.fault(request.method, path)
        if code is not None:
            return _status(code, "no")
        if request.method == "POST" and path.endswith("/binding"):
            self.bound.append(await request.json())
            return _status(201, "bound")
        made = self.kept.get(path)
        if made is None:
            return _status(404, "no such object")
        if request.method == "PATCH":
            patch = json.loads(await request.read())
            self.patches.append((path, patch))
            if isinstance(patch, list):
                _apply(made, patch)
            elif patch["metadata"]["resourceVersion"] != made["metadata"]["resourceVersion"]:
                return _status(409, "it has changed")
            else:
                _merge(made, patch)
            self.version += 1
            made["metadata"]["resourceVersion"] = str(self.version)
            self.on_change()
        return web.json_response(made)


def _status(code: int, message: str) -> web.Response:
    reason = {404: "NotFound", 409: "Conflict", 422: "Invalid"}.get(code, "")
    return web.json_response(
        {"kind": "Status", "code": code, "reason": reason, "message": message}, status=code
    )


def _merge(into: Json, patch: Json) -> None:
    for key, value in patch.items():
        if value is None:
            into.pop(key, None)
        elif isinstance(value, dict):
            _merge(into.setdefault(key, {}), value)
        else:
            into[key] = value


def _apply(to: Json, patch: list[Json]) -> None:
    """Apply the few operations that a release has."""
    for one in patch:
        *parents, last = one["path"].strip("/").split("/")
        at: Any = to
        for name in parents:
            at = at[int(name)] if isinstance(at, list) else at[name]
        if one["op"] == "test":
            assert at[last] == one["value"]
        elif one["op"] == "remove":
            del at[int(last) if isinstance(at, list) else last]
        else:
            at[last] = one["value"]
