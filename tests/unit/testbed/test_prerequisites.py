"""What a machine may lack: each missing thing is one line with the mend, before anything is made."""

import os
from pathlib import Path

import pytest

from testbed import cgroups, prerequisites
from testbed.errors import MissingPrerequisite
from testbed.spec import ClusterSpec, FakeNodes, RealNode

REAL = ClusterSpec(real_nodes=(RealNode(),), fake_nodes=(FakeNodes(count=1),), argo=True)


@pytest.fixture(autouse=True)
def able_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine that has everything; each test takes one thing away."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for program in {*prerequisites.FOR_ALL, *prerequisites.FOR_REAL_NODES}:
        (folder / program).write_text("#!/bin/sh\n")
        (folder / program).chmod(0o755)
    plugin = tmp_path / "cni" / "bridge"
    plugin.parent.mkdir()
    plugin.touch()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("STOWPLAN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(cgroups, "unified", lambda: tmp_path)
    monkeypatch.setattr(cgroups, "check_limits", lambda: None)
    monkeypatch.setattr(prerequisites, "CNI_PLUGINS", plugin)
    monkeypatch.setattr(prerequisites, "is_built", lambda _: True)
    monkeypatch.setattr(prerequisites, "program_path", Path)
    return tmp_path


def test_an_able_machine_passes() -> None:
    prerequisites.check(REAL)


def test_without_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(MissingPrerequisite, match=r"^not root: .*sudo make"):
        prerequisites.check(REAL)


@pytest.mark.parametrize(
    ("program", "package"),
    [("containerd", "containerd"), ("runc", "runc"), ("ip", "iproute2"), ("gcc", "gcc")],
)
def test_without_a_system_program(able_machine: Path, program: str, package: str) -> None:
    (able_machine / "bin" / program).unlink()
    with pytest.raises(
        MissingPrerequisite, match=rf"^{program} is not installed: apt-get install {package} "
    ):
        prerequisites.check(REAL)


def test_without_real_nodes_no_container_runtime_is_needed(able_machine: Path) -> None:
    (able_machine / "bin" / "containerd").unlink()
    prerequisites.check(ClusterSpec(fake_nodes=(FakeNodes(count=1),)))


def test_where_no_group_can_have_limits_no_real_node_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise MissingPrerequisite("no limits here")

    monkeypatch.setattr(cgroups, "check_limits", refuse)
    with pytest.raises(MissingPrerequisite, match="no limits here"):
        prerequisites.check(REAL)
    prerequisites.check(ClusterSpec(fake_nodes=(FakeNodes(count=1),)))


def test_without_network_plugins(able_machine: Path) -> None:
    (able_machine / "cni" / "bridge").unlink()
    with pytest.raises(MissingPrerequisite, match=r"bridge is missing: apt-get install containernetworking"):
        prerequisites.check(REAL)


def test_without_space(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prerequisites, "FREE_BYTES_TO_RUN", 1 << 62)
    with pytest.raises(MissingPrerequisite, match=r"GB free at .*free some, or name another place"):
        prerequisites.check(REAL)


def test_without_a_built_program_but_with_go(monkeypatch: pytest.MonkeyPatch) -> None:
    def not_built(name: str) -> Path:
        raise MissingPrerequisite(f"{name} is not built yet")

    monkeypatch.setattr(prerequisites, "is_built", lambda _: False)
    monkeypatch.setattr(prerequisites, "go_command", lambda: ("go", "go1.26.8"))
    monkeypatch.setattr(prerequisites, "program_path", not_built)
    with pytest.raises(MissingPrerequisite, match=r"^etcd is not built yet"):
        prerequisites.check(REAL)


def test_without_go_that_is_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_go() -> tuple[str, str]:
        raise MissingPrerequisite("no Go on this machine")

    monkeypatch.setattr(prerequisites, "is_built", lambda _: False)
    monkeypatch.setattr(prerequisites, "go_command", no_go)
    with pytest.raises(MissingPrerequisite, match=r"^no Go on this machine"):
        prerequisites.check(REAL)


def test_each_kind_of_cluster_asks_for_its_own_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(prerequisites, "program_path", asked.append)
    prerequisites.check(ClusterSpec(scheduler=None))
    assert asked == ["etcd", "kube-apiserver", "kube-controller-manager"]
    asked.clear()
    prerequisites.check(REAL)
    assert {"kube-scheduler", "kubelet", "kwok", "workflow-controller", "argoexec"} <= set(asked)
