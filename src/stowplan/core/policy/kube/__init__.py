"""kube-scheduler's own scoring (Kubernetes 1.37, default plugins and weights): the usual baseline."""

from stowplan.core.policy.kube.scoring import KubeScoring

__all__ = ["KubeScoring"]
