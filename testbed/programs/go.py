"""The Go toolchain as the builder uses it: found, its version checked, run in one fixed environment."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from testbed.errors import ComponentFailed, MissingPrerequisite

OLDEST_GO = (1, 26)

# A static program runs inside an image of its own; the same flags for all, so that they share Go's build
# cache.
ENVIRONMENT = {
    "CGO_ENABLED": "0",
    "GOTOOLCHAIN": "local",
    "GOWORK": "off",
    "GOFLAGS": "-mod=readonly -buildvcs=false",
}


@lru_cache(maxsize=1)
def go_command() -> tuple[str, str]:
    """Find the `go` command.

    Returns:
        Its path and its version, such as `go1.26.8`.

    Raises:
        MissingPrerequisite: There is none, or it is older than the modules need.
    """
    path = shutil.which("go")
    wanted = ".".join(map(str, OLDEST_GO))
    if path is None:
        raise MissingPrerequisite(
            f"no Go on this machine: the test cluster is built from source; install Go {wanted} or newer"
        )
    version = output([path, "env", "GOVERSION"], Path.cwd()).strip()
    found = re.match(r"go(\d+)\.(\d+)", version)
    if found is None or (int(found[1]), int(found[2])) < OLDEST_GO:
        raise MissingPrerequisite(
            f"Go here is {version}, the test cluster needs {wanted} or newer: install a newer Go"
        )
    return path, version


def output(command: Sequence[str], folder: Path) -> str:
    """Run a command of Go's in a module's folder and return what it printed.

    Raises:
        ComponentFailed: It failed; the message has its last line.
    """
    done = subprocess.run(
        command, cwd=folder, env=os.environ | ENVIRONMENT, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        said = last_line(done.stderr) or f"exit code {done.returncode}"
        raise ComponentFailed(f"`{' '.join(command[:4])} …` failed in {folder}: {said}")
    return done.stdout


def lines(command: Sequence[str], folder: Path, log: Path) -> Iterator[str]:
    """Run a command, hand out each line that it prints as it comes, and keep them all in `log`.

    Raises:
        ComponentFailed: It failed; the message has its last line and names the log.
    """
    with (
        log.open("w") as kept,
        subprocess.Popen(
            command,
            cwd=folder,
            env=os.environ | ENVIRONMENT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None  # noqa: S101 - it was asked for above
        try:
            for line in process.stdout:
                kept.write(line)
                yield line.rstrip("\n")
        except BaseException:
            process.terminate()
            raise
    if process.returncode != 0:
        text = log.read_text(errors="replace")
        if "no space left on device" in text:
            raise MissingPrerequisite(f"the disk is full (all of it: {log}): free some space and build again")
        raise ComponentFailed(f"{last_line(text) or f'exit code {process.returncode}'} (all of it: {log})")


def last_line(text: str) -> str:
    """The last line of a text that is not blank, or nothing."""
    kept = [line.strip() for line in text.splitlines() if line.strip()]
    return kept[-1] if kept else ""
