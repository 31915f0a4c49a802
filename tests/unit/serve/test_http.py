"""Health, metrics, status and explanations over HTTP, as probes, Prometheus and people ask for them."""

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable, Mapping

import aiohttp
import pytest

from stowplan.errors import InvalidInput
from stowplan.serve.health import Checks
from stowplan.serve.http import HttpFace, listening, make_app
from stowplan.serve.metrics import SchedulerMetrics

Answer = tuple[int, str, str]


def asked(
    face: HttpFace, *paths: str, accept: str = "", between: Callable[[], None] = lambda: None
) -> list[Answer]:
    """Return status, content type and text for each path, `between` them."""

    async def ask() -> list[Answer]:
        found: list[Answer] = []
        async with (
            listening(make_app(face), "127.0.0.1", 0) as port,
            aiohttp.ClientSession(f"http://127.0.0.1:{port}", headers={"Accept": accept}) as session,
        ):
            for path in paths:
                async with session.get(path) as answer:
                    found.append((answer.status, answer.content_type, await answer.text()))
                between()
        return found

    return asyncio.run(ask())


def face(checks: Checks | None = None, metrics: SchedulerMetrics | None = None) -> HttpFace:
    async def explain(namespace: str, name: str) -> Mapping[str, object] | None:
        await asyncio.sleep(0)
        return {"pod": f"{namespace}/{name}", "why": "…"} if name == "known" else None

    return HttpFace(
        checks=checks or Checks(),
        registry=(metrics or SchedulerMetrics()).registry,
        status=lambda: {"mode": "binder"},
        pod=explain,
    )


def test_a_process_without_faults_is_alive_and_ready() -> None:
    assert [answer[0] for answer in asked(face(), "/healthz", "/readyz")] == [200, 200]


def test_what_is_not_ready_is_named_and_can_become_ready() -> None:
    state = {"feed": "pods are not listed yet"}
    checks = Checks()
    checks.alive("loop", lambda: "")
    checks.ready("feed", lambda: state["feed"])
    answers = asked(
        face(checks), "/readyz", "/healthz", "/readyz?verbose", between=lambda: state.update(feed="")
    )
    assert answers[0][0] == 503
    assert "[-] feed: pods are not listed yet" in answers[0][2]
    assert [answer[0] for answer in answers[1:]] == [200, 200]
    assert answers[2][2].splitlines() == ["[+] loop", "[+] feed"]


def test_what_is_not_alive_is_not_ready_either() -> None:
    checks = Checks()
    checks.alive("loop", lambda: "stuck for 40 s")
    assert [answer[0] for answer in asked(face(checks), "/healthz", "/readyz")] == [503, 503]


def test_metrics_have_kube_schedulers_names_with_our_prefix() -> None:
    metrics = SchedulerMetrics(profile="stowplan")
    metrics.attempted("scheduled", 0.004)
    metrics.bound(attempts=2, waited_s=1.5)
    metrics.pending(lambda queue: 7 if queue == "active" else 0)
    metrics.degraded("history", "its disk is full")
    ((status, kind, text),) = asked(face(metrics=metrics), "/metrics")
    assert (status, kind) == (200, "text/plain")
    assert 'stowplan_schedule_attempts_total{profile="stowplan",result="scheduled"} 1.0' in text
    assert 'stowplan_pod_scheduling_sli_duration_seconds_count{attempts="2"} 1.0' in text
    assert 'stowplan_pending_pods{queue="active"} 7.0' in text
    assert 'stowplan_degraded{component="history"} 1.0' in text


def test_metrics_come_as_openmetrics_where_asked_for() -> None:
    ((_, kind, text),) = asked(face(), "/metrics", accept="application/openmetrics-text; version=1.0.0")
    assert kind == "application/openmetrics-text"
    assert text.endswith("# EOF\n")


def test_a_degradation_ends() -> None:
    metrics = SchedulerMetrics()
    metrics.degraded("history", "its disk is full")
    assert dict(metrics.degradations) == {"history": "its disk is full"}
    metrics.degraded("history", "")
    assert not metrics.degradations


def test_status_and_explanations_are_json() -> None:
    status, known, unknown, other = asked(
        face(), "/v1/status", "/v1/pods/a/known", "/v1/pods/a/unknown", "/v1/workflows/a/b"
    )
    assert json.loads(status[2]) == {"mode": "binder"}
    assert json.loads(known[2])["pod"] == "a/known"
    assert unknown[0] == 404
    assert "pods a/unknown" in json.loads(unknown[2])["error"]
    assert other[0] == 404


def test_an_address_that_is_taken_is_named() -> None:
    async def listen(port: int) -> None:
        async with listening(make_app(face()), "127.0.0.1", port):
            pass

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port: int = taken.getsockname()[1]
        with pytest.raises(InvalidInput, match=f"cannot listen on 127.0.0.1:{port}.*name another"):
            asyncio.run(listen(port))


def test_answers_under_way_are_finished_when_the_server_ends() -> None:
    begun = asyncio.Event()

    async def slow(_: str, __: str) -> Mapping[str, object] | None:
        begun.set()
        await asyncio.sleep(0.1)
        return {"finished": True}

    async def run() -> str:
        one = HttpFace(checks=Checks(), registry=SchedulerMetrics().registry, pod=slow)
        async with aiohttp.ClientSession() as session:
            async with listening(make_app(one), "127.0.0.1", 0) as port:
                pending: Awaitable[str] = asyncio.ensure_future(_text(session, port))
                await begun.wait()
            return await pending

    assert json.loads(asyncio.run(run())) == {"finished": True}


async def _text(session: aiohttp.ClientSession, port: int) -> str:
    async with session.get(f"http://127.0.0.1:{port}/v1/pods/a/b") as answer:
        return await answer.text()
