"""Requests under faults: what is asked twice, what never is, and what a hostile answer cannot do."""

import asyncio
import dataclasses
import json
import stat
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from stowplan.kube.api.access import Access, ExecPlugin
from stowplan.kube.api.client import ApiClient
from stowplan.kube.api.credentials import Credentials
from stowplan.kube.api.errors import (
    InvalidAccess,
    Refused,
    ServerFailed,
    Unauthorized,
    Unreachable,
    Unreadable,
    refused,
)
from stowplan.kube.api.plugin import ask
from stowplan.kube.api.wire import DEEPEST_LEVEL, is_cut, page_of
from tests.unit.kube_api.server import THINGS, FakeServer, cut, say_nothing, status


def play(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(story)


def test_a_redirect_is_not_followed() -> None:
    async def story() -> None:
        async with FakeServer() as server, ApiClient(server.access) as client:

            async def send_on(_: web.Request) -> web.StreamResponse:
                return web.Response(status=302, headers={"Location": "/login"})

            server.script.append(send_on)
            with pytest.raises(Unreadable, match=r"sent on to /login \(302\)"):
                await client.create(THINGS, {}, "n")
            assert [method for method, _, _ in server.requests] == ["POST"]

    play(story())


def test_what_creates_is_sent_once_however_the_connection_ends() -> None:
    async def story() -> None:
        async with FakeServer() as server, ApiClient(server.access, request_timeout_s=0.1) as client:
            await client.get(THINGS, "warm", "n")
            for fault in (cut, say_nothing):
                server.script.append(fault)
                with pytest.raises(Unreachable):
                    await client.create(THINGS, {}, "n")
            assert [method for method, _, _ in server.requests] == ["GET", "POST", "POST"]

    play(story())


def test_an_error_that_is_no_status_is_told_by_its_beginning() -> None:
    async def story() -> None:
        async with FakeServer() as server, ApiClient(server.access) as client:

            async def page(_: web.Request) -> web.StreamResponse:
                return web.Response(status=502, text="<html>\n bad\tgateway", headers={"Retry-After": "7"})

            server.script.append(page)
            with pytest.raises(ServerFailed, match=r"get configmaps x: <html> bad gateway \(502\)") as error:
                await client.get(THINGS, "x", "n")
            assert error.value.retry_after_s == 7.0
            assert error.value.is_transient

    play(story())


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (400, "Refused"),
        (401, "Unauthorized"),
        (403, "Forbidden"),
        (404, "NotFound"),
        (409, "Conflict"),
        (410, "Expired"),
        (422, "Invalid"),
        (429, "TooManyRequests"),
        (500, "ServerFailed"),
        (504, "ServerFailed"),
    ],
)
def test_each_status_is_an_error_of_its_own(code: int, name: str) -> None:
    error = refused("get it", code, "Reason", "because")
    assert type(error).__name__ == name
    assert isinstance(error, Refused)
    assert (error.code, error.reason) == (code, "Reason")


def test_a_token_that_is_refused_is_read_again_once(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old\n")

    async def story() -> None:
        async with FakeServer() as server:
            access = dataclasses.replace(server.access, token_file=token)
            async with ApiClient(access) as client:
                await client.get(THINGS, "x", "n")
                token.write_text("new\n")
                await client.get(THINGS, "x", "n")  # for a minute the file is not read again
                server.script.append(status(401, "Unauthorized", "expired"))
                await client.get(THINGS, "x", "n")
                shown = [headers["Authorization"] for _, _, headers in server.requests]
                assert shown == ["Bearer old", "Bearer old", "Bearer old", "Bearer new"]
                server.script.extend([status(401, "Unauthorized", "no")] * 2)
                with pytest.raises(Unauthorized):
                    await client.get(THINGS, "x", "n")

    play(story())


def test_a_watch_that_is_refused_reads_the_token_again_too(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")

    async def story() -> None:
        async with FakeServer() as server:
            async with ApiClient(dataclasses.replace(server.access, token_file=token)) as client:
                await client.get(THINGS, "x", "n")
                token.write_text("new")
                server.script.append(status(401, "Unauthorized", "expired"))
                watch = client.watch(THINGS, resource_version="100", silence_s=5.0, server_timeout_s=5)
                async with watch as events:
                    await server.put("a")
                    assert (await anext(aiter(events))).type == "ADDED"
            assert server.requests[-1][2]["Authorization"] == "Bearer new"
            assert server.requests[-1][2]["Accept-Encoding"] == "identity"

    play(story())


def test_a_token_file_is_read_again_after_a_minute_whatever_the_wall_clock_does(tmp_path: Path) -> None:
    token = tmp_path / "token"
    now_s, wall_s = 1000.0, 5e8

    async def story() -> None:
        nonlocal now_s, wall_s
        credentials = Credentials(
            Access(server="http://k", token_file=token), monotonic=lambda: now_s, wall=lambda: wall_s
        )
        token.write_text("one")
        assert (await credentials.current()).headers == (("Authorization", "Bearer one"),)
        token.write_text("two")
        wall_s += 1e6
        assert (await credentials.current()).headers == (("Authorization", "Bearer one"),)
        now_s, wall_s = now_s + 61.0, 0.0
        assert (await credentials.current()).headers == (("Authorization", "Bearer two"),)
        token.unlink()
        now_s += 61.0
        with pytest.raises(InvalidAccess, match="token cannot be read"):
            await credentials.current()

    play(story())


def test_a_silent_server_is_given_up_also_by_a_watch() -> None:
    async def story() -> None:
        async with FakeServer() as server, ApiClient(server.access, request_timeout_s=0.1) as client:
            server.script.append(say_nothing)
            watch = client.watch(THINGS, resource_version="1", silence_s=60.0, server_timeout_s=60)
            with pytest.raises(Unreachable, match="no answer in time"):
                async with watch:
                    pass

    play(story())


def test_what_the_block_of_a_watch_raises_is_not_taken_for_a_failed_connection() -> None:
    async def story() -> None:
        async with FakeServer() as server, ApiClient(server.access) as client:
            watch = client.watch(THINGS, resource_version="100", silence_s=5.0, server_timeout_s=5)
            with pytest.raises(PermissionError):
                async with watch:
                    raise PermissionError("of a receiver")

    play(story())


def test_compression_is_used_unless_it_is_declined() -> None:
    async def story() -> None:
        async with FakeServer() as server:
            for declined in (False, True):
                access = dataclasses.replace(server.access, is_uncompressed=declined)
                async with ApiClient(access) as client:
                    await client.get(THINGS, "x", "n")
            asked = [headers["Accept-Encoding"] for _, _, headers in server.requests]
            assert "gzip" in asked[0]
            assert asked[1] == "identity"

            async def zipped(_: web.Request) -> web.StreamResponse:
                answer = web.json_response({"metadata": {"resourceVersion": "7"}, "items": [{"a": 1}] * 50})
                answer.enable_compression(web.ContentCoding.gzip)
                return answer

            server.script.append(zipped)
            async with ApiClient(server.access) as client:
                assert len((await client.page(THINGS)).items) == 50

    play(story())


def test_names_come_through_whatever_is_nested_beside_them() -> None:
    deep = b'{"a":[' * 5000 + b'"\\"}]{["' + b"]}" * 5000
    body = b'{"metadata":{"resourceVersion":"7"},"items":[{"n":1},{"n":2,"x":' + deep + b',"y":3},{"n":4}]}'
    page = page_of("list them", body)
    assert page.is_cut
    assert [is_cut(item) for item in page.items] == [False, True, False]
    second = msgspec.json.decode(page.items[1])
    assert (second["n"], second["y"]) == (2, 3)
    level = 0
    inner = second["x"]
    while isinstance(inner, dict | list):
        inner = inner["a"] if isinstance(inner, dict) else inner[0]
        level += 1
    assert 0 < level < DEEPEST_LEVEL


# ── plugins ──


def plugin(folder: Path, text: str) -> ExecPlugin:
    path = folder / "plugin"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return ExecPlugin((str(path),))


TOKEN = {"token": "t"}


def credential(version: str = "client.authentication.k8s.io/v1", **fields: str) -> str:
    answer = {"apiVersion": version, "kind": "ExecCredential", "status": fields}
    return f"echo '{json.dumps(answer)}'"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("exit 3", "failed with exit code 3"),
        ("echo wrong >&2; echo 'log in first' >&2; exit 1", "exit code 1: wrong log in first"),
        ("echo hello", "did not answer with an ExecCredential"),
        ("echo '[]'", "did not answer with an ExecCredential"),
        ("echo '{}'", "did not answer with an ExecCredential"),
        (credential(), "neither a token nor a certificate"),
        (credential(clientCertificateData="x"), "only one of certificate and key"),
        (credential(**TOKEN, expirationTimestamp="soon"), "did not answer with an ExecCredential"),
        (credential("client.authentication.k8s.io/v1beta1", **TOKEN), "answered in .*v1beta1, but was"),
        ("sleep 60", "gave no answer in 0.3 s"),
    ],
)
def test_what_a_plugin_does_wrong_is_told(tmp_path: Path, text: str, told: str) -> None:
    begin_s = time.monotonic()
    with pytest.raises(InvalidAccess, match=told):
        asyncio.run(ask(plugin(tmp_path, text), timeout_s=0.3 if "sleep" in text else 10.0))
    assert time.monotonic() - begin_s < 10.0


def test_a_plugin_is_asked_again_shortly_before_its_answer_expires(tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    text = f"echo x >> {asked}; " + credential(**TOKEN, expirationTimestamp="2030-01-01T00:10:00Z")
    wall_s = 1893456000.0  # 2030-01-01T00:00:00Z
    access = Access(server="http://k", plugin=plugin(tmp_path, text))

    async def story() -> None:
        nonlocal wall_s
        credentials = Credentials(access, wall=lambda: wall_s)
        for later_s, times in ((0.0, 1), (500.0, 1), (69.0, 1), (2.0, 2)):
            wall_s += later_s
            await credentials.current()
            assert len(asked.read_text().split()) == times

    play(story())
