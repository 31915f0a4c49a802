"""The folder of everything that is slow to make and is made once: programs, images, a base system."""

import fcntl
import hashlib
import os
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path


def cache_folder() -> Path:
    """The folder of this user's slow parts: STOWPLAN_CACHE, else `stowplan` in the user's cache folder."""
    named = os.environ.get("STOWPLAN_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "stowplan"


def content_hash(parts: Iterable[bytes]) -> str:
    """The first 16 hexadecimal digits of the SHA-256 of all parts; where one part ends matters too."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()[:16]


@contextmanager
def exclusively(name: str) -> Generator[None]:
    """Hold the cache's lock of that name; a second process waits, and a dead one holds nothing."""
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
