"""The policy network in PyTorch: a node side and a task side that meet in dot products.

    node side   features of a node → two layers → key, slowdown key, summary
    task side   features and place in its workflow of a group, cluster, pooled summaries of the nodes
                → transformer over the groups → queries, and single numbers per group; a value per cycle

Nothing on the node side looks at another node, so serving keeps a node's row until its features change; cost
grows with groups² and groups × nodes, never nodes². What the two sides mean together is in `decision` (here,
for training) and in `core.policy.learned.decision` (NumPy, for serving); a test holds the two together.

All that is added to the rule which the network starts from begins at exactly 0: untrained, it orders by the
remaining work of the workflow, places where physics and readings say that the task ends first
(`Encoded.log_prior`), foresees no other slowdown, and does not wait.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor, nn

from stowplan.core.policy.learned.sizes import POSITION_COLUMNS, NetworkSizes
from stowplan.learn.network_blocks import Sinusoids, TransformerLayer

__all__ = ["FIRST_ALPHA", "FIRST_SPREAD", "FIRST_WAIT", "PolicyNetwork", "TaskSide"]

FIRST_ALPHA: Final = 8.0
"""Weight of the log of the duration in a node's score before training; a proposal."""
FIRST_WAIT: Final = -4.0
"""Logit of waiting, relative to the best node, before training; a proposal."""
FIRST_SPREAD: Final = 0.3
"""Standard deviation of the log of a duration before training; a proposal."""


@dataclass(frozen=True, slots=True)
class TaskSide:
    """What the task side says of B cycles.

    Attributes:
        groups: (B, G, group_width), columns as in `NetworkSizes.group_columns`.
        value: (B,) the value of each cycle.
    """

    groups: Tensor
    value: Tensor


class PolicyNetwork(nn.Module):
    """Both sides of the network; see the module."""

    def __init__(self, sizes: NetworkSizes) -> None:
        super().__init__()
        self.sizes = sizes
        width = sizes.width
        self.node_trunk = nn.Sequential(
            nn.Linear(sizes.node_features, sizes.node_hidden),
            nn.GELU(),
            nn.Linear(sizes.node_hidden, width),
            nn.GELU(),
            nn.LayerNorm(width),
        )
        self.node_head = nn.Linear(width, sizes.node_width)
        self.sinusoids = Sinusoids(sizes.frequencies)
        # Order, depth and parents as waves and logarithms, because they may be thousands; the rank as it is.
        places = 2 * sizes.frequencies * (POSITION_COLUMNS - 1) + POSITION_COLUMNS
        self.task_embedding = nn.Linear(sizes.task_features, width)
        self.place_embedding = nn.Linear(places, width)
        self.context = nn.Sequential(
            nn.Linear(sizes.cluster_features + sizes.pooled_width, width), nn.GELU(), nn.Linear(width, width)
        )
        self.layers = nn.ModuleList(
            TransformerLayer(width, sizes.heads, sizes.feed_forward) for _ in range(sizes.layers)
        )
        self.group_norm = nn.LayerNorm(width)
        self.group_head = nn.Linear(width, sizes.group_width)
        self.value_trunk = nn.Sequential(nn.Linear(3 * width, width), nn.GELU())
        self.value_head = nn.Linear(width, 1)
        self._begin_as_the_rule()

    def _begin_as_the_rule(self) -> None:
        for head in (self.group_head, self.value_head):
            nn.init.zeros_(head.weight)
            nn.init.zeros_(head.bias)
        columns = self.sizes.group_columns
        with torch.no_grad():
            self.group_head.bias[columns["log_alpha"]] = math.log(FIRST_ALPHA)
            self.group_head.bias[columns["wait"]] = FIRST_WAIT
            self.group_head.bias[columns["spread"]] = math.log(FIRST_SPREAD)

    def node_side(self, node_features: Tensor) -> Tensor:
        """Return (…, node_width) for `node_features` (…, FN); columns as in `NetworkSizes.node_columns`."""
        return self.node_head(self.node_trunk(node_features))

    def pool(self, nodes: Tensor, is_node: Tensor | None = None) -> Tensor:
        """Return the summary of all nodes, (B, pooled_width); zeros for a cycle without nodes.

        Args:
            nodes: (B, N, node_width) from `node_side`.
            is_node: (B, N) bool, False where a row only fills up the batch; None: all are nodes.
        """
        summary = nodes[..., self.sizes.node_columns["summary"]]
        if is_node is None:
            is_node = torch.ones(summary.shape[:2], dtype=torch.bool, device=summary.device)
        return _pooled(summary, is_node)

    def task_side(
        self,
        task_features: Tensor,
        position: Tensor,
        cluster_features: Tensor,
        pooled_nodes: Tensor,
        is_group: Tensor | None = None,
    ) -> TaskSide:
        """Return what is to be said of every group.

        Args:
            task_features: (B, G, FT).
            position: (B, G, 4) order, depth, number of parents (counts, 0 or more), upward rank (a share).
            cluster_features: (B, FC).
            pooled_nodes: (B, pooled_width) from `pool`.
            is_group: (B, G) bool, False where a row only fills up the batch; None: all are groups.
        """
        context = self.context(torch.cat((cluster_features, pooled_nodes), dim=-1))
        counts, rank = position[..., :-1], position[..., -1:]
        places = torch.cat((self.sinusoids(counts), counts.log1p(), rank), dim=-1)
        tokens = self.task_embedding(task_features) + self.place_embedding(places) + context[:, None, :]
        for layer in self.layers:
            tokens = layer(tokens, is_group)
        tokens = self.group_norm(tokens)
        if is_group is None:
            seen = torch.cat((tokens.mean(dim=1), tokens.amax(dim=1)), dim=-1)
        else:
            seen = _pooled(tokens, is_group)
        value = self.value_head(self.value_trunk(torch.cat((seen, context), dim=-1))).squeeze(-1)
        return TaskSide(self.group_head(tokens), value)


def _pooled(rows: Tensor, is_row: Tensor) -> Tensor:
    """Return mean and largest of the rows that count, (B, 2 × width); zeros where there is none."""
    weight = is_row[..., None].to(rows.dtype)
    count = weight.sum(dim=1)
    mean = (rows * weight).sum(dim=1) / count.clamp(min=1.0)
    if not rows.shape[1]:
        return torch.cat((mean, mean), dim=-1)
    largest = rows.masked_fill(~is_row[..., None], -math.inf).amax(dim=1)
    return torch.cat((mean, torch.where(count > 0.0, largest, 0.0)), dim=-1)
