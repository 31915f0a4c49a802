"""The HTTP face: verbs, limits, faults, TLS."""

import asyncio
import json
import socket
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
import pytest

from stowplan.serve.extender.app import extender_app
from stowplan.serve.http import listening
from stowplan.serve.tls import ServingCertificate
from testbed.certificates import Authority
from tests.unit.extender.cases import Bench, levels, live_pod, question

Talk = Callable[[aiohttp.ClientSession], Awaitable[None]]


def served(
    bench: Bench, talk: Talk, *, largest: int = 2**20, certificate: ServingCertificate | None = None
) -> None:
    async def run() -> None:
        app = extender_app(bench.extender, bench.metrics, largest)
        scheme = "http" if certificate is None else "https"
        async with (
            listening(app, "127.0.0.1", 0, certificate) as port,
            aiohttp.ClientSession(f"{scheme}://localhost:{port}") as session,
        ):
            await talk(session)

    asyncio.run(run())


def test_verbs_are_answered_with_their_length_over_one_connection() -> None:
    bench = Bench("heft")
    body = question(bench.arrive(live_pod("p")), ["n0", "n1", "n2"])

    async def talk(session: aiohttp.ClientSession) -> None:
        async with session.post("/prioritize", data=body) as answer:
            content = await answer.read()
            assert (answer.status, answer.content_type) == (200, "application/json")
            # Go keeps a connection only when it has seen the end of the body, which it need not look for.
            assert answer.headers["Content-Length"] == str(len(content))
            assert answer.headers.get("Connection", "keep-alive") == "keep-alive"
            assert levels(content, ["n0", "n1", "n2"]) == {"n0": 10, "n1": 9, "n2": 8}
        async with session.post("/filter", data=body) as answer:
            assert json.loads(await answer.read())["NodeNames"] == ["n0", "n1", "n2"]
        async with session.post("/preempt", data=body) as answer:
            assert json.loads(await answer.read()) == {"NodeNameToMetaVictims": {}}

    served(bench, talk)
    for verb in ("prioritize", "filter", "preempt"):
        assert bench.counted("request_duration_seconds_count", verb=verb) == 1


def test_faults_are_named_and_counted() -> None:
    bench = Bench("heft")

    async def talk(session: aiohttp.ClientSession) -> None:
        for verb in ("filter", "prioritize", "preempt"):
            async with session.post(f"/{verb}", data=b'{"Pod":7}') as answer:
                assert answer.status == 400
                assert (await answer.json())["Error"].startswith("Pod: Expected `object`, got `int`")
        async with session.post("/bind", data=b"{}") as answer:
            assert answer.status == 404, "kube-scheduler binds"
        async with session.get("/filter") as answer:
            assert answer.status == 405

    served(bench, talk)
    assert [
        bench.counted("bad_requests_total", verb=verb) for verb in ("filter", "prioritize", "preempt")
    ] == [1] * 3


def test_bodies_have_a_limit() -> None:
    bench = Bench("heft")
    body = question(bench.arrive(live_pod("p")), ["n0", "n1"])

    async def talk(session: aiohttp.ClientSession) -> None:
        async with session.post("/prioritize", data=body + b" " * 20_000) as answer:
            assert answer.status == 413
        async with session.post("/prioritize", data=body) as answer:
            assert answer.status == 200

    served(bench, talk, largest=10_000)
    assert bench.counted("bad_requests_total", verb="prioritize") == 1


def test_a_question_whose_caller_has_hung_up_is_not_scored() -> None:
    """As after a standstill: what kube-scheduler gave up on long ago still lies in the sockets."""
    bench = Bench("heft")
    body = question(bench.arrive(live_pod("p")), ["n0", "n1"])
    head = f"POST /prioritize HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()

    async def talk(session: aiohttp.ClientSession) -> None:
        port = int(str(session._base_url).rpartition(":")[2].strip("/"))
        callers = [socket.create_connection(("localhost", port)) for _ in range(5)]
        for caller in callers:
            caller.sendall(head + body)
            caller.close()
        async with session.post("/prioritize", data=body) as answer:
            assert answer.status == 200

    served(bench, talk)
    assert bench.counted("abandoned_requests_total", verb="prioritize") == 5
    assert bench.counted("request_duration_seconds_count", verb="prioritize") == 1


def test_only_clients_of_the_authority_are_let_in(tmp_path: Path) -> None:
    ours, theirs = Authority(tmp_path / "ours"), Authority(tmp_path / "theirs")
    serving = ours.issue("extender", "extender", addresses=["localhost"])
    certificate = ServingCertificate(
        serving.certificate, serving.key, ours.pair.certificate, reload_s=1.0, on_change=lambda _: None
    )
    bench = Bench("heft")
    body = question(bench.arrive(live_pod("p")), ["n0", "n1"])

    def client(authority: Authority | None) -> ssl.SSLContext:
        made = ssl.create_default_context(cafile=ours.pair.certificate)
        made.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if authority is not None:
            pair = authority.issue("kube-scheduler", "kube-scheduler")
            made.load_cert_chain(pair.certificate, pair.key)
        return made

    async def talk(session: aiohttp.ClientSession) -> None:
        async with session.post("/prioritize", data=body, ssl=client(ours)) as answer:
            assert answer.status == 200
        for authority in (theirs, None):
            with pytest.raises((aiohttp.ClientError, ConnectionError)):
                await (await session.post("/prioritize", data=body, ssl=client(authority))).read()

    served(bench, talk, certificate=certificate)
