"""A release to test with: a network with random numbers, so that everything has an effect; and where."""

from collections.abc import Sequence
from functools import cache

import pytest

from stowplan.core.constraints import CompiledFilters
from stowplan.core.domain import ClusterState, Node, NodeSet, PendingTask, PodShape, Resources
from stowplan.core.encoder import SCHEMA, nominal_statistics
from stowplan.core.policy import Plan, Policy, make_policy
from stowplan.core.policy.learned import Release
from stowplan.core.policy.learned.sizes import NetworkShape

NO_TORCH = "PyTorch is not installed (make test installs requirements/learn.lock)"

GIB = 1 << 30
ROOM = PodShape(
    requests=Resources({"cpu": 1000, "memory": GIB}), score_cpu_milli=1000, score_memory_bytes=GIB
)
SHAPE = NetworkShape(width=32, heads=2, layers=1, feed_forward=48, node_hidden=48)


@cache
def random_release(*, name: str = "random", is_trained: bool = True) -> Release:
    """Return a small release; not `is_trained`: as the network begins, as the rule it starts from."""
    torch = pytest.importorskip("torch", reason=NO_TORCH)
    from stowplan.learn.export import export_release, sizes_of_schema  # noqa: PLC0415  (needs torch)
    from stowplan.learn.network import PolicyNetwork  # noqa: PLC0415

    torch.manual_seed(1)
    network = PolicyNetwork(sizes_of_schema(SHAPE))
    if is_trained:
        with torch.no_grad():
            torch.nn.init.normal_(network.group_head.weight, std=0.1)
            torch.nn.init.normal_(network.value_head.weight, std=0.1)
    return export_release(network, name=name, statistics=nominal_statistics(SCHEMA), training="0" * 64)


def make_any(name: str) -> Policy:
    """Make the policy `name` with what it needs; the learned one with a random network."""
    return make_policy(name, model=random_release()) if name == "learned" else make_policy(name)


def cluster(*nodes: Node) -> ClusterState:
    state = ClusterState()
    for one in nodes:
        state.apply(NodeSet(one))
    return state


def scored(plan: Plan, state: ClusterState, pending: Sequence[PendingTask], index: int) -> list[float]:
    """Return the scores of the nodes, which are in the first rows."""
    scores = plan.scores(index, CompiledFilters(state, pending[index].task.shape))
    return scores[: state.node_count].tolist()
