"""The loop that keeps a duration model current: when it fits, when it need not, and what a failure means."""

import asyncio
import itertools
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from stowplan.observe.history import HistoryStore
from stowplan.observe.history.durations import DurationModel
from stowplan.serve.refitting import Refitter
from tests.history_cases import ALIGN, execution
from tests.scheduler_cases import until

NOW_S = 1000.0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[HistoryStore]:
    opened = HistoryStore.open(f"sqlite:///{tmp_path / 'history.db'}")
    opened.write([execution("p", started_s=10.0, finished_s=50.0, workflow_uid="w")], NOW_S)
    yield opened
    opened.close()


class Service:
    """Who wants a model."""

    def __init__(self, store: HistoryStore | Exception | None) -> None:
        self.history = store
        self.models: list[DurationModel] = []
        self.is_news = False
        self.asked = 0
        self.begun = 0
        ticks = (
            itertools.count()
        )  # by a real clock a machine that is busy would be long at it, and rest for longer
        self.refitter = Refitter(
            self.store,
            self.take,
            refit_s=0.001,
            has_news=self.has_news,
            begin=self.begin,
            wall=lambda: NOW_S,
            monotonic=lambda: 0.001 * next(ticks),
        )

    async def store(self) -> HistoryStore | None:
        if isinstance(self.history, Exception):
            raise self.history
        return self.history

    def take(self, model: DurationModel, took_s: float) -> None:
        assert took_s > 0.0
        self.models.append(model)

    def has_news(self) -> bool:
        self.asked += 1
        return self.is_news

    def begin(self) -> tuple[str, ...]:
        self.begun += 1
        self.is_news = False
        return ()


@asynccontextmanager
async def running(service: Service) -> AsyncGenerator[None]:
    task = asyncio.create_task(service.refitter.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()


def test_a_model_is_fitted_again_when_there_is_news(store: HistoryStore) -> None:
    async def story() -> None:
        service = Service(store)
        async with running(service):
            await until(lambda: service.asked >= 3)
            assert len(service.models) == 1
            assert service.models[0].expected(ALIGN).expected_s == pytest.approx(40.0)
            service.is_news = True
            await until(lambda: len(service.models) == 2)
            asked = service.asked
            await until(lambda: service.asked >= asked + 3)
            assert len(service.models) == service.begun == 2

    asyncio.run(story())


def test_a_history_that_comes_later_is_fitted_to_when_it_is_there(store: HistoryStore) -> None:
    async def story() -> None:
        service = Service(None)
        await service.refitter.fit()
        async with running(service):
            assert (service.models, service.begun, service.refitter.error) == ([], 0, "")
            service.history = store
            await until(lambda: service.models)

    asyncio.run(story())


def test_a_fit_that_failed_is_made_again_without_news(store: HistoryStore) -> None:
    async def story() -> None:
        service = Service(OSError("no process can be started"))
        async with running(service):
            await until(lambda: service.refitter.error)
            assert service.refitter.error == "no process can be started"
            service.history = store
            await until(lambda: service.models)
            assert service.refitter.error == ""

    asyncio.run(story())


def test_a_long_fit_is_followed_by_a_long_pause() -> None:
    service = Service(None)
    refitter = Refitter(service.store, service.take, refit_s=60.0)
    assert [refitter.pause_s(took_s) for took_s in (0.0, 2.0, 30.0)] == [60.0, 60.0, 600.0]
