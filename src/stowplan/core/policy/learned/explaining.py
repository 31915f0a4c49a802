"""Why a node has its score: what each number that is known of it adds, beside an average node.

A column's part is what the score loses when that column alone is set to the average of training (occlusion).
Parts of columns do not add up by themselves, because the network multiplies them; what is missing is shown as
one more part, so that all parts together are the score.

Source: M. D. Zeiler, R. Fergus, "Visualizing and Understanding Convolutional Networks", ECCV 2014, section 4
(occlusion).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stowplan.core.encoder import Table
from stowplan.core.policy.learned.decision import Groups
from stowplan.core.policy.learned.graphs import Graphs

__all__ = ["parts_of_score"]

_NAMED: Final = 6


def parts_of_score(
    graphs: Graphs,
    table: Table,
    groups: Groups,
    group: int,
    features: NDArray[np.float32],
    known: Mapping[str, float],
) -> Mapping[str, float]:
    """Return the parts of the score of a node for a group; their sum is the score.

    Args:
        graphs: the network.
        table: columns of nodes.
        groups: of the cycle.
        group: which of them.
        features: (FN,) of the node.
        known: parts of the log prior of the group on the node, by name.
    """
    columns = len(table.columns)
    (present,) = np.nonzero(features[:columns])
    variants = np.repeat(features[None, :], present.size + 2, axis=0)
    variants[np.arange(present.size), present] = 0.0
    variants[-2, :columns] = 0.0
    scores = groups.scores_without_prior(group, graphs.node_rows(variants))
    average, whole = float(scores[-2]), float(scores[-1])
    effects = whole - scores[:-2].astype(np.float64)
    strongest = np.argsort(-np.abs(effects), kind="stable")[:_NAMED]
    parts = {name: -float(groups.alpha[group]) * number for name, number in known.items()}
    score = whole + sum(parts.values())
    parts["an average node"] = average
    for at in strongest.tolist():
        if effects[at]:
            parts[table.columns[present[at]].name] = float(effects[at])
    parts["all else together"] = score - sum(parts.values())
    return parts
