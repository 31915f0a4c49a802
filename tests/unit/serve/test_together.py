"""Tasks that live and die together, and components whose degradations are told once."""

import asyncio

import pytest
from structlog.testing import capture_logs

from stowplan.errors import InternalError
from stowplan.serve.metrics import SchedulerMetrics
from stowplan.serve.together import Together
from stowplan.serve.vitals import Vitals


def test_all_are_ended_the_last_begun_first() -> None:
    order: list[str] = []

    async def work(name: str) -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            order.append(name)

    async def run() -> None:
        stop = asyncio.Event()
        async with Together() as together:
            together.start("first", work("first"))
            together.start("second", work("second"))
            asyncio.get_running_loop().call_soon(stop.set)
            await together.until(stop)
            assert together.ended() == ""

    asyncio.run(run())
    assert order == ["second", "first"]


def test_an_error_in_one_ends_the_block_with_it() -> None:
    async def fails() -> None:
        await asyncio.sleep(0)
        raise ValueError("broken")

    async def run() -> None:
        async with Together() as together:
            other = together.start("other", asyncio.sleep(3600))
            together.start("failing", fails())
            try:
                await together.until(asyncio.Event())
            finally:
                assert not other.done()
                assert together.ended() == "failing ended"

    with pytest.raises(ValueError, match="broken"):
        asyncio.run(run())


def test_one_that_just_ends_is_a_defect() -> None:
    async def run() -> None:
        async with Together() as together:
            together.start("short", asyncio.sleep(0))
            await together.until(asyncio.Event())

    with pytest.raises(InternalError, match="short came to an end"):
        asyncio.run(run())


def test_a_degradation_is_told_when_it_begins_and_when_it_ends() -> None:
    reasons = {"history": ""}
    feed: dict[str, str] = {}
    metrics = SchedulerMetrics()
    vitals = Vitals(metrics)
    vitals.watch("history", lambda: reasons["history"])
    vitals.watch_many(lambda: feed)
    with capture_logs() as logs:
        vitals.look()
        reasons["history"] = "its disk is full"
        feed["feed pods"] = "forbidden"
        vitals.look()
        vitals.look()
        assert dict(metrics.degradations) == {"history": "its disk is full", "feed pods": "forbidden"}
        reasons["history"] = ""
        feed.clear()  # a component that is no longer told of is well
        vitals.look()
    told = [(entry["event"], entry["component"]) for entry in logs]
    assert told == [
        ("degraded", "history"),
        ("degraded", "feed pods"),
        ("recovered", "history"),
        ("recovered", "feed pods"),
    ]
    assert not metrics.degradations
