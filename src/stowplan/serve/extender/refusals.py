"""Which nodes the operator's rule table refuses to a pod, and why.

Everything else that forbids a node kube-scheduler has judged before it asks, and better, for it knows what it
has just decided. The rules speak of what nodes are and never of which pods are there: no preemption makes a
refused node take the pod, and a refusal holds as long as the node is what it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from stowplan.core.constraints import RuleTable
from stowplan.core.constraints.rule_filter import RuleFilter
from stowplan.core.domain import ClusterState, PodShape
from stowplan.serve.extender.nodes import known_nodes

__all__ = ["refused_nodes"]

_NOBODY: Mapping[str, str] = {}


def refused_nodes(
    rules: RuleTable, state: ClusterState, shape: PodShape, node_names: Sequence[str]
) -> Mapping[str, str]:
    """Return the reason by name for those of `node_names` that the rules refuse to pods of `shape`.

    Nodes that the state does not know are not refused.
    """
    about_it = rules.rules_for(shape) if rules.rules else ()
    if not about_it:
        return _NOBODY
    names, rows = known_nodes(state, node_names)
    refusing = np.array([rule.refused(state, rows) for rule in about_it], dtype=np.bool_)
    # A reason is worked out once per set of rules that refuse, not per node.
    asked = RuleFilter(state, shape, about_it)
    reason_of: dict[bytes, str] = {}
    refused: dict[str, str] = {}
    for at in np.flatnonzero(refusing.any(axis=0)).tolist():
        which = refusing[:, at].tobytes()
        if which not in reason_of:
            reason_of[which] = asked.reason(int(rows[at]))
        refused[names[at]] = reason_of[which]
    return refused
