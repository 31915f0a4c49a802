"""From a path to a cluster: the function that the command line calls."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from stowplan.core.domain import CPU, MACHINE_TYPE_LABEL, MEMORY, PODS, Hardware, Node, Resources
from stowplan.errors import InvalidFile, InvalidInput
from stowplan.kube.manifest import load_objects
from stowplan.simulate.clusters import manifest
from stowplan.simulate.clusters.model import Cluster
from stowplan.simulate.files import data_files, file_stem, parse_yaml, read_text
from stowplan.simulate.formats import Use, recognise
from stowplan.simulate.laws import load_law
from stowplan.simulate.workloads import openb, tpch_batch
from stowplan.simulate.workloads.nextflow import observed_nodes
from stowplan.simulate.workloads.nextflow_trace import parse_trace

__all__ = ["load_cluster"]

_BATCH_MEMORY_BYTES = 1 << 50
_BATCH_PODS = 1_000_000


def load_cluster(path: Path | str) -> Cluster:
    """Return the cluster that a file describes.

    Accepted: Stowplan's own YAML (kind Cluster), an openb node list, plain Kubernetes Nodes, a TPC-H batch
    (its one node), and a Nextflow trace with host names (its nodes with their measured speeds).

    Raises:
        InvalidFile: the path is missing, unreadable, truncated, of no known format, or cannot be a cluster.
        InvalidObject: a node occurs twice or there is none.
        InvalidQuantity: a number in it is unusable.
    """
    path = Path(path)
    if path.is_dir():
        return _trace_cluster(path, data_files(path))
    text, name = read_text(path), str(path)
    found = recognise(text, name)
    if Use.CLUSTER not in found.use:
        raise InvalidFile(f"{name}: is {found.holds}, not a cluster; {found.advice}")
    match found.name:
        case "stowplan-cluster":
            return manifest.parse(text, path, load_law)
        case "openb-nodes":
            notes = ("by assumption: 110 pods a node, a PCIe root complex per four GPUs",)
            return Cluster(file_stem(name), openb.parse_nodes(text, name), source=name, notes=notes)
        case "tpch-batch":
            return _batch_cluster(tpch_batch.capacity_cores(text, name), name)
        case "nextflow-trace":
            return _trace_cluster(path, (path,))
        case "kubernetes":
            return _kubernetes_cluster(text, name)
        case _:
            raise InvalidFile(f"{name}: is {found.holds}; {found.advice}")


def _kubernetes_cluster(text: str, name: str) -> Cluster:
    """Return the Nodes among Kubernetes objects; of their hardware only cores and instance type are known."""
    try:
        state = load_objects(parse_yaml(text, name)).state
    except InvalidInput as error:
        raise type(error)(f"{name}: {error}") from None
    nodes: list[Node] = []
    for _, row in state.rows():
        node = state.node(row)
        cores = node.allocatable.get(CPU, 0) / 1000
        hardware = Hardware(cores=cores, machine_type=node.label(MACHINE_TYPE_LABEL) or "")
        nodes.append(replace(node, hardware=hardware))
    if not nodes:
        raise InvalidFile(f"{name}: holds Kubernetes objects but no Node; add the Nodes of the cluster")
    notes = ["disks, networks and memory bandwidth are not known and limit nothing"]
    if state.pods:
        notes.append(f"{len(state.pods)} bound pods are left out: the simulated cluster starts empty")
    return Cluster(file_stem(name), tuple(nodes), source=name, notes=tuple(notes))


def _trace_cluster(path: Path, files: tuple[Path, ...]) -> Cluster:
    """Return the nodes that Nextflow traces name, each with the most it was seen to hold in any."""
    most: dict[str, Node] = {}
    for file in files:
        text = read_text(file)
        found = recognise(text, str(file))
        if found.name == "nextflow-dag":
            continue
        if found.name != "nextflow-trace":
            raise InvalidFile(
                f"{path}: {file.name} is {found.holds}; as a cluster only a folder of Nextflow traces is read"
            )
        rows, _ = parse_trace(text, str(file))
        for node in observed_nodes(rows, str(file)):
            known = most.get(node.name, node)
            allocatable = known.allocatable.maximum(node.allocatable)
            hardware = replace(node.hardware, cores=allocatable[CPU] / 1000)
            most[node.name] = replace(node, allocatable=allocatable, hardware=hardware)
    notes = ("each node has what it was seen to hold at once, a lower bound of what it really has",)
    return Cluster(
        file_stem(str(path)), tuple(most[name] for name in sorted(most)), source=str(path), notes=notes
    )


def _batch_cluster(cores: int, name: str) -> Cluster:
    allocatable = Resources({CPU: 1000 * cores, MEMORY: _BATCH_MEMORY_BYTES, PODS: _BATCH_PODS})
    node = Node(
        "batch",
        allocatable,
        labels=((MACHINE_TYPE_LABEL, "batch"),),
        hardware=Hardware(cores=float(cores), machine_type="batch"),
    )
    return Cluster(
        file_stem(name), (node,), source=name, notes=("one node: the batch's one shared resource",)
    )
