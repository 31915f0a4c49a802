"""The lease where a server of its own and a clock of the test's own are needed."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from aiohttp import web

from stowplan.kube.api.client import ApiClient
from stowplan.kube.api.lease import Election, LeaseSettings
from tests.unit.kube_api.clock import Clock
from tests.unit.kube_api.server import FakeServer

Json = dict[str, Any]

TIMES = LeaseSettings()


class LeaseServer:
    """One lease, with the optimistic concurrency of the API server."""

    def __init__(self, server: FakeServer) -> None:
        self.spec: Json | None = None
        self.version = 0
        self.is_away = False
        self.loses_answers = False
        self._server = server

    async def serve(self, request: web.Request) -> web.StreamResponse:
        self._server.script.append(self.serve)
        if self.is_away or "watch" in request.query:
            return web.json_response({"message": "away"}, status=503)
        if request.method == "GET" and request.path.endswith("/leases"):
            return web.json_response({"message": "away"}, status=503)
        if request.method == "GET" and self.spec is None:
            return web.json_response({"message": "none"}, status=404)
        if request.method in {"POST", "PUT"}:
            body = json.loads(await request.text())
            known = body["metadata"].get("resourceVersion", "0")
            if known != str(self.version) and self.spec is not None:
                return web.json_response({"message": "conflict"}, status=409)
            self.spec, self.version = body["spec"], self.version + 1
            if self.loses_answers:
                return web.json_response({"message": "timeout"}, status=504)
        return web.json_response(
            {"metadata": {"name": "l", "resourceVersion": str(self.version)}, "spec": self.spec}
        )


def electing(
    story: Callable[[LeaseServer, list[Election], Clock], Coroutine[Any, Any, None]], *names: str
) -> None:
    async def run() -> None:
        clock = Clock()
        async with FakeServer() as server, ApiClient(server.access) as client:
            lease = LeaseServer(server)
            server.script.append(lease.serve)
            elections = [
                Election(client, "n", "l", name, monotonic=clock.monotonic, wall=clock.wall) for name in names
            ]
            await story(lease, elections, clock)

    asyncio.run(run())


def test_a_wall_clock_that_jumps_makes_no_two_leaders_and_unseats_none() -> None:
    async def story(_: LeaseServer, elections: list[Election], clock: Clock) -> None:
        first, second = elections
        await first._try()
        for jump_s in (1e6, -2e6, 5e8):
            clock.wall_s += jump_s
            await second._try()
            assert (first.is_leader, second.is_leader) == (True, False)
            clock.pass_by(2.0)
            await first._try()
            assert first.is_leader

    electing(story, "first", "second")


def test_a_leader_stops_before_the_lease_can_be_taken() -> None:
    async def story(_: LeaseServer, elections: list[Election], clock: Clock) -> None:
        first, second = elections
        await first._try()
        await second._try()
        clock.pass_by(9.9)
        assert first.is_leader
        clock.pass_by(0.2)
        assert not first.is_leader
        await second._try()
        assert not second.is_leader  # not for another five seconds
        clock.pass_by(5.0)
        await second._try()
        assert second.is_leader
        assert second.health.transitions == 1
        await first._try()
        assert not first.is_leader
        assert first.health.holder == "second"

    electing(story, "first", "second")


def test_two_instances_of_one_name_do_not_both_lead() -> None:
    async def story(lease: LeaseServer, elections: list[Election], clock: Clock) -> None:
        first, second = elections
        while lease.version < 30:
            await first._try()
            await second._try()
            assert [first.is_leader, second.is_leader] == [True, False]
            clock.pass_by(1.0)

    electing(story, "same", "same")


def test_a_renewal_whose_answer_is_lost_is_known_again() -> None:
    async def story(lease: LeaseServer, elections: list[Election], clock: Clock) -> None:
        (only,) = elections
        await only._try()
        lease.loses_answers = True
        clock.pass_by(3.0)
        await only._try()
        clock.pass_by(3.0)
        await only._try()
        assert only.is_leader  # until ten seconds after the last that is certain
        lease.loses_answers = False
        clock.pass_by(3.0)
        await only._try()
        clock.pass_by(9.0)
        assert only.is_leader
        assert only.health.transitions == 0

    electing(story, "only")


def test_a_lease_that_was_deleted_is_made_again_by_its_holder_and_not_taken_by_another() -> None:
    async def story(lease: LeaseServer, elections: list[Election], clock: Clock) -> None:
        first, second = elections
        await first._try()
        await second._try()
        lease.spec = None
        await second._try()
        assert not second.is_leader
        await first._try()
        clock.pass_by(9.0)
        assert first.is_leader

    electing(story, "first", "second")


def test_an_api_that_is_away_ends_leadership_in_time_and_is_told() -> None:
    async def story(lease: LeaseServer, elections: list[Election], clock: Clock) -> None:
        (only,) = elections
        await only._try()
        lease.is_away = True
        for _ in range(4):
            clock.pass_by(2.0)
            await only._try()
        assert only.is_leader
        assert "away" in only.health.error
        clock.pass_by(2.1)
        assert not only.is_leader

    electing(story, "only")


def test_what_the_work_of_a_leader_raises_is_not_lost() -> None:
    async def fail() -> None:
        raise LookupError("of the work")

    async def story(_: LeaseServer, elections: list[Election], __: Clock) -> None:
        with pytest.raises(LookupError, match="of the work"):
            await elections[0].run(fail)

    electing(story, "only")


@pytest.mark.parametrize("times", [(10.0, 10.0, 2.0), (15.0, 16.0, 2.0), (15.0, 2.0, 2.0), (15.0, 10.0, 0.0)])
def test_times_in_the_wrong_order_are_refused(times: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="retry < renew < duration"):
        LeaseSettings(duration_s=times[0], renew_s=times[1], retry_s=times[2])
