"""Room for pods of higher priority: pods of lower priority are ended for them, by kube-scheduler's rules."""

from stowplan.serve.preemption.interface import Cluster, PreemptorSettings
from stowplan.serve.preemption.preemptor import Preemptor

__all__ = ["Cluster", "Preemptor", "PreemptorSettings"]
