"""Every hard rule that decides where a pod may run: kube-scheduler's filters, and the operator's own."""

from stowplan.core.constraints.compiled import CompiledFilters
from stowplan.core.constraints.filter import FILTERS
from stowplan.core.constraints.requests import Container, PodRequests, effective_requests
from stowplan.core.constraints.rules import NO_RULES, Rule, RuleTable

__all__ = [
    "FILTERS",
    "NO_RULES",
    "CompiledFilters",
    "Container",
    "PodRequests",
    "Rule",
    "RuleTable",
    "effective_requests",
]
