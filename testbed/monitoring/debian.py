"""Programs out of Debian's packages, without installing these.

Installing `prometheus` would start a service on the user's machine. So the package is only downloaded (apt
checks it against the distribution's signed lists) and unpacked into the cache; its programs need nothing but
libc. A package that is unpacked already is used as it is: whoever wants a newer version removes its folder.
"""

import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from testbed.cache import cache_folder, exclusively
from testbed.errors import MissingPrerequisite

PACKAGES = ("prometheus", "prometheus-node-exporter")


def program(package: str, name: str) -> Path:
    """A program of a Debian package, which is downloaded and unpacked if it is not in the cache.

    Args:
        package: The package's name.
        name: The program's, in the package's /usr/bin.

    Raises:
        MissingPrerequisite: This is no Debian, apt does not know the package, or it could not be downloaded.
    """
    return unpacked(package) / "usr" / "bin" / name


def fetch(packages: Iterable[str] = PACKAGES) -> None:
    """Download and unpack the packages that are not in the cache.

    Raises:
        MissingPrerequisite: As for `program`.
    """
    for package in packages:
        unpacked(package)


def unpacked(package: str) -> Path:
    """The folder that a package is unpacked in, `…/debian/PACKAGE=VERSION`; made if there is none."""
    folder = cache_folder() / "debian"
    with exclusively(f"debian-{package}"):
        present = sorted(folder.glob(f"{package}=*"), key=lambda path: path.stat().st_mtime)
        return present[-1] if present else _unpack(package, folder)


def _unpack(package: str, folder: Path) -> Path:
    for tool in ("apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise MissingPrerequisite(
                f"{tool} is not on this machine: {package} comes from a Debian package; run without "
                "Prometheus (prometheus=False), or on Debian"
            )
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        # As root, apt would drop to a user that cannot write here, and warn that it did not.
        _run(package, "apt-get", "-o", "APT::Sandbox::User=root", "--quiet", "download", package, cwd=scratch)
        (archive,) = Path(scratch).glob("*.deb")
        version = _run(package, "dpkg-deb", "--field", archive.name, "Version", cwd=scratch).strip()
        _run(package, "dpkg-deb", "--extract", archive.name, "half", cwd=scratch)
        return (Path(scratch) / "half").rename(folder / f"{package}={version}")


def _run(package: str, *command: str, cwd: str) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = " ".join(done.stderr.split())[-300:]
        raise MissingPrerequisite(
            f"the Debian package {package} cannot be had (`{' '.join(command)}`: {said}): "
            "apt-get update, then try again"
        )
    return done.stdout
