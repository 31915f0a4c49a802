"""Every hard rule that decides where a pod may run: kube-scheduler's filters, and the operator's own.

The filters are those that kube-scheduler 1.37 runs by default, with the feature gates at their defaults, and
refuse node for node what its plugins refuse. Where they can differ:

* Pods with resource claims (DRA) are refused everywhere and left to kube-scheduler; an extended resource that
  only a DeviceClass provides counts as absent.
* Pods that are nominated to a node after a preemption do not occupy it yet.
* Among volumes of equal size, and volumes reserved for one claim, kube-scheduler's order is that of a hash
  table; ours is by name.
* What makes kube-scheduler give up a cycle with an error refuses the node, or the pod, that it is about.
"""

from stowplan.core.constraints.compiled import CompiledFilters
from stowplan.core.constraints.filter import FILTERS
from stowplan.core.constraints.requests import Container, PodRequests, effective_requests
from stowplan.core.constraints.rules import NO_RULES, Rule, RuleTable
from stowplan.core.constraints.trial import MovingPods, NodesOnTrial, Verdict

__all__ = [
    "FILTERS",
    "NO_RULES",
    "CompiledFilters",
    "Container",
    "MovingPods",
    "NodesOnTrial",
    "PodRequests",
    "Rule",
    "RuleTable",
    "Verdict",
    "effective_requests",
]
