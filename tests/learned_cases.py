"""A release to test with: a network with random numbers, so that everything in it has an effect."""

from functools import cache

import pytest

from stowplan.core.encoder import SCHEMA, nominal_statistics
from stowplan.core.policy import Policy, make_policy
from stowplan.core.policy.learned import Release
from stowplan.core.policy.learned.sizes import NetworkShape

NO_TORCH = "PyTorch is not installed (make test installs requirements/learn.lock)"

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
