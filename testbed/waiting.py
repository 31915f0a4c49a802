"""Waiting for something to become true: with a limit, and with what was seen last when it did not."""

import time
from collections.abc import Callable
from typing import TypeVar

from testbed.errors import ComponentFailed

T = TypeVar("T")

FIRST_PAUSE_S = 0.01
LONGEST_PAUSE_S = 0.25


def wait_for(
    what: str, look: Callable[[], T | None], within_s: float, *, longest_pause_s: float = LONGEST_PAUSE_S
) -> T:
    """Call `look` until it returns something true, and return that.

    Args:
        what: What is waited for, for the message.
        look: Returns something true when it is there; an exception that it raises passes through.
        within_s: Longest wait in seconds.
        longest_pause_s: Longest time between two looks; the first ones follow each other faster.

    Raises:
        ComponentFailed: It did not become true in time.
    """
    deadline = time.monotonic() + within_s
    pause_s = FIRST_PAUSE_S
    while True:
        seen = look()
        if seen:
            return seen
        if time.monotonic() > deadline:
            raise ComponentFailed(f"{what}: not within {within_s:g} s (last seen: {seen!r})")
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, longest_pause_s)
