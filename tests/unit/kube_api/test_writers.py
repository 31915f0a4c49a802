"""Binder, status and events where a scripted server and a clock of the test's own are needed."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web

from stowplan.kube.api.binder import Binder, Binding, Bound, Elsewhere, Gone, NotBound, Unknown
from stowplan.kube.api.client import ApiClient
from stowplan.kube.api.recorder import Event, EventRecorder, EventType, RecorderSettings, Regarding
from stowplan.kube.api.resources import PODS
from stowplan.kube.api.status import PodReference, SchedulingStatus, status_patch
from tests.unit.kube_api.clock import Clock
from tests.unit.kube_api.server import FakeServer, Fault, cut, say_nothing, status

Json = dict[str, Any]
BINDING = Binding("n", "p", "uid", "node-a")


def answer(body: Json, code: int = 200) -> Fault:
    async def give(_: web.Request) -> web.StreamResponse:
        return web.json_response(body, status=code)

    return give


def pod(node: str = "", uid: str = "uid", **metadata: str) -> Fault:
    return answer({"metadata": {"uid": uid, **metadata}, "spec": {"nodeName": node} if node else {}})


DONE = answer({}, 201)
CONFLICT = status(409, "Conflict", "it changed")


@pytest.mark.parametrize(
    ("script", "outcome", "requests"),
    [
        ([DONE], Bound("node-a"), "B"),
        ([cut, pod("node-a")], Bound("node-a"), "BL"),  # the answer was lost, the binding was not
        ([cut, pod(), DONE], Bound("node-a"), "BLB"),  # nothing had happened: the same node again
        ([cut, pod(), CONFLICT, pod("node-a")], Bound("node-a"), "BLBL"),  # it happened in between
        ([cut, pod("node-b")], Elsewhere("node-b"), "BL"),
        ([cut, status(503, "ServiceUnavailable", "soon"), cut, pod("node-a")], Bound("node-a"), "BLBL"),
        ([say_nothing, pod("node-a")], Bound("node-a"), "BL"),
        ([status(500, "InternalError", "oh"), pod(), DONE], Bound("node-a"), "BLB"),
        ([status(429, "TooManyRequests", "slow", Retry_After="0"), DONE], Bound("node-a"), "BB"),
        ([status(503, "ServiceUnavailable", "soon"), DONE], Bound("node-a"), "BB"),
        ([CONFLICT, pod(), DONE], Bound("node-a"), "BLB"),  # another change of the pod was in the way
    ],
)
def test_a_binding_ends_in_certainty(script: list[Fault], outcome: object, requests: str) -> None:
    async def story() -> None:
        async with FakeServer() as server, ApiClient(server.access, request_timeout_s=0.2) as client:
            server.script.extend(script)
            assert await Binder(client, within_s=5.0).bind(BINDING) == outcome
            sent = "".join("B" if method == "POST" else "L" for method, _, _ in server.requests)
            # aiohttp asks again by itself when a kept connection turns out to be closed: look-ups only
            assert sent.replace("LL", "L") == requests.replace("LL", "L")

    asyncio.run(story())


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        ([status(404, "NotFound", "no pod"), status(404, "NotFound", "no pod")], Gone),
        ([CONFLICT, pod(uid="other")], Gone),
        ([CONFLICT, pod(deletionTimestamp="2026-11-30T00:00:00Z")], Gone),
        ([status(403, "Forbidden", "no")], NotBound),
        ([status(422, "Invalid", "no")], NotBound),
        ([status(429, "TooManyRequests", "slow", Retry_After="9")], NotBound),
        ([cut, status(403, "Forbidden", "no")] * 20, Unknown),  # it may have happened, and nobody can look
        ([cut, pod(), status(403, "Forbidden", "no"), pod()] + [say_nothing] * 9, Unknown),
    ],
)
def test_what_else_can_become_of_a_binding(script: list[Fault], kind: type) -> None:
    async def story() -> None:
        async with FakeServer() as server, ApiClient(server.access, request_timeout_s=0.2) as client:
            server.script.extend(script)
            assert isinstance(await Binder(client, within_s=0.5).bind(BINDING), kind)

    asyncio.run(story())


# ── status ──

POD = PodReference("n", "p", "uid")


def test_a_patch_has_only_what_changes() -> None:
    waits = SchedulingStatus("Unschedulable", "0/3 nodes", "")
    assert status_patch(POD, waits, waits, 0.0) is None
    assert status_patch(POD, waits, SchedulingStatus(nominated_node=""), 0.0) is None
    nominated = SchedulingStatus("Unschedulable", "0/3 nodes", "n1")
    assert status_patch(POD, waits, nominated, 0.0) == {
        "metadata": {"uid": "uid"},
        "status": {"nominatedNodeName": "n1"},
    }
    patch = status_patch(POD, nominated, SchedulingStatus("Unschedulable", "0/4 nodes"), 0.0)
    assert patch is not None
    assert patch["status"]["nominatedNodeName"] is None
    assert "lastTransitionTime" not in patch["status"]["conditions"][0]
    first = status_patch(POD, SchedulingStatus(), waits, 0.0)
    assert first is not None
    assert first["status"]["conditions"][0]["lastTransitionTime"] == "1970-01-01T00:00:00Z"


# ── events ──


def event(about: str = "p", note: str = "note") -> Event:
    return Event(Regarding(PODS, about, f"uid-{about}", "n"), EventType.NORMAL, "Scheduled", "Binding", note)


def recording(
    story: Callable[[FakeServer, EventRecorder, Clock], Awaitable[None]], settings: RecorderSettings
) -> None:
    async def run() -> None:
        clock = Clock()
        async with FakeServer() as server, ApiClient(server.access) as client:
            recorder = EventRecorder(
                client, "stowplan", "me", settings=settings, monotonic=clock.monotonic, wall=clock.wall
            )
            await story(server, recorder, clock)

    asyncio.run(run())


def test_a_series_is_sent_at_most_every_so_often_and_its_last_count_at_the_end() -> None:
    async def story(server: FakeServer, recorder: EventRecorder, clock: Clock) -> None:
        server.script.extend([DONE] * 10)
        for _ in range(50):
            recorder.record(event())
            await recorder._send_waiting()
            clock.pass_by(1.0)
        methods = [method for method, _, _ in server.requests]
        assert methods == ["POST", "PATCH"]  # at once, and after 30 s
        await recorder.flush()
        assert [method for method, _, _ in server.requests] == ["POST", "PATCH", "PATCH"]
        clock.pass_by(400.0)
        recorder.record(event())  # too late for that series
        await recorder.flush()
        assert [method for method, _, _ in server.requests][-1] == "POST"
        assert recorder.health.dropped == {}

    recording(story, RecorderSettings())


def test_one_object_cannot_crowd_out_the_others_and_what_is_lost_is_counted() -> None:
    async def story(server: FakeServer, recorder: EventRecorder, clock: Clock) -> None:
        for number in range(40):
            recorder.record(event(note=f"note {number}"))
        assert recorder.health.dropped == {"too many about one object": 15}
        recorder.record(event("q"))
        assert recorder.health.waiting == 26
        clock.pass_by(300.0)
        recorder.record(event(note="later"))
        assert recorder.health.waiting == 27
        for number in range(10):
            recorder.record(event(f"r{number}"))
        assert recorder.health.waiting == 30
        assert recorder.health.dropped["queue full"] == 7
        server.script.extend([status(403, "Forbidden", "no"), cut, DONE, *[DONE] * 40])
        await recorder.flush()
        assert recorder.health.dropped["Forbidden"] == 1
        assert recorder.health.sent == 29
        assert "no (403" in recorder.health.error or "cut" in recorder.health.error

    recording(story, RecorderSettings(queue_events=30))


def test_events_give_way_to_urgent_work_but_none_waits_for_ever() -> None:
    async def run() -> None:
        clock, is_busy = Clock(), True
        settings = RecorderSettings(trickle_s=3600.0, longest_wait_s=30.0)
        async with FakeServer() as server, ApiClient(server.access) as client:
            server.script.extend([DONE] * 3)
            recorder = EventRecorder(
                client,
                "stowplan",
                "me",
                settings=settings,
                gives_way=lambda: is_busy,
                monotonic=clock.monotonic,
                wall=clock.wall,
            )
            sending = asyncio.create_task(recorder.run())
            recorder.record(event("a"))
            await asyncio.sleep(0.05)
            assert recorder.health.sent == 0  # it waits, for an hour here
            sending.cancel()
            await asyncio.wait({sending})
            assert recorder.health.waiting == 1
            clock.pass_by(30.0)
            recorder.record(event("b"))
            sending = asyncio.create_task(recorder.run())
            while recorder.health.sent < 1:  # noqa: ASYNC110 - the recorder tells nobody
                await asyncio.sleep(0.01)
            assert recorder.health.waiting == 1  # the one that has not waited long
            sending.cancel()
            await asyncio.wait({sending})
            is_busy = False
            await recorder.flush()
            assert (recorder.health.sent, recorder.health.dropped) == (2, {})

    asyncio.run(run())


def test_many_events_are_sent_several_at_once_each_of_them_once() -> None:
    under_way, most = 0, 0

    async def slow(_: web.Request) -> web.StreamResponse:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.02)
        under_way -= 1
        return web.json_response({}, status=201)

    async def story(server: FakeServer, recorder: EventRecorder, clock: Clock) -> None:
        server.script.extend([slow] * 40)
        for number in range(20):
            recorder.record(event(f"p{number}"))
        sending = asyncio.create_task(recorder.flush())
        while not under_way:  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(0.001)
        clock.pass_by(31.0)
        recorder.record(event("p0"))  # again, while its first is under way: not sent beside it
        await sending
        assert len(server.requests) == recorder.health.sent == 20
        clock.pass_by(31.0)
        await recorder.flush()
        assert [method for method, _, _ in server.requests[20:]] == ["PATCH"]  # its count is two

    recording(story, RecorderSettings(at_once=4))
    assert most == 4


def test_the_end_may_come_while_events_are_sent_and_all_of_them_are_heard_once() -> None:
    async def slow(_: web.Request) -> web.StreamResponse:
        await asyncio.sleep(0.02)
        return web.json_response({}, status=201)

    async def story(server: FakeServer, recorder: EventRecorder, clock: Clock) -> None:
        server.script.extend([slow] * 40)
        sending = asyncio.create_task(recorder.run())
        for number in range(14):
            recorder.record(event(f"p{number}"))
        while len(server.requests) < 4:  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(0.001)
        clock.pass_by(1.0)
        recorder.record(event("p0"))  # again, while its first is under way
        await recorder.flush()
        assert not sending.done()
        sending.cancel()
        methods = [method for method, _, _ in server.requests]
        assert sorted(methods) == ["PATCH"] + ["POST"] * 14
        assert (recorder.health.waiting, recorder.health.sent, recorder.health.series) == (0, 14, 1)

    recording(story, RecorderSettings(at_once=4))


def test_an_event_whose_sending_was_broken_off_is_sent_at_the_end() -> None:
    async def story(server: FakeServer, recorder: EventRecorder, _: Clock) -> None:
        server.script.extend([say_nothing, say_nothing])
        recorder.record(event("p"))
        recorder.record(event("q"))
        sending = asyncio.create_task(recorder.run())
        while len(server.requests) < 2:  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(0.01)
        sending.cancel()
        await asyncio.wait({sending})
        assert recorder.health.waiting == 2
        server.script.extend([status(409, "AlreadyExists", "it was heard"), DONE])
        await recorder.flush()
        assert (recorder.health.sent, recorder.health.dropped) == (2, {})

    recording(story, RecorderSettings())
