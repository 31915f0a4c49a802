"""A kube-scheduler extender that records: where a pod may run, and which node kube-scheduler takes.

kube-scheduler asks its extenders after its own filters, so the node names of a Filter call are exactly the
nodes that passed them; they are returned unchanged. The node that it then chooses is named in the Bind call,
which is refused: the pod stays pending, and the cluster as it was.

A pod that is nominated for a node is tried on that node alone first (`findNodesThatFitPod`), with a Filter
call of its own when the node passes. That call is answered with no nodes, upon which kube-scheduler goes on
to all of them.

The protocol is that of `pkg/scheduler/extender.go` and `k8s.io/kube-scheduler/extender/v1` (1.37); its JSON
keys are the names of the Go fields.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final, Self

import msgspec

from testbed.errors import ComponentFailed
from testbed.spec import Json

__all__ = ["NOT_BOUND", "Recorded", "RecordingExtender"]

FILTER_VERB: Final = "filter"
BIND_VERB: Final = "bind"
NOT_BOUND: Final = "recorded and not bound"
"""What Bind calls are answered with; kube-scheduler puts it in the pod's condition."""

SECONDS_FOR_AN_ANSWER: Final = 30  # the machine may be busy; kube-scheduler's own default is 5


@dataclass(frozen=True, slots=True)
class Recorded:
    """What kube-scheduler told of one pod.

    Attributes:
        feasible: The nodes that passed its filters; None when no node did, or it was never asked.
        chosen: The node that it wanted to bind the pod to; None when it did not come to that.
        fits_where_nominated: Whether the node that the pod is nominated for passed its filters: it would have
            taken that one without a look at the others.
    """

    feasible: frozenset[str] | None = None
    chosen: str | None = None
    fits_where_nominated: bool = False


class _Metadata(msgspec.Struct):
    uid: str


class _Status(msgspec.Struct):
    nominatedNodeName: str = ""  # noqa: N815  (a key of the protocol)


class _Pod(msgspec.Struct):
    metadata: _Metadata
    status: _Status = msgspec.field(default_factory=_Status)


class _FilterCall(msgspec.Struct, rename="pascal"):
    pod: _Pod
    node_names: list[str]


class _BindCall(msgspec.Struct):
    uid: str = msgspec.field(name="PodUID")
    node: str = msgspec.field(name="Node")


class RecordingExtender(contextlib.AbstractContextManager["RecordingExtender"]):
    """The extender, served by threads of this process; use it as a context manager."""

    def __init__(self, listening: socket.socket) -> None:
        """Serve on a listening TCP socket, which is closed at the end."""
        address, port = listening.getsockname()[:2]
        self.url = f"http://{address}:{port}"
        self._lock = threading.Lock()
        self._feasible: dict[str, frozenset[str]] = {}
        self._chosen: dict[str, str] = {}
        self._tried_where_nominated: set[str] = set()
        self._failures: list[str] = []
        self._server = ThreadingHTTPServer((address, port), _handler_for(self), bind_and_activate=False)
        self._server.daemon_threads = True
        self._server.socket.close()
        self._server.socket = listening
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def configuration(self) -> Json:
        """The entry in `extenders` of KubeSchedulerConfiguration."""
        return {
            "urlPrefix": self.url,
            "filterVerb": FILTER_VERB,
            "bindVerb": BIND_VERB,
            "nodeCacheCapable": True,  # names of nodes, not whole nodes
            "httpTimeout": f"{SECONDS_FOR_AN_ANSWER}s",
        }

    def __enter__(self) -> Self:
        """Begin to serve."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop serving and close the socket."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def recorded(self, uid: str) -> Recorded:
        """What was told of the pod with that uid so far.

        Raises:
            ComponentFailed: Some call could not be understood, so nothing that was recorded can be relied on.
        """
        with self._lock:
            if self._failures:
                raise ComponentFailed(f"the recording extender was sent {self._failures[0]}")
            return Recorded(
                self._feasible.get(uid), self._chosen.get(uid), uid in self._tried_where_nominated
            )

    def answer(self, verb: str, body: bytes) -> Json:
        """Record a call and return its answer.

        Args:
            verb: The last part of the URL's path.
            body: JSON.

        Raises:
            msgspec.DecodeError: The body is not what the verb is sent with.
            ValueError: There is no such verb.
        """
        if verb == FILTER_VERB:
            return {"NodeNames": self._filter(msgspec.json.decode(body, type=_FilterCall))}
        if verb == BIND_VERB:
            call = msgspec.json.decode(body, type=_BindCall)
            with self._lock:
                self._chosen.setdefault(call.uid, call.node)
            return {"Error": NOT_BOUND}
        raise ValueError(f"no verb is named {verb!r}")

    def note_failure(self, what: str) -> None:
        """Remember a call that could not be answered; `recorded` raises it."""
        with self._lock:
            self._failures.append(what)

    def _filter(self, call: _FilterCall) -> list[str]:
        uid, nominated = call.pod.metadata.uid, call.pod.status.nominatedNodeName
        with self._lock:
            is_first = uid not in self._tried_where_nominated and uid not in self._feasible
            if nominated and is_first and call.node_names == [nominated]:
                self._tried_where_nominated.add(uid)
                return []
            # A pod that comes back is judged in a cluster that may have changed: the first time counts.
            self._feasible.setdefault(uid, frozenset(call.node_names))
        return call.node_names


def _handler_for(extender: RecordingExtender) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # one connection for all calls
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            try:
                answer, status = extender.answer(self.path.rpartition("/")[2], body), HTTPStatus.OK
            except ValueError as wrong:  # msgspec's errors are ValueErrors
                extender.note_failure(f"{self.path}: {wrong}")
                answer, status = {"Error": str(wrong)}, HTTPStatus.BAD_REQUEST
            content = msgspec.json.encode(answer)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (http.server's name)
            """Write nothing: what was sent is recorded."""

    return Handler
