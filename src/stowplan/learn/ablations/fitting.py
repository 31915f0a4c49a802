"""Fitting and asking a model of blocking risk: the same steps of the same optimiser for each."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from stowplan.core.policy.learned.sizes import NetworkSizes
from stowplan.learn.ablations.models import make_risk
from stowplan.learn.ablations.observations import Observations

__all__ = ["fit", "foretell"]

_LEARNING_RATE = 1e-3  # as in stage 1 of the training, falling to 0 in a line
_GRADIENT_NORM = 1.0
_ASKED_CYCLES = 32


def fit(
    name: str, sizes: NetworkSizes, data: Observations, *, seed: int, steps: int, batch_cycles: int
) -> nn.Module:
    """Return a fitted variant; first weights and order of batches follow from the seed.

    Batches depend on the seed alone, so that all variants see the same ones.
    """
    torch.manual_seed(seed)
    model = make_risk(name, sizes)
    optimiser = torch.optim.Adam(model.parameters(), lr=_LEARNING_RATE, eps=1e-5)
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.0, total_iters=steps)
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        batch = data.batch(rng.integers(len(data.groups), size=batch_cycles).tolist())
        is_known = batch.is_group & ~batch.blocked.isnan()
        loss = functional.binary_cross_entropy_with_logits(model(batch)[is_known], batch.blocked[is_known])
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), _GRADIENT_NORM)
        optimiser.step()
        schedule.step()
    return model.eval()


@torch.no_grad()
def foretell(model: nn.Module, data: Observations) -> NDArray[np.float32]:
    """Return the logit of being blocked of every group of `data`, (S,)."""
    found: list[NDArray[np.float32]] = []
    for begin in range(0, len(data.groups), _ASKED_CYCLES):
        batch = data.batch(range(begin, min(begin + _ASKED_CYCLES, len(data.groups))))
        found.append(model(batch)[batch.is_group].numpy())
    return np.concatenate(found)
