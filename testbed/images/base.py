"""The base system under Stowplan's own image: a minimal Debian with Python, made by debootstrap and kept.

It comes from the mirror and with the release that this machine's apt is configured for. debootstrap mounts
/proc and /sys into what it makes; it runs in namespaces of its own, so nothing is left mounted or running
however it ends.

In an image every file has the time 0. Python would find that none of its compiled files fits its source, and
compile at each start; so all are compiled anew, in the form that is not checked against the source (PEP 552).
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from testbed.cache import cache_folder, content_hash, exclusively
from testbed.errors import ComponentFailed, MissingPrerequisite
from testbed.images.mirror import architecture, mirror, release
from testbed.images.progress import Report, tell
from testbed.images.upkeep import HALF, keep_newest

PACKAGES = ("python3",)
PYTHON = "/usr/bin/python3"
# In mount and process namespaces of its own, which end with this process even if it is killed.
APART = (
    *("setpriv", "--pdeathsig", "KILL"),
    *("unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc"),
)
COMPILE = (PYTHON, "-m", "compileall", "-q", "-f", "--invalidation-mode", "unchecked-hash")

# Of these folders nothing is needed to run Python, and some of it differs from run to run.
LEFT_OUT = (
    "dev",
    "proc",
    "run",
    "sys",
    "tmp",
    "usr/share/doc",
    "usr/share/info",
    "usr/share/locale",
    "usr/share/man",
    "var/cache",
    "var/lib/apt/lists",
    "var/log",
)


def base_parts() -> Iterator[bytes]:
    """What decides the base system: the release, the packages, and this module."""
    yield repr((release(), architecture(), PACKAGES)).encode()
    yield Path(__file__).read_bytes()


def base_system(report: Report = tell) -> Path:
    """The folder of the base system, made now if it is not in the cache.

    Args:
        report: Takes one line of progress at a time.

    Raises:
        MissingPrerequisite: Not root, no debootstrap, or apt knows no mirror of this release.
        ComponentFailed: debootstrap failed; the message names its log.
    """
    place = cache_folder() / "images" / f"base-{content_hash(base_parts())}"
    if place.is_dir():
        os.utime(place)
        return place
    if os.geteuid() != 0:
        raise MissingPrerequisite("not root: the base system of an image is made by root (sudo make …)")
    if shutil.which("debootstrap") is None:
        raise MissingPrerequisite(
            "no debootstrap on this machine: apt-get install debootstrap (or make test, as root)"
        )
    with exclusively("base-system"):
        if not place.is_dir():
            place.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=place.parent, prefix=HALF) as scratch:
                half = Path(scratch) / "system"
                _bootstrap(half, place.parent / "debootstrap.log", report)
                _tidy(half)
                half.rename(place)
                keep_newest(place.parent, "base-*", kept=2)
    return place


def python_version(base: Path) -> str:
    """The version of Python in the base system, such as `3.11`."""
    script = "import sys; print('{}.{}'.format(*sys.version_info))"
    said = _run(["chroot", str(base), PYTHON, "-c", script], "the base system's Python does not start")
    return said.strip()


def compile_python(base: Path, folder: Path, place: str) -> None:
    """Compile all Python files of a folder with the base system's Python.

    Args:
        base: The base system.
        folder: The folder on this machine.
        place: Where it will stand in the image, for the compiled files to say.

    Raises:
        ComponentFailed: A file does not compile.
    """
    script = 'mount --bind "$1" "$2/mnt" && shift && root=$1 && shift && exec chroot "$root" "$@"'
    command = [*APART, "sh", "-c", script, "sh", str(folder), str(base)]
    command += [*COMPILE, "-s", "/mnt", "-p", place, "/mnt"]
    _run(command, f"compiling the Python files for {place} failed")


def _bootstrap(place: Path, log: Path, report: Report) -> None:
    source = mirror()
    report(f"base system: {source.suite} with {', '.join(PACKAGES)} from apt's mirror (1 to 3 minutes)")
    command = [*APART, "debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}"]
    with log.open("w") as output:
        done = subprocess.run(
            [*command, source.suite, str(place), source.address],
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    if done.returncode != 0:
        said = [
            line for line in log.read_text(errors="replace").splitlines() if line.startswith(("E:", "W:"))
        ]
        why = said[-1] if said else f"exit code {done.returncode}"
        raise ComponentFailed(f"debootstrap of {source.suite} failed: {why}; see {log}")


def _tidy(system: Path) -> None:
    for path in LEFT_OUT:
        for found in list((system / path).iterdir()) if (system / path).is_dir() else ():
            if found.is_dir() and not found.is_symlink():
                shutil.rmtree(found)
            else:
                found.unlink()
    for host_file in (
        "etc/hostname",
        "etc/resolv.conf",
    ):  # copied from this machine; a container gets its own
        (system / host_file).unlink(missing_ok=True)
    libraries = sorted(f"/usr/lib/{path.name}" for path in (system / "usr/lib").glob("python3*"))
    _run(["chroot", str(system), *COMPILE, *libraries], "compiling the base system's Python files failed")


def _run(command: list[str], failed: str) -> str:
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()
        raise ComponentFailed(f"{failed}: {said[-1]}")
    return done.stdout
