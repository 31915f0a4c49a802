"""Prometheus' answers, read: samples, targets, and refusals in its own words."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import ClassVar

import pytest

from testbed.errors import BedError
from testbed.monitoring import Sample, Target, interface, query, targets
from testbed.site import Site


class Here(Site):
    """A cluster whose hub is this machine's loopback."""

    @property
    def hub_address(self) -> str:
        return "127.0.0.1"


class Answers(BaseHTTPRequestHandler):
    """A Prometheus that gives one answer."""

    status: ClassVar[int] = 200
    answer: ClassVar[object] = None
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        body = json.dumps(self.answer).encode()
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's name
        """Say nothing."""


@pytest.fixture
def prometheus(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Answers]]:
    class Own(Answers):
        asked: ClassVar[list[str]] = []

    with HTTPServer(("127.0.0.1", 0), Own) as server:
        monkeypatch.setattr(interface, "PORT", server.server_port)
        thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01))
        thread.start()
        yield Own
        server.shutdown()
        thread.join()


def gives(prometheus: type[Answers], kind: str, result: object) -> None:
    prometheus.answer = {"status": "success", "data": {"resultType": kind, "result": result}}


SITE = Here("x", 128)


def test_a_vector_is_its_samples(prometheus: type[Answers]) -> None:
    gives(prometheus, "vector", [{"metric": {"__name__": "up", "job": "j"}, "value": [12.5, "1"]}])
    assert query(SITE, "up + 0") == [Sample({"__name__": "up", "job": "j"}, 1.0, 12.5)]
    assert prometheus.asked == ["/api/v1/query?query=up+%2B+0"]


def test_a_scalar_is_one_sample_without_labels(prometheus: type[Answers]) -> None:
    gives(prometheus, "scalar", [3, "+Inf"])
    assert query(SITE, "1/0") == [Sample({}, float("inf"), 3.0)]


@pytest.mark.parametrize("kind", ["matrix", "string"])
def test_what_has_no_value_now_is_refused(prometheus: type[Answers], kind: str) -> None:
    gives(prometheus, kind, [])
    with pytest.raises(ValueError, match=rf"'up\[1m\]' gives a {kind}"):
        query(SITE, "up[1m]")


def test_a_refused_query_is_told_in_prometheus_words(prometheus: type[Answers]) -> None:
    prometheus.status = 400
    prometheus.answer = {"status": "error", "error": "parse error at char 3"}
    with pytest.raises(BedError, match="parse error at char 3"):
        query(SITE, "up{")
    assert not interface.is_ready(SITE)


def test_a_prometheus_that_does_not_run_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interface, "PORT", 1)
    with pytest.raises(BedError, match="Prometheus of cluster x does not answer"):
        targets(SITE)
    assert not interface.is_ready(SITE)


def test_targets_are_read(prometheus: type[Answers]) -> None:
    prometheus.answer = {
        "data": {
            "activeTargets": [
                {"labels": {"job": "a"}, "health": "up", "lastError": ""},
                {"labels": {"job": "b", "node": "node-1"}, "health": "down", "lastError": "refused"},
            ]
        }
    }
    assert targets(SITE) == [Target("a", "", "up", ""), Target("b", "node-1", "down", "refused")]
