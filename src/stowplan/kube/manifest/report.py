"""Which nodes can take each pending pod, and which filter refuses the others: `stowplan feasible`."""

from __future__ import annotations

from collections.abc import Iterable

from stowplan.core.constraints import FILTERS, NO_RULES, CompiledFilters, RuleTable
from stowplan.core.domain import ClusterState, PodShape
from stowplan.kube.manifest.load import PendingPod

__all__ = ["feasible_report"]


def feasible_report(
    state: ClusterState, pending: Iterable[PendingPod], *, rules: RuleTable = NO_RULES
) -> dict[str, dict[str, dict[str, object]]]:
    """Judge each pod alone, with nothing bound between.

    Returns: `{"pods": {"ns/name": {"feasible": [node, …], "refused": {node: {"filter": name, "reason":
        words}}}}}`, nodes by name.
    """
    known: dict[PodShape, dict[str, object]] = {}
    pods: dict[str, dict[str, object]] = {}
    for pod in pending:
        if pod.shape not in known:
            known[pod.shape] = _judge(state, pod.shape, rules)
        pods[pod.key] = known[pod.shape]
    return {"pods": pods}


def _judge(state: ClusterState, shape: PodShape, rules: RuleTable) -> dict[str, object]:
    compiled = CompiledFilters(state, shape, rules=rules)
    refused_by = compiled.refused_by
    feasible: list[str] = []
    refused: dict[str, dict[str, str]] = {}
    for name, row in sorted(state.rows()):
        number = int(refused_by[row])
        if number == 0:
            feasible.append(name)
        else:
            refused[name] = {"filter": FILTERS[number - 1], "reason": compiled.reason(row) or ""}
    return {"feasible": feasible, "refused": refused}
