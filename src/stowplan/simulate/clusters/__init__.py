"""Clusters of the simulator: nodes, the fabric between them, and what disturbs them.

`load_cluster(path)` reads Stowplan's own YAML, an openb node list, Kubernetes Nodes and more; formats:
docs/FORMATS.md.
"""

from stowplan.simulate.clusters.load import load_cluster
from stowplan.simulate.clusters.model import BackgroundTenant, CapacityChange, Cluster, Drift, Fabric, Link

__all__ = ["BackgroundTenant", "CapacityChange", "Cluster", "Drift", "Fabric", "Link", "load_cluster"]
