"""Our small C programs, compiled statically by the machine's gcc and kept by content hash."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from testbed.cache import cache_folder, content_hash, exclusively
from testbed.errors import ComponentFailed, MissingPrerequisite

FLAGS = (
    "-std=gnu17",
    "-O2",
    "-static",
    "-pthread",
    "-Wall",
    "-Wextra",
    "-Wconversion",
    "-Wshadow",
    "-Werror",
)
PROGRAMS = ("load", "pause")
HERE = Path(__file__).resolve().parent


def compiled_program(name: str, within: Path = HERE) -> Path:
    """The program compiled from all C files of the folder of that name, now if it is not in the cache.

    Args:
        name: One of `PROGRAMS`, or a folder elsewhere.
        within: Where that folder is.

    Raises:
        MissingPrerequisite: No gcc, or no static C library.
        ComponentFailed: It does not compile; the message has gcc's first line.
    """
    place = (
        cache_folder() / "images" / "compiled" / f"{name}-{content_hash(compiled_parts(name, within))}" / name
    )
    if place.is_file():
        return place
    with exclusively(f"compiled-{name}"):
        if not place.is_file():
            place.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=place.parent) as scratch:
                half = Path(scratch) / name
                _compile(within / name, half)
                half.rename(place)
    return place


def compiled_parts(name: str, within: Path = HERE) -> Iterator[bytes]:
    """What decides the content of the program: sources, flags, the compiler and its C library."""
    compiler, library = _compiler()
    yield subprocess.run([compiler, "--version"], capture_output=True, check=True).stdout
    yield library.read_bytes()
    yield repr(FLAGS).encode()
    for source in sorted((within / name).glob("*.[ch]")):
        yield source.name.encode()
        yield source.read_bytes()


def _compile(folder: Path, place: Path) -> None:
    compiler, _ = _compiler()
    sources = [str(source) for source in sorted(folder.glob("*.c"))]
    command = [compiler, *FLAGS, "-o", str(place), *sources, "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0 or done.stderr:
        said = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()
        first_error = next((line for line in said if "error" in line or "warning" in line), said[0])
        raise ComponentFailed(f"{folder.name} does not compile with {compiler}: {first_error}")


@lru_cache(maxsize=1)
def _compiler() -> tuple[str, Path]:
    compiler = shutil.which("gcc")
    if compiler is None:
        raise MissingPrerequisite(
            "no gcc on this machine: apt-get install gcc libc6-dev (or make test, as root)"
        )
    answer = subprocess.run([compiler, "-print-file-name=libc.a"], capture_output=True, text=True, check=True)
    library = Path(answer.stdout.strip())
    if not library.is_file():
        raise MissingPrerequisite(
            f"no static C library for {compiler}: apt-get install libc6-dev (or make test, as root)"
        )
    return compiler, library
