"""Stowplan itself as layers of an image: what it depends on, and the wheel of this checkout.

Dependencies are those of `requirements/serve.lock`, each with its hash, from the same source that pip takes
everything from. The wheel is built by the locked build backend that is installed here. Both stand where the
base system's Python looks for packages that are not Debian's.
"""

import platform
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from testbed.errors import ComponentFailed, MissingPrerequisite
from testbed.images.archive import Entry, file, tree
from testbed.images.base import PYTHON, base_parts, base_system, compile_python, python_version
from testbed.images.progress import Report

CHECKOUT = Path(__file__).resolve().parent.parent.parent
LOCK = CHECKOUT / "requirements" / "serve.lock"

# Wheels for these C libraries run on the base system: from the one that it has to the oldest in use.
_GLIBC_MINORS = range(36, 4, -1)


def dependency_parts() -> Iterator[bytes]:
    """What decides the layer of dependencies."""
    yield from base_parts()
    yield LOCK.read_bytes()
    yield Path(__file__).read_bytes()


def wheel_parts() -> Iterator[bytes]:
    """What decides the layer of Stowplan's own files: all that its wheel is made of."""
    yield from base_parts()
    yield Path(__file__).read_bytes()
    for name in ("pyproject.toml", "README.md", "LICENSE", "requirements/build.lock"):
        yield (CHECKOUT / name).read_bytes()
    package = CHECKOUT / "src" / "stowplan"
    for path in sorted(package.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield str(path.relative_to(package)).encode()
            yield path.read_bytes()


def dependency_entries(scratch: Path, report: Report) -> Iterator[Entry]:
    """Everything of the lock, installed.

    Args:
        scratch: An empty folder, which must stay until the entries are used.
        report: Takes one line of progress at a time.

    Raises:
        ComponentFailed: pip could not install it.
    """
    report(f"stowplan: installing {LOCK.relative_to(CHECKOUT)}")
    yield from _installed(
        "the dependencies", ["--require-hashes", "--requirement", str(LOCK)], scratch, report
    )


def wheel_entries(scratch: Path, report: Report) -> Iterator[Entry]:
    """The wheel of this checkout, installed, and its commands.

    Args:
        scratch: An empty folder, which must stay until the entries are used.
        report: Takes one line of progress at a time.

    Raises:
        MissingPrerequisite: The build backend is not installed.
        ComponentFailed: The wheel could not be built or installed.
    """
    report("stowplan: building the wheel of this checkout")
    built, installed = scratch / "built", scratch / "installed"
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(built)]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    if "No module named hatchling" in done.stderr:
        raise MissingPrerequisite(
            f"{sys.executable} has no hatchling, which builds the wheel: make lint installs it"
        )
    _check(done, "building the wheel failed")
    project: dict[str, Any] = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    # By name from a folder: pip would note the path of a file in what it installs.
    sources = ["--no-index", f"--find-links={built}", project["name"]]
    yield from _installed("the wheel", sources, installed, report)
    for name, where in project["scripts"].items():
        module, _, function = where.partition(":")
        script = f"#!{PYTHON}\nimport sys\n\nfrom {module} import {function}\n\nsys.exit({function}())\n"
        yield file(f"usr/local/bin/{name}", script.encode(), 0o755)


def _installed(what: str, arguments: list[str], target: Path, report: Report) -> Iterator[Entry]:
    base = base_system(report)
    version = python_version(base)
    place = f"usr/local/lib/python{version}/dist-packages"
    machine = platform.machine()
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input", "install"]
    command += ["--no-deps", "--no-compile", "--only-binary=:all:", f"--python-version={version}"]
    command += [f"--platform=manylinux_2_{minor}_{machine}" for minor in _GLIBC_MINORS]
    command += [f"--platform=manylinux2014_{machine}", "--target", str(target), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    _check(done, f"installing {what} failed")
    shutil.rmtree(target / "bin", ignore_errors=True)  # commands for the interpreter that ran pip
    compile_python(base, target, f"/{place}")
    yield from tree(target, place)


def _check(done: subprocess.CompletedProcess[str], failed: str) -> None:
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()
        raise ComponentFailed(f"{failed}: {said[-1]}")
