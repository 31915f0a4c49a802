"""From a path to a cluster: the function that the command line calls."""

from __future__ import annotations

from pathlib import Path

from stowplan.core.domain import CPU, MACHINE_TYPE_LABEL, MEMORY, PODS, Hardware, Node, Resources
from stowplan.errors import InvalidFile
from stowplan.simulate.clusters.model import Cluster
from stowplan.simulate.files import file_stem, read_text
from stowplan.simulate.formats import Use, recognise
from stowplan.simulate.workloads import openb, tpch_batch

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
    text, name = read_text(path), str(path)
    found = recognise(text, name)
    if Use.CLUSTER not in found.use:
        raise InvalidFile(f"{name}: is {found.holds}, not a cluster; {found.advice}")
    if found.name == "openb-nodes":
        notes = (
            "110 pods a node and one PCIe root complex per four GPUs by assumption: the trace holds neither",
        )
        return Cluster(file_stem(name), openb.parse_nodes(text, name), source=name, notes=notes)
    return _batch_cluster(tpch_batch.capacity_cores(text, name), name)


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
