"""Programs from Debian packages: whole or absent, downloaded once; a machine without apt is told so."""

import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from testbed.errors import MissingPrerequisite
from testbed.monitoring import debian

# Stands for apt: notes that it was called, and downloads a package that the test made.
APT = """#!/bin/sh
echo "$@" >> {calls}
cp {package} .
"""
# Stands for dpkg-deb, which not every machine has: the package is a tar archive with its version beside it.
DPKG = """#!/bin/sh
case "$1" in
--field) cat {version};;
--extract) mkdir "$3" && tar --extract --file "$2" --directory "$3";;
esac
"""


class Machine:
    """A machine with one Debian package to be had."""

    def __init__(self, folder: Path) -> None:
        self.programs, self.calls, self.version = folder / "bin", folder / "calls", folder / "version"
        self.programs.mkdir()
        tree = folder / "tree" / "usr" / "bin"
        tree.mkdir(parents=True)
        (tree / "p").write_text("a program")
        package = folder / "p_1.0_all.deb"
        subprocess.run(
            ["tar", "--create", "--file", package, "--directory", folder / "tree", "."], check=True
        )
        self.version.write_text("1:1.0-2\n")
        self.write("apt-get", APT.format(calls=self.calls, package=package))
        self.write("dpkg-deb", DPKG.format(version=self.version))
        for tool in ("sh", "cp", "cat", "mkdir", "tar"):
            (self.programs / tool).symlink_to(str(shutil.which(tool)))

    def write(self, name: str, script: str) -> None:
        (self.programs / name).write_text(script)
        (self.programs / name).chmod(0o755)

    def downloads(self) -> int:
        return len(self.calls.read_text().splitlines()) if self.calls.exists() else 0


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STOWPLAN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "debian"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path) -> Machine:
    assert not cache.exists()
    made = Machine(tmp_path)
    monkeypatch.setenv("PATH", str(made.programs))
    return made


def test_a_package_is_downloaded_once_and_kept_by_its_version(machine: Machine, cache: Path) -> None:
    program = debian.program("p", "p")
    assert program == cache / "p=1:1.0-2" / "usr" / "bin" / "p"
    assert program.read_text() == "a program"
    assert debian.program("p", "p") == program
    assert machine.downloads() == 1
    assert [path.name for path in cache.iterdir()] == ["p=1:1.0-2"]


def test_two_at_once_download_once(machine: Machine) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = set(pool.map(lambda _: debian.unpacked("p"), range(4)))
    assert len(found) == 1
    assert machine.downloads() == 1


def test_packages_whose_names_begin_alike_are_told_apart(machine: Machine, cache: Path) -> None:
    (cache / "p-more=9").mkdir(parents=True)
    assert debian.unpacked("p").name == "p=1:1.0-2"
    assert machine.downloads() == 1


@pytest.mark.parametrize(
    ("tool", "script"),
    [
        ("apt-get", "echo 'E: Unable to locate package p' >&2; exit 100"),
        ("dpkg-deb", "[ $1 = --field ] && echo 1 || { mkdir half; echo 'no space left' >&2; exit 2; }"),
    ],
)
def test_what_fails_leaves_nothing_and_says_what_to_do(
    machine: Machine, cache: Path, tool: str, script: str
) -> None:
    machine.write(tool, f"#!/bin/sh\n{script}\n")
    with pytest.raises(
        MissingPrerequisite, match=r"package p cannot be had .*(locate|space).*apt-get update"
    ) as told:
        debian.fetch(["p"])
    assert "\n" not in str(told.value)
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize("tool", ["apt-get", "dpkg-deb"])
def test_a_machine_that_is_no_debian_is_told_so(machine: Machine, tool: str) -> None:
    (machine.programs / tool).unlink()
    with pytest.raises(MissingPrerequisite, match=f"{tool} is not on this machine.*prometheus=False"):
        debian.fetch(["p"])


def test_a_package_in_the_cache_needs_no_apt(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    program = debian.program("p", "p")
    monkeypatch.setenv("PATH", os.devnull)
    assert debian.program("p", "p") == program
    assert machine.downloads() == 1
