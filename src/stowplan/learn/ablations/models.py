"""Networks that foretell which tasks will be blocked: the policy's own, and what it is compared with.

All but the logistic regression are the policy network with something taken away or exchanged, so that inputs,
node side, context, head and initial values are the same and the numbers of parameters are equal to within a
per cent. What is exchanged is the trunk that groups go through; what is taken away is zeroed where it enters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor, nn

from stowplan.core.encoder import FeatureGroup
from stowplan.core.encoder.task_columns import TASK
from stowplan.core.policy.learned.sizes import POSITION_COLUMNS, NetworkSizes
from stowplan.learn.ablations.observations import RiskBatch
from stowplan.learn.network import PolicyNetwork

__all__ = ["OURS", "PEER", "VARIANTS", "LogisticRisk", "LstmLayer", "RiskNetwork", "Variant", "make_risk"]


@dataclass(frozen=True, slots=True)
class Variant:
    """What is compared.

    Attributes:
        trunk: transformer, lstm or logistic.
        has_position: whether it gets the position encoding.
        has_topology: whether it gets the task features that come from the workflow's graph.
    """

    trunk: str
    has_position: bool = False
    has_topology: bool = True


OURS: Final = "transformer"
PEER: Final = "lstm"
VARIANTS: Final = {
    OURS: Variant("transformer", has_position=True),
    "no-position": Variant("transformer"),
    PEER: Variant("lstm"),
    "logistic": Variant("logistic", has_position=True),
    "position-alone": Variant("transformer", has_position=True, has_topology=False),
    "no-topology": Variant("transformer", has_topology=False),
    "lstm-no-topology": Variant("lstm", has_topology=False),
}
"""By name. The last three see nothing of the graph among the task features: there the position encoding is
not a second way to say what features say too."""


class LstmLayer(nn.Module):
    """An LSTM over the groups in order, added to what it reads as a transformer's layer is.

    Source: S. Hochreiter, J. Schmidhuber, "Long Short-Term Memory", Neural Computation 9(8), 1997.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.lstm = nn.LSTM(width, width, batch_first=True)

    def forward(self, tokens: Tensor, is_group: Tensor | None) -> Tensor:
        """Return (B, G, width) for `tokens` (B, G, width); what fills up comes last and reaches nobody."""
        del is_group
        read: Tensor = self.lstm(self.norm(tokens))[0]
        return tokens + read


class RiskNetwork(nn.Module):
    """The policy network, of which only the logit of being blocked is used."""

    def __init__(self, variant: Variant, sizes: NetworkSizes) -> None:
        super().__init__()
        self.variant = variant
        self.network = PolicyNetwork(sizes)
        if variant.trunk == "lstm":
            self.network.layers = nn.ModuleList(LstmLayer(sizes.width) for _ in range(sizes.layers))
        self.register_buffer("kept", _kept_columns(sizes, variant), persistent=False)
        self.kept: Tensor

    def forward(self, batch: RiskBatch) -> Tensor:
        """Return logits, (B, G)."""
        network = self.network
        position = batch.position if self.variant.has_position else torch.zeros_like(batch.position)
        pooled = network.pool(network.node_side(batch.node_features), batch.is_node)
        said = network.task_side(
            batch.task_features * self.kept, position, batch.cluster_features, pooled, batch.is_group
        )
        return said.groups[..., network.sizes.group_columns["blocking"]].squeeze(-1)


class LogisticRisk(nn.Module):
    """One weight for each number: features, position, cluster, mean and largest of the nodes' features."""

    def __init__(self, sizes: NetworkSizes) -> None:
        super().__init__()
        seen = sizes.task_features + POSITION_COLUMNS + sizes.cluster_features + 2 * sizes.node_features
        self.weights = nn.Linear(seen, 1)
        nn.init.zeros_(self.weights.weight)
        nn.init.zeros_(self.weights.bias)

    def forward(self, batch: RiskBatch) -> Tensor:
        """Return logits, (B, G)."""
        nodes, is_node = batch.node_features, batch.is_node[..., None]
        mean = (nodes * is_node).sum(1) / is_node.sum(1).clamp(min=1)
        largest = nodes.masked_fill(~is_node, -torch.inf).amax(1).nan_to_num(neginf=0.0)
        context = torch.cat((batch.cluster_features, mean, largest), -1)
        groups = batch.task_features.shape[1]
        return self.weights(
            torch.cat(
                (
                    batch.task_features,
                    batch.position.log1p(),
                    context[:, None, :].expand(-1, groups, -1),
                ),
                -1,
            )
        ).squeeze(-1)


def make_risk(name: str, sizes: NetworkSizes) -> nn.Module:
    """Make a variant by its name in `VARIANTS`; PyTorch's seed decides its first weights."""
    variant = VARIANTS[name]
    return LogisticRisk(sizes) if variant.trunk == "logistic" else RiskNetwork(variant, sizes)


def _kept_columns(sizes: NetworkSizes, variant: Variant) -> Tensor:
    """Return 1 for the task features that a variant gets and 0 for the others."""
    topology = {c.name for c in TASK.columns if FeatureGroup.TOPOLOGY in c.groups}
    names = [name.removesuffix(".known") for name in TASK.encoded_names]
    kept = [variant.has_topology or name not in topology for name in names]
    return torch.tensor(kept, dtype=torch.float32)[: sizes.task_features]
