"""Real nodes as text: limits in both layouts of control groups; what containerd and the kubelet read."""

import json
import os
import tomllib
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from testbed import cgroups
from testbed.errors import MissingPrerequisite
from testbed.nodes import cni, kubelet, limits, runtime
from testbed.nodes.capabilities import may_lower_oom_score
from testbed.nodes.place import LONGEST_SOCKET_PATH, NodePlace
from testbed.site import Site
from testbed.spec import GIB, RealNode, taint

PLACE = NodePlace(Site("unit", 130), 2)
SPEC = RealNode(cpus=0.5, memory_bytes=2 * GIB)
CORES = os.cpu_count() or 1


@pytest.fixture(autouse=True)
def _no_image_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def name_of(image: str) -> str:
        return f"docker.io/stowplan/{image}:unit"

    monkeypatch.setattr(runtime, "image_name", name_of)


# ── limits ──


def test_a_node_has_its_quota_and_limit_in_the_hybrid_layout() -> None:
    assert limits.settings(SPEC, hybrid=True) == [
        ("cpu", "cpu.cfs_period_us", "100000"),
        ("cpu", "cpu.cfs_quota_us", "50000"),
        ("memory", "memory.limit_in_bytes", "2147483648"),
    ]


def test_a_node_has_its_quota_and_limit_in_version_2() -> None:
    assert limits.settings(SPEC, hybrid=False) == [
        ("cpu", "cpu.max", "50000 100000"),
        ("memory", "memory.max", "2147483648"),
    ]


@pytest.mark.parametrize(
    ("read", "write", "line"),
    [
        (1000, 2000, "254:0 rbps=1000 wbps=2000"),
        (None, 2000, "254:0 rbps=max wbps=2000"),
        (1000, None, "254:0 rbps=1000 wbps=max"),
    ],
)
def test_a_disk_throttle_in_version_2(read: int | None, write: int | None, line: str) -> None:
    spec = replace(SPEC, disk_read_bytes_per_s=read, disk_write_bytes_per_s=write)
    assert limits.io_max((254, 0), spec) == line


@pytest.mark.parametrize(("has_io", "held"), [(True, limits.DiskLimit.NODE), (False, limits.DiskLimit.NONE)])
def test_all_limits_are_the_groups_own_in_version_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: limits.DiskLimit, *, has_io: bool
) -> None:
    made: list[tuple[str, bool]] = []

    def make(group: str, *, everywhere: bool) -> None:
        made.append((group, everywhere))
        (tmp_path / group).mkdir(parents=True)
        if has_io:
            (tmp_path / group / "io.max").touch()

    monkeypatch.setattr(cgroups, "make", make)
    monkeypatch.setattr(cgroups, "is_hybrid", lambda: False)
    monkeypatch.setattr(cgroups, "unified", lambda: tmp_path)
    monkeypatch.setattr(limits, "disk_of", lambda _: (254, 0))
    assert limits.apply(PLACE, replace(SPEC, disk_write_bytes_per_s=2000)) is held
    assert made == [("stow-unit/node-2", True)]
    assert {file.name: file.read_text() for file in (tmp_path / "stow-unit" / "node-2").iterdir()} == {
        "cpu.max": "50000 100000",
        "memory.max": "2147483648",
    } | ({"io.max": "254:0 rbps=max wbps=2000"} if has_io else {})
    assert (tmp_path / "stow-unit" / "cpu.weight").read_text() == "1000"


def test_a_disk_throttle_in_version_1_is_on_each_container() -> None:
    container = {"process": {}, "linux": {"resources": {"devices": []}, "namespaces": []}}
    held = runtime.throttled(container, replace(SPEC, disk_write_bytes_per_s=2000), (254, 0))
    assert held["linux"]["resources"] == {
        "devices": [],
        "blockIO": {"throttleWriteBpsDevice": [{"major": 254, "minor": 0, "rate": 2000}]},
    }
    assert held["linux"]["namespaces"] == []
    assert container["linux"]["resources"] == {"devices": []}, "the default stays as it is"


def test_controllers_that_share_a_hierarchy_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    roots = {name: Path("/groups") / name for name in ("unified", "cpu,cpuacct", "memory")}
    monkeypatch.setattr(cgroups, "hierarchies", lambda: roots)
    monkeypatch.setattr(cgroups, "is_hybrid", lambda: True)
    assert limits._root_of("cpu") == roots["cpu,cpuacct"]
    assert limits._root_of("memory") == roots["memory"]
    with pytest.raises(MissingPrerequisite, match=r"no control group hierarchy has the controller blkio"):
        limits._root_of("blkio")


def test_the_disk_of_a_folder_is_a_whole_disk() -> None:
    disk = limits.disk_of(Path(__file__).parent)
    if disk is None:
        pytest.skip("this checkout is on no disk")
    entry = Path(f"/sys/dev/block/{disk[0]}:{disk[1]}").resolve()
    assert (entry / "size").exists()
    assert not (entry / "partition").exists()


def test_a_folder_that_is_on_no_disk_cannot_be_throttled() -> None:
    assert limits.disk_of(Path("/proc")) is None


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (RealNode(cpus=0), rf"node-3: cpus=0: must be from 0\.01 to {CORES}, the cores of this machine"),
        (RealNode(cpus=CORES + 0.5), rf"node-3: cpus={CORES + 0.5:g}: must be from"),
        (RealNode(cpus=float("nan")), r"node-3: cpus=nan: must be from"),
        (
            RealNode(cpus=0.1, memory_bytes=1),
            r"node-3: memory_bytes=1: must be from 67108864 to \d+, the memory",
        ),
        (RealNode(cpus=0.1, memory_bytes=1 << 60), r"node-3: memory_bytes=1152921504606846976: must be from"),
        (
            RealNode(cpus=0.1, memory_bytes=GIB, disk_read_bytes_per_s=0),
            r"disk_read_bytes_per_s=0: must be at least 1",
        ),
        (
            RealNode(cpus=0.1, memory_bytes=GIB, disk_write_bytes_per_s=-1),
            r"disk_write_bytes_per_s=-1: must be",
        ),
    ],
)
def test_a_share_that_cannot_be_is_one_line(spec: RealNode, said: str) -> None:
    with pytest.raises(MissingPrerequisite, match=said) as refused:
        limits.check(3, spec)
    assert "\n" not in str(refused.value)


def test_a_share_of_the_whole_machine_can_be() -> None:
    limits.check(1, RealNode(cpus=CORES, memory_bytes=psutil.virtual_memory().total))


@pytest.mark.parametrize(("mask", "may"), [("000001ffffffffff", True), ("000001fffeffffff", False)])
def test_whether_oom_scores_may_be_lowered(tmp_path: Path, mask: str, *, may: bool) -> None:
    status = tmp_path / "status"
    status.write_text(f"Name:\tx\nCapPrm:\t000001ffffffffff\nCapEff:\t{mask}\n")
    assert may_lower_oom_score(status) is may


# ── containerd and CNI ──


def cri_of(text: str) -> dict[str, object]:
    return tomllib.loads(text)["plugins"]["io.containerd.grpc.v1.cri"]


@pytest.mark.parametrize("restrict", [True, False])
def test_containerd_keeps_to_the_node(*, restrict: bool) -> None:
    text = runtime.configuration(PLACE, None, restrict_oom_score=restrict)
    whole, cri = tomllib.loads(text), cri_of(text)
    assert whole["root"] == str(PLACE.folder / "containerd")
    assert f"unix://{whole['grpc']['address']}" == runtime.ENDPOINT
    assert cri["restrict_oom_score_adj"] is restrict
    assert cri["netns_mounts_under_state_dir"] is True
    assert cri["disable_apparmor"] is True, "its profile would stay in the machine's kernel"
    assert cri["sandbox_image"] == "docker.io/stowplan/pause:unit"
    assert "base_runtime_spec" not in json.dumps(cri)


def test_containerd_starts_containers_from_a_base_when_the_disk_is_throttled() -> None:
    cri = cri_of(runtime.configuration(PLACE, Path('/a "b"/c.json'), restrict_oom_score=False))
    assert '"base_runtime_spec": "/a \\"b\\"/c.json"' in json.dumps(cri)


def test_a_socket_in_a_deep_cache_folder_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOWPLAN_CACHE", "/" + "deep/" * 12)
    assert len(bytes(PLACE.containerd_socket)) <= LONGEST_SOCKET_PATH
    monkeypatch.setenv("STOWPLAN_CACHE", "/" + "deep/" * 20)
    with pytest.raises(
        MissingPrerequisite, match=r"bytes long, a socket's path may have 107: .*STOWPLAN_CACHE"
    ):
        _ = PLACE.containerd_socket


def test_pods_have_addresses_of_their_nodes_range() -> None:
    ipam = cni.configuration(PLACE)["plugins"][0]["ipam"]
    assert ipam["ranges"] == [[{"subnet": "10.130.2.0/24"}]]


# ── kubelet ──


def test_what_is_reserved_leaves_exactly_the_share() -> None:
    document = kubelet.configuration(PLACE, SPEC, cores=2, memory_bytes=25_276_510_208)
    assert document["kubeReserved"] == {"cpu": "1500m", "memory": str(25_276_510_208 - 2 * GIB)}
    assert document["cgroupRoot"] == "/stow-unit/node-2"
    assert document["address"] == "10.130.0.12"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b:NoSchedule", {"key": "a", "value": "b", "effect": "NoSchedule"}),
        ("a:NoExecute", {"key": "a", "effect": "NoExecute"}),
        ("x.io/a=:PreferNoSchedule", {"key": "x.io/a", "effect": "PreferNoSchedule"}),
    ],
)
def test_taints_are_read(text: str, expected: dict[str, str]) -> None:
    assert taint(text) == expected
    assert kubelet.configuration(PLACE, replace(SPEC, taints=(text,)), 2, 4 * GIB)["registerWithTaints"] == [
        expected
    ]


@pytest.mark.parametrize(
    "text", ["", "a", "a=b", ":NoSchedule", "a=b=c:NoSchedule", "a:Sometimes", "a:b:NoExecute"]
)
def test_what_is_no_taint_is_refused(text: str) -> None:
    with pytest.raises(MissingPrerequisite, match=r"is no taint: write key=value:Effect"):
        taint(text)
