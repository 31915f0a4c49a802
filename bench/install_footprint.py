"""What an installation costs: disk of the base and of the serving layer, and the time from clone to demo."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from bench.harness import Row

REPOSITORY = Path(__file__).parent.parent


def size_mb(folder: Path) -> float:
    """Return the megabytes (10^6 bytes) of all files under `folder`, links not followed."""
    size_bytes = sum(
        (Path(parent) / name).lstat().st_size for parent, _, names in os.walk(folder) for name in names
    )
    return size_bytes / 1e6


def install(venv: Path, lock: str, wheel: Path) -> None:
    """Install `requirements/LOCK.lock` and the package into a new venv, as the README says."""
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    pip = [venv / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--require-hashes", "-r", REPOSITORY / "requirements" / f"{lock}.lock"], check=True)
    subprocess.run([*pip, "--no-deps", wheel], check=True)


def build_wheel(folder: Path) -> Path:
    """Build the package into `folder` and return the wheel."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--wheel-dir", folder, REPOSITORY], check=True)
    return next(folder.glob("*.whl"))


def seconds(command: Callable[[], object]) -> float:
    """Return the wall seconds of one call; an installation is measured once, as a user meets it."""
    start_s = perf_counter()
    command()
    return perf_counter() - start_s


def demo_rows(folder: Path) -> list[Row]:
    """Measure a fresh clone to a finished `make demo`, packages downloaded before, and the demo alone."""
    clone = folder / "clone"

    def from_clone_to_demo() -> None:
        subprocess.run(["git", "clone", "--quiet", REPOSITORY, clone], check=True)
        subprocess.run(
            ["make", "demo", f"PYTHON={sys.executable}"], cwd=clone, check=True, capture_output=True
        )

    def demo_again() -> None:
        subprocess.run([".venv/bin/stowplan", "demo"], cwd=clone, check=True, capture_output=True)

    return [
        Row.exact(
            seconds(from_clone_to_demo),
            name="install/clone-to-demo",
            what="git clone and make demo, packages downloaded before, kernels not yet compiled",
            unit="s",
        ),
        Row.exact(
            seconds(demo_again),
            name="install/demo-run",
            what="stowplan demo alone, kernels compiled",
            unit="s",
        ),
    ]


def run(*, quick: bool) -> list[Row]:
    """Install into throw-away venvs; `quick` leaves out the base install and the demo."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        wheel = build_wheel(folder / "wheel")
        for lock in ["serve"] if quick else ["serve", "base"]:
            venv = folder / lock
            install(venv, lock, wheel)
            rows.append(
                Row.exact(
                    size_mb(venv),
                    name=f"install/{lock}-size",
                    what=f"venv with requirements/{lock}.lock and the package, pip included",
                    unit="MB",
                )
            )
        if not quick:
            rows += demo_rows(folder)
    return rows
