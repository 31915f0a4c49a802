"""Our own cluster files: what they become, and each unusable value refused with the path of its field."""

from pathlib import Path

import pytest

from stowplan.core.domain import Taint, TaintEffect
from stowplan.core.physics.vocabulary import Resource
from stowplan.errors import InvalidFile, InvalidInput, InvalidObject, InvalidQuantity
from stowplan.simulate.clusters import Link, load_cluster
from stowplan.simulate.workloads import load_workload

CLUSTER = "apiVersion: stowplan/v1\nkind: Cluster\nmetadata: {name: c}\nspec:\n"


def cluster_file(folder: Path, spec: str) -> Path:
    path = folder / "c.yaml"
    path.write_text(CLUSTER + spec)
    return path


def test_examples_load(repository: Path) -> None:
    clusters = {path.stem: load_cluster(path) for path in (repository / "examples" / "clusters").iterdir()}
    assert {name: len(cluster) for name, cluster in clusters.items()} == {
        "gpu-training": 8, "kubernetes-nodes": 2, "laptop": 3, "three-zones": 12,
    }  # fmt: skip


def test_nodes_have_what_is_written(tmp_path: Path) -> None:
    path = cluster_file(
        tmp_path,
        """
  nodes:
    - name: big
      count: 3
      machineType: m
      zones: [a, b]
      racks: [r]
      cores: 8
      memory: 32Gi
      pods: 50
      allocatable: {cpu: 7500m, example.com/licence: 2}
      dram: 20Gi
      nic: {up: 1Gi, down: 2Gi}
      pcie: 16Gi
      disks: [{base: 100Mi, baseIops: 3k, burst: 200Mi, burstIops: 6k, credits: 10Gi}]
      gpus: [{model: T4, count: 2, rootComplex: "0"}]
      labels: {pool: x}
      taints: [{key: k, value: v, effect: NoExecute}]
      unschedulable: true
    - {name: small, cores: 2, memory: 4Gi, nic: 500Mi}
  fabric:
    sameRack: {bandwidth: 3Gi, latency: 50us}
    otherZone: {latency: 1ms}
    rackUplink: 6Gi
  background:
    - {name: backup, nodes: [big, small], first: 1m, every: 10m, work: {runtime: 30s, read: 1Gi}}
  drift:
    - {nodes: [big-1], resource: nic-up, factor: 0.5, meanNormal: 1h, meanDegraded: 1m}
""",
    )
    cluster = load_cluster(path)
    assert [node.name for node in cluster.nodes] == ["big-0", "big-1", "big-2", "small"]
    assert [node.label("topology.kubernetes.io/zone") for node in cluster.nodes] == ["a", "b", "a", None]
    big, small = cluster.nodes[0], cluster.nodes[-1]
    assert dict(big.allocatable) == {"cpu": 7500, "memory": 32 << 30, "pods": 50, "example.com/licence": 2}
    assert big.label("kubernetes.io/hostname") == "big-0"
    assert (big.label("pool"), big.label("topology.stowplan.io/rack")) == ("x", "r")
    assert big.taints == (Taint("k", "v", TaintEffect.NO_EXECUTE),)
    assert big.unschedulable
    hardware = big.hardware
    assert (hardware.cores, hardware.machine_type, hardware.dram_bytes_per_s) == (8.0, "m", 20 << 30)
    assert (hardware.nic_up_bytes_per_s, hardware.nic_down_bytes_per_s) == (1 << 30, 2 << 30)
    (disk,) = hardware.disks
    assert (disk.base_bytes_per_s, disk.burst_bytes_per_s, disk.credits_bytes) == (
        100 << 20,
        200 << 20,
        10 << 30,
    )
    assert (disk.base_iops, disk.burst_iops) == (3000.0, 6000.0)
    assert [(gpu.model, gpu.root_complex) for gpu in hardware.gpus] == [("T4", "0")] * 2
    assert (small.hardware.nic_up_bytes_per_s, small.hardware.nic_down_bytes_per_s) == (500 << 20, 500 << 20)
    assert dict(small.allocatable) == {"cpu": 2000, "memory": 4 << 30, "pods": 110}
    assert cluster.fabric.same_rack == Link(3 << 30, 50e-6)
    assert cluster.fabric.rack_uplink_bytes_per_s == 6 << 30
    assert [(tenant.node, tenant.first_s, tenant.every_s) for tenant in cluster.background] == [
        (name, 60.0, 600.0) for name in ("big-0", "big-1", "big-2", "small")
    ]
    (drift,) = cluster.drift
    assert (drift.nodes, drift.resource, drift.degraded_factor) == (("big-1",), Resource.NIC_UP, 0.5)


def test_drift_takes_its_levels_from_a_law(tmp_path: Path) -> None:
    rows = "".join(
        f"{value},1,2024-01-01 00:00:{index:02d}.0,{index}\n"
        for index, value in enumerate([100, 100, 100, 50, 20])
    )
    (tmp_path / "bench__vm__mib_s.csv").write_text("value,runtime,starttime,VM_id\n" + rows)
    drift = "{nodes: [n], resource: dram, law: bench__vm__mib_s.csv, meanNormal: 1h, meanDegraded: 1m}"
    path = cluster_file(tmp_path, f"  nodes: [{{name: n, cores: 1, memory: 1Gi}}]\n  drift: [{drift}]\n")
    (found,) = load_cluster(path).drift
    assert found.levels[0] == pytest.approx(0.2, abs=0.03)
    assert found.levels[-1] == pytest.approx(0.5, abs=0.03)


NODE = r"c\.yaml: spec\.nodes\[0\]"


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        (
            "cores: 1, memory: 1Gi, memroy: 2",
            InvalidFile,
            r"unknown field `memroy` - at `\$\.spec\.nodes\[0\]`",
        ),
        ("cores: 1", InvalidFile, r"missing required field `memory`"),
        (
            "cores: 0, memory: 1Gi",
            InvalidFile,
            NODE + r": has 0 cores and 1Gi of memory; a node needs some of both",
        ),
        ("cores: -1, memory: 1Gi", InvalidQuantity, NODE + r"\.cores: .*negative"),
        ("cores: 1, memory: 1GB", InvalidQuantity, NODE + r"\.memory: .*unknown suffix 'GB'"),
        ("cores: 1, memory: 8Ei", InvalidQuantity, NODE + r"\.memory: "),
        ("cores: 1, memory: 1Gi, count: 0", InvalidFile, NODE + r"\.count: is 0"),
        ("cores: 1, memory: 1Gi, count: 200000", InvalidFile, r"spec\.nodes has more than 100000 nodes"),
        ("cores: 1, memory: 1Gi, pods: 0", InvalidFile, NODE + r"\.pods: is 0"),
        (
            "cores: 1, memory: 1Gi, allocatable: {cpu: 2}",
            InvalidFile,
            NODE + r"\.allocatable\.cpu: 2 is more than the machine has",
        ),
        (
            "cores: 1, memory: 1Gi, allocatable: {cpu: x}",
            InvalidQuantity,
            NODE + r"\.allocatable: resource 'cpu'",
        ),
        ("cores: 1, memory: 1Gi, nic: 25Gbit", InvalidQuantity, NODE + r"\.nic: .*unknown suffix 'Gbit'"),
        ("cores: 1, memory: 1Gi, dram: .nan", InvalidQuantity, NODE + r"\.dram: "),
        ("cores: 1, memory: 1Gi, disks: [{base: 0}]", InvalidFile, NODE + r"\.disks\[0\]\.base: is 0"),
        (
            "cores: 1, memory: 1Gi, disks: [{base: 2, burst: 1, credits: 1}]",
            InvalidFile,
            NODE + r"\.disks\[0\]\.burst: is below",
        ),
        (
            "cores: 1, memory: 1Gi, disks: [{base: 1, burst: 2}]",
            InvalidFile,
            NODE + r"\.disks\[0\]\.credits: is 0 but a burst",
        ),
        (
            "cores: 1, memory: 1Gi, gpus: [{model: T4, count: 0}]",
            InvalidFile,
            NODE + r"\.gpus\[0\]\.count: is 0",
        ),
        (
            "cores: 1, memory: 1Gi, taints: [{key: k, effect: Never}]",
            InvalidFile,
            NODE + r"\.taints\[0\]: effect is 'Never'",
        ),
    ],
)
def test_an_unusable_node_is_refused(
    tmp_path: Path, fields: str, error: type[InvalidInput], message: str
) -> None:
    with pytest.raises(error, match=message):
        load_cluster(cluster_file(tmp_path, f"  nodes: [{{name: n, {fields}}}]\n"))


ONE = "  nodes: [{name: n, cores: 1, memory: 1Gi}]\n"


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        ("  nodes: []\n", InvalidObject, r"c\.yaml: cluster 'c' has no nodes"),
        (
            "  nodes: [{name: n, cores: 1, memory: 1Gi}, {name: n, cores: 1, memory: 1Gi}]\n",
            InvalidObject,
            r"spec\.nodes\[1\]: a group 'n' occurs twice",
        ),
        (
            "  nodes: [{name: n, count: 2, cores: 1, memory: 1Gi}, {name: n-1, cores: 1, memory: 1Gi}]\n",
            InvalidObject,
            r"node 'n-1' occurs twice",
        ),
        (
            ONE + "  fabric: {sameRack: {latency: -1}}\n",
            InvalidQuantity,
            r"spec\.fabric\.sameRack\.latency: -1",
        ),
        (
            ONE + "  fabric: {sameRack: {bandwidth: 1Zi}}\n",
            InvalidQuantity,
            r"spec\.fabric\.sameRack\.bandwidth: ",
        ),
        (
            ONE + "  background: [{name: b, nodes: [m], work: {runtime: 1}}]\n",
            InvalidFile,
            r"spec\.background\[0\]\.nodes: 'm' is neither a group nor a node; known groups: n",
        ),
        (
            ONE + "  background: [{name: b, nodes: [], work: {runtime: 1}}]\n",
            InvalidFile,
            r"background\[0\]\.nodes: is empty",
        ),
        (
            ONE + "  background: [{name: b, nodes: [n], every: 0, work: {runtime: 1}}]\n",
            InvalidFile,
            r"every: is 0",
        ),
        (
            ONE + "  drift: [{nodes: [n], resource: gpu, factor: 1, meanNormal: 1, meanDegraded: 1}]\n",
            InvalidFile,
            r"spec\.drift\[0\]\.resource: is 'gpu'; it must be one of cpu, dram, disk",
        ),
        (
            ONE + "  drift: [{nodes: [n], resource: disk, meanNormal: 1, meanDegraded: 1}]\n",
            InvalidFile,
            r"spec\.drift\[0\]: must give either factor or law",
        ),
        (
            ONE + "  drift: [{nodes: [n], resource: disk, factor: 0, meanNormal: 1, meanDegraded: 1}]\n",
            InvalidFile,
            r"spec\.drift\[0\]: drift: factor 0",
        ),
        (
            ONE + "  drift: [{nodes: [n], resource: disk, factor: 1, meanNormal: 0, meanDegraded: 1}]\n",
            InvalidFile,
            r"spec\.drift\[0\]: drift: mean_normal_s is 0",
        ),
    ],
)
def test_an_unusable_cluster_is_refused(
    tmp_path: Path, spec: str, error: type[InvalidInput], message: str
) -> None:
    with pytest.raises(error, match=message):
        load_cluster(cluster_file(tmp_path, spec))


def test_kubernetes_objects_without_nodes_are_no_cluster(tmp_path: Path) -> None:
    path = tmp_path / "pods.yaml"
    path.write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n")
    with pytest.raises(InvalidFile, match="holds Kubernetes objects but no Node"):
        load_cluster(path)
    with pytest.raises(InvalidFile, match="not a workload; Nodes in it make a cluster"):
        load_workload(path)
