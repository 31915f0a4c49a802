"""The memory of a process that lives for weeks while pods come and go.

What it holds is bounded; what it takes from the system need not be: a connection or an answer takes memory,
small things that stay settle among what is given up, and the C library keeps the pages between them. Where
thousands of pods a minute come and go, that was 5 MB for each 10,000 of them, and no end in sight.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import os
from asyncio.sslproto import SSLProtocol
from typing import Final

import structlog

__all__ = [
    "GIVE_BACK_EVERY_S",
    "TLS_BUFFER_BYTES",
    "few_arenas",
    "give_back",
    "small_tls_buffers",
    "spare_the_collector",
]

TLS_BUFFER_BYTES: Final = 32 * 1024
"""What a TLS connection sets aside to read into, for as long as it lives.

A burst of bindings opens 250 connections, which at asyncio's own 256 KiB hold as much as the rest of the
scheduler. A TLS record is at most 16 KiB.
"""

GIVE_BACK_EVERY_S: Final = 60.0

_ARENAS: Final = 2
_M_ARENA_MAX: Final = -8  # malloc.h of GNU's C library

_COLLECT_AFTER: Final = (10_000, 20, 10)  # objects, then collections of the younger generation

_LOG = structlog.get_logger(__name__)


def small_tls_buffers() -> None:
    """Have the TLS connections that this process opens from now on read into small buffers."""
    SSLProtocol.max_size = TLS_BUFFER_BYTES  # asyncio has no argument for it


def few_arenas() -> None:
    """Have all threads take memory from the same two places, unless the environment says how many.

    GNU's C library gives each thread one of its own, which keeps what the thread once needed at most; threads
    of Python take turns anyway.
    """
    if "MALLOC_ARENA_MAX" in os.environ or "arena_max" in os.environ.get("GLIBC_TUNABLES", ""):
        return
    with contextlib.suppress(OSError, AttributeError):  # another C library has another way, or one place
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, _ARENAS)


def spare_the_collector() -> None:
    """Have garbage collection pass over what was just loaded, which stays.

    Each full collection would walk the whole copy of the cluster: 50 to 100 ms in which nothing is decided.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECT_AFTER)


async def give_back(every_s: float = GIVE_BACK_EVERY_S) -> None:
    """Give pages that hold nothing back to the system from time to time, until cancelled.

    Where the C library is not GNU's, nothing is given back, and the log says so once.
    """
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        _LOG.info("unused memory stays with the process", reason="the C library has no malloc_trim")
        await asyncio.Event().wait()
        return
    while True:
        await asyncio.sleep(every_s)
        await asyncio.to_thread(trim, 0)  # ctypes lets other threads run meanwhile
