"""What becomes of older versions in the cache, and of what a killed build left there."""

import shutil
import time
from pathlib import Path

KEPT_VERSIONS = 3  # of each image; a checkout that changes makes one more each time
IN_USE_S = 600.0  # longer than any import or copy of a version takes
LONGEST_BUILD_S = 3600.0


HALF = ".half-"  # how the name of a folder begins that something is built in


def remove_abandoned(folder: Path) -> None:
    """Remove what builds left that were killed; what changed lately may be a build that runs."""
    for half in folder.glob(f"{HALF}*"):
        if time.time() - half.stat().st_mtime > LONGEST_BUILD_S:
            shutil.rmtree(half)


def keep_newest(folder: Path, pattern: str, kept: int = KEPT_VERSIONS) -> None:
    """Remove what matches but for the most recently used; what was used a moment ago may still be in use.

    Args:
        folder: The folder of all versions.
        pattern: What the names of the versions match.
        kept: How many stay.
    """
    used_s = {path: path.stat().st_mtime for path in folder.glob(pattern)}
    for path in sorted(used_s, key=lambda path: used_s[path], reverse=True)[kept:]:
        if time.time() - used_s[path] < IN_USE_S:
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
