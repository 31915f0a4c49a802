"""The feed while it runs against a server that does not do as it should."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Self

import pytest
from structlog.testing import capture_logs

from stowplan.core.domain import ClusterState
from stowplan.kube.api.client import ApiClient
from stowplan.kube.api.errors import refused
from stowplan.kube.api.reflection import ReflectorState, Settings
from stowplan.kube.api.resources import NODES, Resource
from stowplan.kube.api.wire import Page
from stowplan.kube.live import feed as feed_module
from stowplan.kube.live.feed import ClusterFeed


class Forbidding(ApiClient):
    """Lists whatever is asked for as empty, but for one kind; there are no watches."""

    def __init__(self, forbidden: Resource) -> None:
        self.forbidden: Resource | None = forbidden

    async def page(self, resource: Resource, *_: object, **__: object) -> Page:
        if resource == self.forbidden:
            words = f'{resource} is forbidden: User "x" cannot list resource "{resource}"'
            raise refused(f"list {resource}", 403, "Forbidden", words)
        return Page([], "1", "")

    def watch(self, *_: object, **__: object) -> object:  # pyright: ignore[reportIncompatibleMethodOverride]
        return Silent()


class Silent:
    """A watch in which nothing happens."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    def __aiter__(self) -> "Silent":
        return self

    async def __anext__(self) -> object:
        await asyncio.sleep(60.0)
        raise StopAsyncIteration


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(20.0):
        while not holds():  # noqa: ASYNC110 - a health tells nobody
            await asyncio.sleep(0.002)


def test_a_kind_that_may_not_be_listed_is_named_and_holds_back_every_decision(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(feed_module, "REPORT_S", 0.005)

    async def story() -> None:
        client = Forbidding(NODES)
        feed = ClusterFeed(
            client, ClusterState(), settings=Settings(first_pause_s=0.001, longest_pause_s=0.002)
        )
        with capture_logs() as logs:
            running = asyncio.create_task(feed.run())
            others = [kind for kind in feed.health if kind != "Node"]
            await until(lambda: all(feed.health[kind].state is ReflectorState.WATCHING for kind in others))
            await until(lambda: logs and feed.health["Node"].failures["Forbidden"] > 2)
            assert not feed.is_settled
            assert 'cannot list resource "nodes"' in feed.health["Node"].error
            client.forbidden = None
            await until(lambda: len(logs) > 1)
            assert feed.is_settled
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
        told = [(line["event"], line["kind"]) for line in logs]
        assert told == [("kind cannot be followed", "Node"), ("kind is followed again", "Node")]  # each once

    asyncio.run(story())
