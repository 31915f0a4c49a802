"""What the two sides of the network mean together, in PyTorch.

`core.policy.learned.decision` says the same in NumPy, for serving.

    log slowdown(g, n) = slowdown query(g) · slowdown key(n): what physics does not foresee
    log spread(g, n)   = spread(g) + spread query(g) · slowdown key(n), within bounds
    pointer(g, n)      = −α(g) · (log prior(g, n) + trust(g) · log slowdown(g, n)) + query(g) · key(n)
    order(g)           = order prior(g) + residual(g)

The log prior is the encoder's: machine type and contention by physics (`Encoded.log_prior`). The duration of
a task of g on n is what is expected of it, × prior × slowdown; its logarithm has the spread as standard
deviation. Trust is 0 before training, and only placing teaches it: a slowdown that is foreseen badly must not
make placing worse than the prior does. Waiting is one more choice, at the best feasible pointer plus the
group's logit. What is not feasible is −inf before the softmax: impossible, not unlikely.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from stowplan.core.policy.learned.decision import ALPHA_BOUNDS, SPREAD_BOUNDS
from stowplan.core.policy.learned.sizes import NetworkSizes

__all__ = ["choice_logits", "log_slowdown", "log_spread", "orders", "pointers"]


def log_slowdown(sizes: NetworkSizes, groups: Tensor, nodes: Tensor) -> Tensor:
    """Return the log of the slowdown of every group on every node beyond the prior, (B, G, N).

    Args:
        sizes: of the network.
        groups: (B, G, group_width) from `PolicyNetwork.task_side`.
        nodes: (B, N, node_width) from `PolicyNetwork.node_side`.
    """
    queries = groups[..., sizes.group_columns["slowdown_query"]]
    return queries @ nodes[..., sizes.node_columns["slowdown_key"]].transpose(-1, -2)


def log_spread(sizes: NetworkSizes, groups: Tensor, nodes: Tensor) -> Tensor:
    """Return the log of the standard deviation of the log of the durations, (B, G, N).

    The arguments are those of `log_slowdown`.
    """
    queries = groups[..., sizes.group_columns["spread_query"]]
    keys = nodes[..., sizes.node_columns["slowdown_key"]]
    spread = groups[..., sizes.group_columns["spread"]] + queries @ keys.transpose(-1, -2)
    low, high = SPREAD_BOUNDS
    return spread.clamp(math.log(low), math.log(high))


def pointers(sizes: NetworkSizes, groups: Tensor, nodes: Tensor, log_prior: Tensor) -> Tensor:
    """Return the score of every node for every group, (B, G, N).

    Args:
        sizes: of the network.
        groups: (B, G, group_width) from `PolicyNetwork.task_side`.
        nodes: (B, N, node_width) from `PolicyNetwork.node_side`.
        log_prior: (B, G, N) from `Encoded.log_prior`.
    """
    low, high = ALPHA_BOUNDS
    alpha = groups[..., sizes.group_columns["log_alpha"]].clamp(math.log(low), math.log(high)).exp()
    liking = groups[..., sizes.group_columns["query"]] @ nodes[..., sizes.node_columns["key"]].transpose(
        -1, -2
    )
    trust = groups[..., sizes.group_columns["trust"]]
    return liking - alpha * (log_prior + trust * log_slowdown(sizes, groups, nodes))


def choice_logits(
    sizes: NetworkSizes, groups: Tensor, pointer: Tensor, is_feasible: Tensor, may_wait: Tensor
) -> Tensor:
    """Return the logits over the nodes and, last, waiting: (B, G, N + 1) float32.

    A group that has no feasible node can only wait, whether or not it may.

    Args:
        sizes: of the network.
        groups: (B, G, group_width) from `PolicyNetwork.task_side`.
        pointer: (B, G, N) from `pointers`.
        is_feasible: (B, G, N) bool.
        may_wait: (B,) bool, False where nothing runs that could end, so that a wait would be for ever.
    """
    masked = pointer.float().masked_fill(~is_feasible, -math.inf)
    has_node = is_feasible.any(dim=-1)
    best = masked.amax(dim=-1) if masked.shape[-1] else masked.new_zeros(masked.shape[:-1])
    wait = torch.where(has_node, best, 0.0) + groups[..., sizes.group_columns["wait"]].squeeze(-1).float()
    wait = wait.masked_fill(has_node & ~may_wait[:, None], -math.inf)
    return torch.cat((masked, wait[..., None]), dim=-1)


def orders(sizes: NetworkSizes, groups: Tensor, order_prior: Tensor) -> Tensor:
    """Return by what groups are ordered, the highest first: (B, G).

    Args:
        sizes: of the network.
        groups: (B, G, group_width) from `PolicyNetwork.task_side`.
        order_prior: (B, G) as the encoder gives it.
    """
    return order_prior + groups[..., sizes.group_columns["order"]].squeeze(-1)
