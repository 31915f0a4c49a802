"""Ctrl-C as a request: the first asks for an orderly end, the second ends at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import Protocol

__all__ = ["Flag", "ctrl_c_held_back", "ctrl_c_sets"]


class Flag(Protocol):
    """What a flag between threads and one between processes have in common."""

    def is_set(self) -> bool:
        """Whether it was set."""
        ...

    def set(self) -> None:
        """Set it."""
        ...


@contextmanager
def ctrl_c_sets(stop: Flag) -> Generator[None]:
    """Have the first Ctrl-C set `stop` and the second raise; only the main thread can be asked to."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)

    def note(number: int, frame: FrameType | None) -> None:
        del number, frame
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def ctrl_c_held_back() -> Generator[None]:
    """Have Ctrl-C wait, and never reach processes started meanwhile: they inherit the mask.

    A terminal sends Ctrl-C to the whole group; one that hit a worker still importing would end it in mid-air.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
