"""The parts of which the network is built: attention, a transformer layer, sines of whole numbers.

Attention is written out as scaled dot products, so that it exports to plain matrix products and a softmax
that ONNX Runtime fuses, and so that a key mask is exact: a group that only fills up a batch has no weight.

Source: A. Vaswani et al., "Attention Is All You Need", NeurIPS 2017 (attention, sinusoids); R. Xiong et al.,
"On Layer Normalization in the Transformer Architecture", ICML 2020 (norms before, not after).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

__all__ = ["Attention", "Sinusoids", "TransformerLayer"]

_LONGEST_WAVE = 4096.0  # depths and numbers of parents beyond it repeat; a proposal


class Attention(nn.Module):
    """Self-attention over the groups of one cycle."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.projections = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)

    def forward(self, tokens: Tensor, is_group: Tensor | None) -> Tensor:
        """Return (B, G, width) for `tokens` (B, G, width).

        Args:
            tokens: one vector per group.
            is_group: (B, G) bool, False where a row only fills up the batch; None: all are groups.
        """
        batch, groups, width = tokens.shape
        split = self.projections(tokens).reshape(batch, groups, 3, self.heads, width // self.heads)
        queries, keys, values = split.permute(2, 0, 3, 1, 4).unbind(0)  # (B, heads, G, width/heads) each
        scores = queries @ keys.transpose(-1, -2) / math.sqrt(width // self.heads)
        if is_group is not None:
            scores = scores.masked_fill(~is_group[:, None, None, :], torch.finfo(scores.dtype).min)
        mixed = scores.softmax(dim=-1) @ values
        return self.output(mixed.transpose(1, 2).reshape(batch, groups, width))


class TransformerLayer(nn.Module):
    """Attention and a feed-forward network, each added to what it reads."""

    def __init__(self, width: int, heads: int, feed_forward: int) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.feed_forward = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, feed_forward), nn.GELU(), nn.Linear(feed_forward, width)
        )

    def forward(self, tokens: Tensor, is_group: Tensor | None) -> Tensor:
        """Return (B, G, width); the arguments are those of `Attention`."""
        tokens = tokens + self.attention(self.attention_norm(tokens), is_group)
        return tokens + self.feed_forward(tokens)


class Sinusoids(nn.Module):
    """Sines and cosines of numbers at wave lengths from 2π up in a geometric row."""

    def __init__(self, frequencies: int) -> None:
        super().__init__()
        steps = torch.arange(frequencies, dtype=torch.float32) / max(frequencies - 1, 1)
        self.register_buffer("rates", (2.0 * math.pi / _LONGEST_WAVE) ** steps, persistent=False)
        self.rates: Tensor

    def forward(self, numbers: Tensor) -> Tensor:
        """Return (…, columns × 2 × frequencies) for `numbers` (…, columns)."""
        angles = (numbers[..., None] * self.rates).flatten(-2)
        return torch.cat((angles.sin(), angles.cos()), dim=-1)
