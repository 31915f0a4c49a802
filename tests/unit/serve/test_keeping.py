"""The history of a service: opened beside it, and never in its way."""

import asyncio
import os
from pathlib import Path

import pytest

from stowplan.errors import InvalidInput
from stowplan.observe.history import HistoryStore, WorkflowRun
from stowplan.serve.keeping import KeptHistory
from stowplan.serve.sections import HistoryConfig


def kept(url: str) -> KeptHistory:
    return KeptHistory(HistoryConfig(url=url), wall=lambda: 1_000.0)


def record(name: str) -> WorkflowRun:
    return WorkflowRun(workflow_uid=name, namespace="lab", workflow=name)


async def served(history: KeptHistory, *records: WorkflowRun) -> None:
    """Run until it is open, keep the records, end."""
    running = asyncio.create_task(history.run())
    while history.store is None:  # noqa: ASYNC110 - it tells nobody; it is there within a pause
        await asyncio.sleep(0.01)
    for one in records:
        assert history.put(one)
    running.cancel()
    await asyncio.wait({running})


def test_what_is_put_is_in_the_database_when_the_service_has_ended(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/history.db"
    asyncio.run(served(kept(url), record("a"), record("b")))
    store = HistoryStore.open(url)
    assert [store.workflow("lab", name) is not None for name in ("a", "b", "c")] == [True, True, False]
    store.close()


def test_without_a_url_nothing_is_kept_and_nothing_is_wrong() -> None:
    history = kept("")
    asyncio.run(history.open())
    assert not history.put(record("a"))
    assert history.why_degraded == ""
    assert history.status == {"where": None}


def test_a_database_that_comes_later_is_used_and_what_was_lost_is_counted(tmp_path: Path) -> None:
    folder = tmp_path / "later"
    history = kept(f"sqlite:///{folder}/history.db")

    async def run() -> None:
        await history.open()
        assert "later" in history.why_degraded
        assert not history.put(record("lost"))
        folder.mkdir()
        await served(history, record("kept"))

    asyncio.run(run())
    assert history.status["lost_before_it_was_open"] == 1
    assert history.why_degraded == ""


def test_a_url_that_cannot_be_meant_ends_the_service() -> None:
    with pytest.raises(InvalidInput, match="mysql"):
        asyncio.run(kept("mysql://somewhere").open())


def test_a_file_that_is_no_database_is_told_and_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "notes.db"
    file.write_bytes(b"these are notes, and no database at all" * 100)
    history = kept(f"sqlite:///{file}")
    asyncio.run(history.open())
    assert os.fspath(file) in history.why_degraded
    assert file.read_bytes().startswith(b"these are notes")
