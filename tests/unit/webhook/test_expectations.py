"""Expected durations that are fitted again in the background."""

import asyncio
import itertools
from pathlib import Path

import pytest

from stowplan.core.domain import ClassKey
from stowplan.observe.history import HistoryStore
from stowplan.serve.webhook.expectations import Expectations
from tests.history_cases import ALIGN, execution
from tests.unit.webhook.reviews import until

NOW_S = 1000.0


def fill(store: HistoryStore, *seconds: float) -> None:
    """Write runs of these lengths."""
    count = sum(store.counts().values())
    runs = [
        execution(f"p{number}", started_s=10.0, finished_s=10.0 + length_s, workflow_uid=f"w{number}")
        for number, length_s in enumerate(seconds, start=count)
    ]
    store.write(runs, NOW_S)


def test_new_runs_are_taken_up_while_it_runs(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'history.db'}"
    store = HistoryStore.open(url)
    fill(store, 40.0)

    async def story() -> None:
        ticks = (
            itertools.count()
        )  # by a real clock a machine that is busy would be long at it, and rest for longer
        expectations = Expectations(
            url, refit_s=0.01, wall=lambda: NOW_S, monotonic=lambda: 0.001 * next(ticks)
        )
        assert expectations.history.expected_s(ALIGN) is None
        running = asyncio.create_task(expectations.run())

        async def knows_more_than(seconds: float | None) -> bool:
            return expectations.history.expected_s(ALIGN) != seconds

        await until(lambda: knows_more_than(None))
        first_s = expectations.history.expected_s(ALIGN)
        assert first_s == pytest.approx(40.0)
        assert (expectations.classes, expectations.error) == (1, "")
        fill(store, 80.0, 80.0, 80.0)
        await until(lambda: knows_more_than(first_s))
        # A class without runs takes after its kin.
        assert expectations.history.expected_s(ClassKey("other", "align", "/x")) is not None
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(story())
    store.close()


def test_what_was_known_stays_when_the_history_cannot_be_read(tmp_path: Path) -> None:
    file = tmp_path / "history.db"
    url = f"sqlite:///{file}"
    store = HistoryStore.open(url)
    fill(store, 40.0)
    store.close()

    async def story() -> None:
        expectations = Expectations(url, refit_s=60.0, wall=lambda: NOW_S)
        await expectations._refitter.fit()
        known_s = expectations.history.expected_s(ALIGN)
        whole = file.read_bytes()
        file.write_bytes(b"no database" * 1000)
        await expectations._refitter.fit()
        assert "history.db" in expectations.error
        assert expectations.history.expected_s(ALIGN) == known_s
        file.write_bytes(whole)
        await expectations._refitter.fit()
        assert expectations.error == ""

    asyncio.run(story())


def test_without_a_url_nothing_is_known_and_nothing_is_wrong() -> None:
    async def story() -> None:
        expectations = Expectations("", refit_s=60.0)
        running = asyncio.create_task(expectations.run())
        await asyncio.sleep(0)
        assert not running.done()
        running.cancel()
        assert (expectations.history.expected_s(ALIGN), expectations.error) == (None, "")

    asyncio.run(story())
