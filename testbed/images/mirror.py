"""The mirror that this machine's apt takes its own release from."""

import shutil
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from testbed.errors import MissingPrerequisite

_FIELDS = ("$(REPO_URI)", "$(RELEASE)", "$(COMPONENT)", "$(ARCHITECTURE)")


@dataclass(frozen=True)
class Mirror:
    """A Debian archive.

    Attributes:
        address: Its address.
        suite: The release's name there.
        architecture: As Debian calls it.
    """

    address: str
    suite: str
    architecture: str


@lru_cache(maxsize=1)
def mirror() -> Mirror:
    """Ask apt for the mirror of this machine's release.

    Raises:
        MissingPrerequisite: There is no apt, or it has no list of this release.
    """
    suite = release()
    apt = shutil.which("apt-get")
    if apt is None:
        raise MissingPrerequisite(
            "no apt-get: Stowplan's own image has a Debian base; make it on Debian or Ubuntu"
        )
    listed = subprocess.run(
        [apt, "indextargets", "--format", "\t".join(_FIELDS), "Identifier: Packages"],
        capture_output=True,
        text=True,
        check=True,
    )
    return choose(listed.stdout, suite)


@lru_cache(maxsize=1)
def architecture() -> str:
    """This machine's architecture as Debian and OCI call it.

    Raises:
        MissingPrerequisite: There is no dpkg to ask.
    """
    dpkg = shutil.which("dpkg")
    if dpkg is None:
        raise MissingPrerequisite(
            "no dpkg: the images are made of Debian's packages; make them on Debian or Ubuntu"
        )
    return subprocess.run(
        [dpkg, "--print-architecture"], capture_output=True, text=True, check=True
    ).stdout.strip()


def choose(index_targets: str, suite: str) -> Mirror:
    """Choose the mirror of a release.

    Args:
        index_targets: A line per list of packages: address, release, component and architecture, with tabs
            between.
        suite: The release.

    Raises:
        MissingPrerequisite: No line is for the main component of that release.
    """
    for line in index_targets.splitlines():
        address, release, component, architecture = line.split("\t")
        if release == suite and component == "main":
            return Mirror(address, suite, architecture)
    raise MissingPrerequisite(
        f"apt has no list of packages of {suite}, which Stowplan's image is made of: apt-get update"
    )


def release(described: Path = Path("/etc/os-release")) -> str:
    """This machine's release, such as `bookworm`.

    Args:
        described: The file that describes the system.

    Raises:
        MissingPrerequisite: The file names no release.
    """
    for line in described.read_text().splitlines() if described.is_file() else ():
        if line.startswith("VERSION_CODENAME="):
            return line.partition("=")[2].strip('"')
    raise MissingPrerequisite(
        f"{described} names no VERSION_CODENAME: make Stowplan's image on Debian or Ubuntu"
    )
