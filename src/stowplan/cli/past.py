"""The history as commands read it: one that is not there is a mistake in its name, and none is made."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from stowplan.errors import InvalidInput
from stowplan.observe.history import HistoryStore

__all__ = ["opened"]


@contextmanager
def opened(url: str) -> Generator[HistoryStore]:
    """Open the history at `url` for the duration of a block.

    Raises:
        InvalidInput: the URL is unusable, or there is no such file.
        HistoryError: it cannot be opened.
    """
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise InvalidInput(
            f"--history is {url!r}; give sqlite:///FILE or postgresql://USER@HOST/NAME"
        ) from None
    if parsed.get_backend_name() == "sqlite" and not Path(parsed.database or "").is_file():
        raise InvalidInput(f"--history: there is no file {parsed.database!r}; name that of the scheduler")
    store = HistoryStore.open(url)
    try:
        yield store
    finally:
        store.close()
