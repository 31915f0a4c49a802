"""The reflector under faults that a real API server cannot be made to show at will."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from aiohttp import web
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stowplan.kube.api.client import ApiClient
from stowplan.kube.api.reflection import ReflectorState, Settings
from stowplan.kube.api.reflector import Reflector
from tests.unit.kube_api.mirror import Mirror
from tests.unit.kube_api.server import THINGS, FakeServer, Fault, cut, line, say_nothing, status, work

FAST = Settings(first_pause_s=0.005, longest_pause_s=0.02, absent_pause_s=0.02, page_items=2, silence_s=5.0)

Story = Callable[[FakeServer, Reflector[Any], Mirror], Coroutine[Any, Any, None]]


@asynccontextmanager
async def reflecting(
    server: FakeServer,
    patience: Settings = FAST,
    decode: Callable[[Any], Any] = bytes,
    request_timeout_s: float = 5.0,
) -> AsyncGenerator[tuple[Reflector[Any], Mirror]]:
    async with ApiClient(server.access, request_timeout_s=request_timeout_s) as client:
        mirror = Mirror()
        reflector = Reflector(client, THINGS, decode, mirror, settings=patience)
        running = asyncio.create_task(reflector.run())
        try:
            yield reflector, mirror
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


def play(story: Story, **options: Any) -> None:  # noqa: ANN401 - of `reflecting`
    async def run() -> None:
        async with FakeServer() as server:
            for name in ("a", "b", "c", "d", "e"):
                await server.put(name)
            async with reflecting(server, **options) as (reflector, mirror):
                await story(server, reflector, mirror)

    asyncio.run(run())


async def until(look: Callable[[], Any], within_s: float = 5.0) -> None:
    end_s = time.monotonic() + within_s
    while not look():
        assert time.monotonic() < end_s, "not in time"
        await asyncio.sleep(0.002)


async def in_step(server: FakeServer, mirror: Mirror) -> None:
    await until(lambda: mirror.versions() == server.versions())


def test_a_list_comes_page_by_page_and_a_watch_goes_on_from_there() -> None:
    async def story(server: FakeServer, reflector: Reflector[Any], mirror: Mirror) -> None:
        await in_step(server, mirror)
        assert len([path for _, path, _ in server.requests]) >= 3
        await server.put("f")
        await server.put("a", data={"x": "1"})
        await server.remove("b")
        await in_step(server, mirror)
        assert [told[:2] for told in mirror.told[5:]] == [("set", "n/f"), ("set", "n/a"), ("delete", "n/b")]
        assert reflector.health.lists == mirror.syncs == 1
        assert reflector.health.is_settled

    play(story)


@pytest.mark.parametrize("sent", [0, 1, 2])
def test_a_watch_that_is_cut_in_mid_line_is_resumed_after_the_last_whole_line(sent: int) -> None:
    async def story(server: FakeServer, reflector: Reflector[Any], mirror: Mirror) -> None:
        await until(lambda: server.open_watches)
        server.line_limits.append(sent)
        server.script.append(work)
        server.cut_all()
        for name in ("f", "g", "h"):
            await server.put(name)
        await in_step(server, mirror)
        assert reflector.health.failures["Unreachable"] >= 1
        assert reflector.health.lists == 1

    play(story)


def test_what_was_deleted_while_the_watch_was_down_is_told_after_410() -> None:
    async def story(server: FakeServer, reflector: Reflector[Any], mirror: Mirror) -> None:
        await until(lambda: server.open_watches)
        server.script.extend([cut, cut])
        server.cut_all()
        await server.remove("a")
        await server.remove("b")
        await server.put("b")  # another of that name
        server.compact()
        await in_step(server, mirror)
        assert ("delete", "n/a") in [told[:2] for told in mirror.told]
        assert [told[0] for told in mirror.told if told[1] == "n/b"] == ["set", "delete", "set"]
        assert reflector.health.failures["Expired"] == 1

    play(story)


def test_a_list_that_expires_half_way_is_begun_again_and_loses_no_deletion() -> None:
    async def story(server: FakeServer, reflector: Reflector[Any], mirror: Mirror) -> None:
        await until(lambda: server.open_watches)

        async def expire(_: web.Request) -> None:
            await server.remove("a")  # was on the first page, which is told already
            server.compact()

        await server.put("a", data={"x": "1"})
        server.compact()
        server.cut_all()
        server.script.extend([work, work, work, expire])  # where, watch (410), first page, second page
        await until(lambda: "a" not in server.objects)
        await in_step(server, mirror)
        assert reflector.health.failures["Expired"] >= 2

    play(story)


@pytest.mark.parametrize(
    ("fault", "name"),
    [
        (status(500, "InternalError", "etcd is away"), "ServerFailed"),
        (status(429, "TooManyRequests", "slow down", Retry_After="0"), "TooManyRequests"),
        (status(403, "Forbidden", 'cannot list resource "configmaps"'), "Forbidden"),
        (status(401, "Unauthorized", "who are you"), "Unauthorized"),
        (cut, "Unreachable"),
        (say_nothing, "Unreachable"),
    ],
)
def test_whatever_a_list_or_a_watch_meets_it_goes_on_afterwards(fault: Fault, name: str) -> None:
    async def story(server: FakeServer, reflector: Reflector[Any], mirror: Mirror) -> None:
        await until(lambda: server.open_watches)
        server.script.extend([fault, fault, work, work, fault, fault])  # where, watch (410), list
        server.cut_all()
        await server.put("f")
        server.compact()
        await in_step(server, mirror)
        assert reflector.health.failures[name] >= 2  # a 401 is asked twice
        await until(lambda: reflector.health.state is ReflectorState.WATCHING)
        assert not reflector.health.error

    play(story, request_timeout_s=0.1)


def test_retry_after_is_obeyed() -> None:
    async def story(server: FakeServer, reflector: Reflector[Any], mirror: Mirror) -> None:
        await until(lambda: server.open_watches)
        server.script.append(status(429, "TooManyRequests", "slow down", Retry_After="1"))
        begin_s = time.monotonic()
        server.cut_all()
        await server.put("f")
        await in_step(server, mirror)
        assert time.monotonic() - begin_s >= 0.9
        assert reflector.health.failures["TooManyRequests"] == 1

    play(story)


def test_a_watch_that_ends_at_once_for_ever_is_not_asked_for_without_pause() -> None:
    async def story(server: FakeServer, reflector: Reflector[Any], _: Mirror) -> None:
        server.watch_limits.extend([0] * 1000)
        await until(lambda: reflector.health.watches >= 2)
        await asyncio.sleep(0.5)
        assert reflector.health.watches < 60  # a pause of 10 to 20 ms each
        assert reflector.health.lists == 1

    play(story)


def test_versions_that_are_always_too_old_are_not_listed_without_pause() -> None:
    async def story(server: FakeServer, reflector: Reflector[Any], _: Mirror) -> None:
        server.oldest = 1_000_000
        await until(lambda: reflector.health.lists >= 2)
        await asyncio.sleep(0.5)
        assert reflector.health.lists < 60

    play(story, patience=Settings(first_pause_s=0.005, longest_pause_s=0.02))


def test_a_watch_may_end_in_order_and_goes_on_at_once() -> None:
    async def story(server: FakeServer, reflector: Reflector[Any], mirror: Mirror) -> None:
        server.watch_limits.extend([1, 1, 1])
        await in_step(server, mirror)
        for name in ("f", "g", "h", "i"):
            await server.put(name)
        await in_step(server, mirror)
        assert reflector.health.failures == {}
        assert reflector.health.lists == 1

    play(story, patience=Settings(first_pause_s=1.0, longest_pause_s=5.0))


def test_an_object_that_cannot_be_read_holds_up_no_other_and_is_named() -> None:
    class Wanted(msgspec.Struct):
        data: dict[str, str] = {}

    async def story(server: FakeServer, reflector: Reflector[Any], mirror: Mirror) -> None:
        await in_step(server, mirror)
        await server.put("a", data={"x": 1})
        await server.put("b", data={"x": "1"})
        await until(lambda: mirror.items["n/b"].data)
        assert list(reflector.health.unusable) == ["n/a"]
        assert "Expected `str`" in reflector.health.unusable["n/a"]
        assert "n/a" not in mirror.objects  # its last version does not pass for the present one
        server.cut_all()
        await server.put("f")
        server.compact()
        await until(lambda: reflector.health.lists == 2)
        assert list(reflector.health.unusable) == ["n/a"]
        await server.put("a", data={"x": "2"})
        await in_step(server, mirror)
        assert not reflector.health.unusable

    play(story, decode=msgspec.json.Decoder(Wanted).decode)


def test_a_reader_that_fails_in_a_way_that_nobody_foresaw_is_told_with_its_kind() -> None:
    def decode(raw: bytes) -> bytes:
        if b'"a"' in bytes(raw):
            raise KeyError("nobody thought of that")
        return bytes(raw)

    async def story(_: FakeServer, reflector: Reflector[Any], mirror: Mirror) -> None:
        await until(lambda: len(mirror.objects) == 4)
        assert reflector.health.unusable == {"n/a": "KeyError: 'nobody thought of that'"}

    play(story, decode=decode)


def test_an_object_as_long_as_etcd_allows_and_longer_passes() -> None:
    async def story(server: FakeServer, reflector: Reflector[Any], mirror: Mirror) -> None:
        await until(lambda: server.open_watches)
        await server.put("f", data={"x": "y" * 3_000_000})
        await server.put("g")
        await in_step(server, mirror)
        assert len(mirror.items["n/f"]) > 3_000_000
        assert reflector.health.failures == {}

    play(story)


@pytest.mark.parametrize("is_seen_by_watch", [False, True])
def test_a_server_whose_versions_went_back_is_taken_at_its_word_anew(is_seen_by_watch: bool) -> None:
    async def story(server: FakeServer, reflector: Reflector[Any], mirror: Mirror) -> None:
        await in_step(server, mirror)
        await until(lambda: server.open_watches)
        expect_all_again(reflector, mirror)
        version, server.version = server.version, 50  # a backup is back
        server.oldest = 0
        server.changes.clear()
        await server.remove("a")
        await server.put("f")  # other changes get the numbers of those before

        async def where(_: web.Request) -> web.StreamResponse:
            return web.json_response({"metadata": {"resourceVersion": str(version)}, "items": []})

        async def old_event(request: web.Request) -> web.StreamResponse:
            answer = web.StreamResponse()
            await answer.prepare(request)
            await answer.write(line("MODIFIED", server.objects["f"]))
            return answer

        if is_seen_by_watch:
            server.script.extend([where, old_event])
        server.cut_all()
        await in_step(server, mirror)
        assert reflector.health.failures["Unreadable"] == 1

    play(story)


def expect_all_again(reflector: Reflector[Any], mirror: Mirror) -> None:
    """Let the mirror take versions that it was told before."""
    for each in mirror.objects:
        mirror.objects[each] = msgspec.structs.replace(mirror.objects[each], resource_version="0")
    reflector._known = dict(mirror.objects)


def test_a_version_from_the_future_is_forgotten() -> None:
    async def story(server: FakeServer, reflector: Reflector[Any], mirror: Mirror) -> None:
        await in_step(server, mirror)
        await until(lambda: server.open_watches)
        expect_all_again(reflector, mirror)
        server.script.append(status(504, "Timeout", "Too large resource version: 900, current: 105"))
        server.cut_all()
        await until(lambda: reflector.health.lists == 2)
        await in_step(server, mirror)

    play(story)


@pytest.mark.parametrize(
    "text", [b"<html>log in</html>", b'{"items": 1}', b'{"metadata":{},"items":[{}]}', b""]
)
def test_an_answer_that_is_none_is_told_and_asked_for_again(text: bytes) -> None:
    async def nonsense(_: web.Request) -> web.StreamResponse:
        return web.Response(body=text)

    async def story(server: FakeServer, reflector: Reflector[Any], mirror: Mirror) -> None:
        await until(lambda: server.open_watches)
        server.script.extend([work, work, nonsense])
        server.cut_all()
        await server.put("f")
        server.compact()
        await in_step(server, mirror)
        assert reflector.health.failures["Unreadable"] == 1

    play(story)


def test_to_cancel_a_reflector_closes_its_connection() -> None:
    async def run() -> None:
        async with FakeServer() as server, ApiClient(server.access) as client:
            reflector = Reflector(client, THINGS, bytes, Mirror(), settings=FAST)
            running = asyncio.create_task(reflector.run())
            await until(lambda: server.open_watches == 1)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await server.put("a")
            await until(lambda: server.open_watches == 0)

    asyncio.run(run())


# ── any sequence of faults ──

FAULTS: dict[str, Callable[[FakeServer], None]] = {
    "no answer": lambda server: server.script.append(cut),
    "500": lambda server: server.script.append(status(500, "InternalError", "oh")),
    "429": lambda server: server.script.append(status(429, "TooManyRequests", "slow", Retry_After="0")),
    "410": lambda server: server.script.append(status(410, "Expired", "too old")),
    "compaction": FakeServer.compact,
    "all connections cut": FakeServer.cut_all,
    "half a line": lambda server: server.line_limits.append(1),
    "a watch ends": lambda server: server.watch_limits.append(1),
}
STEPS = st.one_of(
    st.tuples(st.sampled_from(["put", "remove", "remake"]), st.sampled_from("abcdefg")),
    st.tuples(st.just("fault"), st.sampled_from(sorted(FAULTS))),
    st.just(("calm", "")),
)


async def take(server: FakeServer, what: str, name: str) -> None:
    """Take one step of a story."""
    if what == "calm":
        await asyncio.sleep(0.01)
    elif what == "fault":
        FAULTS[name](server)
    else:
        if what != "put" and name in server.objects:
            await server.remove(name)
        if what != "remove":
            await server.put(name)


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STEPS, max_size=40))
def test_no_sequence_of_faults_loses_or_doubles_an_object(steps: list[tuple[str, str]]) -> None:
    """The mirror objects to what is told twice or out of order; at the end it must be what the server has."""

    async def story(server: FakeServer, _: Reflector[Any], mirror: Mirror) -> None:
        for what, name in steps:
            await take(server, what, name)
        server.script.clear()
        server.line_limits.clear()
        await server.put("last")
        await in_step(server, mirror)

    play(story, patience=Settings(first_pause_s=0.001, longest_pause_s=0.004, page_items=2))
