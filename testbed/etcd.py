"""Questions to a cluster's etcd, by its JSON gateway."""

import json
import urllib.request

from testbed import network
from testbed.control_plane import ETCD, ControlPlane
from testbed.spec import Json


def ask(plane: ControlPlane, path: str, body: Json) -> Json:
    """Call a method, such as `kv/range`.

    Raises:
        OSError: etcd does not answer, or refuses.
    """

    def call() -> Json:
        request = urllib.request.Request(f"{ETCD}/v3/{path}", json.dumps(body).encode())  # noqa: S310 - ours
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=10.0) as answer:
            return json.load(answer)

    return network.inside(plane.site.hub, call)


def compact(plane: ControlPlane) -> None:
    """Have it forget all versions but the newest."""
    revision = ask(plane, "kv/range", {"key": "AA=="})["header"]["revision"]
    ask(plane, "kv/compaction", {"revision": revision, "physical": True})
