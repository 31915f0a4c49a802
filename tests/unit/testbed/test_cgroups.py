"""Version 2 alone, on files that stand for the kernel's: what is asked of it, what is said of a refusal."""

import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from testbed import cgroups
from testbed.errors import ComponentFailed, MissingPrerequisite

OFFERED = "cpuset cpu io memory pids rdma misc"
ASKED = "+cpuset +cpu +io +memory +pids"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The root of version 2 alone, on a machine of which no controller was switched off."""
    monkeypatch.setattr(cgroups, "unified", lambda: tmp_path)
    monkeypatch.setattr(cgroups, "is_hybrid", lambda: False)
    monkeypatch.setattr(cgroups, "hierarchies", lambda: {"unified": tmp_path})
    monkeypatch.setattr(cgroups, "SECONDS_TO_EMPTY", 0.03)
    (tmp_path / "cgroup.controllers").write_text(OFFERED + "\n")
    (tmp_path / "cgroup.procs").write_text("2\n")
    return tmp_path


def test_a_group_to_hold_processes_is_given_no_controllers(root: Path) -> None:
    cgroups.make("stow-x/daemons", everywhere=False)
    assert (root / "stow-x" / "daemons").is_dir()
    assert not (root / "cgroup.subtree_control").exists()


def test_a_group_for_limits_is_given_controllers_from_the_root_down(root: Path) -> None:
    node = root / "stow-x" / "node-1"
    node.mkdir(parents=True)
    (node / "cgroup.controllers").write_text(OFFERED)
    cgroups.make("stow-x/node-1", everywhere=True)
    assert (root / "cgroup.subtree_control").read_text() == ASKED
    assert (root / "stow-x" / "cgroup.subtree_control").read_text() == ASKED
    assert not (node / "cgroup.subtree_control").exists(), "what is below it is the kubelet's"


def test_a_controller_that_is_taken_away_meanwhile_is_asked_for_again(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = root / "node-1"
    node.mkdir()
    given = node / "cgroup.controllers"
    given.write_text("cpu memory pids")

    def the_second_time(_: float) -> None:
        (root / "cgroup.subtree_control").unlink()
        given.write_text(OFFERED)

    monkeypatch.setattr(time, "sleep", the_second_time)
    cgroups.make("node-1", everywhere=True)
    assert (root / "cgroup.subtree_control").read_text() == ASKED


def test_a_controller_that_stays_away_is_said(root: Path) -> None:
    (root / "node-1").mkdir()
    (root / "node-1" / "cgroup.controllers").write_text("cpu memory pids")
    with pytest.raises(ComponentFailed, match=r"node-1 is not given .*cpuset.*: something switches them off"):
        cgroups.make("node-1", everywhere=True)


def test_a_refusal_names_the_file_and_the_reason(root: Path) -> None:
    (root / "cgroup.subtree_control").mkdir()
    with pytest.raises(ComponentFailed, match=rf"Is a directory: '{root}/cgroup\.subtree_control'"):
        cgroups.make("node-1", everywhere=True)


# ── what is looked at beforehand ──


def test_the_root_of_a_machine_may_hold_processes(root: Path) -> None:
    assert (root / "cgroup.procs").read_text()
    cgroups.check_limits()


def test_the_root_of_a_container_may_not(root: Path) -> None:
    (root / "cgroup.type").write_text("domain\n")
    with pytest.raises(MissingPrerequisite, match=rf"^{root} is a container's .*move them aside \(mkdir"):
        cgroups.check_limits()
    (root / "cgroup.procs").write_text("")
    cgroups.check_limits()


@pytest.mark.parametrize("controller", ["cpu", "memory"])
def test_a_kernel_without_a_controller(root: Path, controller: str) -> None:
    (root / "cgroup.controllers").write_text(" ".join(name for name in OFFERED.split() if name != controller))
    with pytest.raises(
        MissingPrerequisite, match=rf"no controller {controller}: .*cgroup_enable={controller}"
    ):
        cgroups.check_limits()


def test_a_hierarchy_that_is_read_only(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=os.ST_RDONLY | os.ST_NOSUID))
    with pytest.raises(MissingPrerequisite, match=rf"^{root} is mounted read-only, .*privileged container"):
        cgroups.check_limits()
