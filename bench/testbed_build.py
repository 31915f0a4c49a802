"""The programs of the test cluster built from nothing: every cache empty."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

from bench.harness import Row
from testbed.programs import PROGRAMS

REPOSITORY = Path(__file__).parent.parent


def build_cold(folder: Path, names: list[str]) -> float:
    """Build programs with all caches in an empty folder and return the seconds, downloads included."""
    caches = {"GOCACHE": "go-build", "GOMODCACHE": "modules", "STOWPLAN_CACHE": "programs"}
    environment = os.environ | {variable: str(folder / name) for variable, name in caches.items()}
    start_s = perf_counter()
    subprocess.run(
        [sys.executable, "-m", "testbed", "programs", *names], cwd=REPOSITORY, env=environment, check=True
    )
    took_s = perf_counter() - start_s
    # The module cache is written read-only; Go removes it itself.
    subprocess.run(["go", "clean", "-modcache"], env=environment, check=True)
    return took_s


def run(*, quick: bool) -> list[Row]:
    """Build everything once, as a new machine does; `quick` builds etcd only."""
    names = ["etcd"] if quick else list(PROGRAMS)
    with tempfile.TemporaryDirectory() as scratch:
        took_s = build_cold(Path(scratch), names)
    return [
        Row.exact(
            took_s / 60.0,
            name="testbed/cold-build",
            what=f"{len(names)} programs from nothing, modules downloaded: {', '.join(names)}",
            unit="min",
            note="takes as long as it says",
        )
    ]
