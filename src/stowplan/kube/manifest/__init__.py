"""Plain Kubernetes objects into the domain: what a file or an API server says, without any I/O."""

from stowplan.kube.manifest.load import LoadedObjects, PendingPod, load_objects
from stowplan.kube.manifest.report import feasible_report

__all__ = ["LoadedObjects", "PendingPod", "feasible_report", "load_objects"]
