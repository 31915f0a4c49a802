"""The learned policy: a network of a release, served by ONNX Runtime.

* `sizes`, `release`: what a network and a release are; `graphs`: its two graphs, run.
* `decision`: what the two sides mean together; `keeping`: rows of nodes, kept.
* `familiarity`: whether a cycle is like training; `explaining`: parts of a score.
* `policy`: the plan.

Files are read by `stowplan.registry`; `stowplan.learn` trains and exports.
"""

from stowplan.core.policy.learned.policy import LearnedPlan, LearnedPolicy, WithoutModel
from stowplan.core.policy.learned.release import (
    MANIFEST,
    NODE_GRAPH,
    TASK_GRAPH,
    Manifest,
    Release,
    manifest_from_bytes,
    manifest_to_bytes,
)
from stowplan.core.policy.learned.sizes import NetworkSizes

__all__ = [
    "MANIFEST",
    "NODE_GRAPH",
    "TASK_GRAPH",
    "LearnedPlan",
    "LearnedPolicy",
    "Manifest",
    "NetworkSizes",
    "Release",
    "WithoutModel",
    "manifest_from_bytes",
    "manifest_to_bytes",
]
