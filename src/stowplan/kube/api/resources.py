"""The kinds of objects that Stowplan asks for, and where the API server has them."""

from dataclasses import dataclass

__all__ = [
    "BINDINGS",
    "CLAIMS",
    "CLUSTER_WORKFLOW_TEMPLATES",
    "CRON_WORKFLOWS",
    "CSI_CAPACITIES",
    "CSI_DRIVERS",
    "CSI_NODES",
    "EVENTS",
    "LEASES",
    "NAMESPACES",
    "NODES",
    "PODS",
    "POD_DISRUPTION_BUDGETS",
    "PRIORITY_CLASSES",
    "REPLICATION_CONTROLLERS",
    "REPLICA_SETS",
    "SERVICES",
    "STATEFUL_SETS",
    "STORAGE_CLASSES",
    "VOLUMES",
    "VOLUME_ATTACHMENTS",
    "WORKFLOWS",
    "WORKFLOW_TEMPLATES",
    "Resource",
]


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind of object.

    Attributes:
        group: API group; empty for the core.
        version: Version of the group.
        plural: Its name in paths, such as `pods`.
        kind: Its name in objects, such as `Pod`.
        is_namespaced: Whether its objects live in namespaces.
    """

    group: str
    version: str
    plural: str
    kind: str
    is_namespaced: bool = True

    @property
    def api_version(self) -> str:
        """What stands in `apiVersion`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(
        self, namespace: str | None = None, name: str | None = None, subresource: str | None = None
    ) -> str:
        """The path of the collection, of one object, or of an object's subresource.

        Args:
            namespace: None means all namespaces, or none for kinds without.
            name: None means the collection.
            subresource: Such as `status` or `binding`.
        """
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if namespace is not None and self.is_namespaced:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        if name is not None:
            parts.append(name)
            if subresource is not None:
                parts.append(subresource)
        return "/" + "/".join(parts)

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


PODS = Resource("", "v1", "pods", "Pod")
NODES = Resource("", "v1", "nodes", "Node", is_namespaced=False)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", is_namespaced=False)
VOLUMES = Resource("", "v1", "persistentvolumes", "PersistentVolume", is_namespaced=False)
CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
BINDINGS = Resource("", "v1", "bindings", "Binding")
EVENTS = Resource("events.k8s.io", "v1", "events", "Event")
STORAGE_CLASSES = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", is_namespaced=False)
CSI_NODES = Resource("storage.k8s.io", "v1", "csinodes", "CSINode", is_namespaced=False)
CSI_DRIVERS = Resource("storage.k8s.io", "v1", "csidrivers", "CSIDriver", is_namespaced=False)
CSI_CAPACITIES = Resource("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity")
VOLUME_ATTACHMENTS = Resource(
    "storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", is_namespaced=False
)
PRIORITY_CLASSES = Resource(
    "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", is_namespaced=False
)
POD_DISRUPTION_BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
SERVICES = Resource("", "v1", "services", "Service")
REPLICATION_CONTROLLERS = Resource("", "v1", "replicationcontrollers", "ReplicationController")
REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet")
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet")
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
WORKFLOWS = Resource("argoproj.io", "v1alpha1", "workflows", "Workflow")
WORKFLOW_TEMPLATES = Resource("argoproj.io", "v1alpha1", "workflowtemplates", "WorkflowTemplate")
CLUSTER_WORKFLOW_TEMPLATES = Resource(
    "argoproj.io", "v1alpha1", "clusterworkflowtemplates", "ClusterWorkflowTemplate", is_namespaced=False
)
CRON_WORKFLOWS = Resource("argoproj.io", "v1alpha1", "cronworkflows", "CronWorkflow")
