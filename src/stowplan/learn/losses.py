"""What the network is to be good at, as losses over a batch: outcomes, a teacher's decisions, values.

Outcomes: the log of a slowdown is taken as normal around what is predicted, with the predicted spread (the
negative log likelihood, so that the spread is learned too; beyond three deviations it grows as the distance,
because a task that stood still must not outweigh all others); a task is blocked or not (cross-entropy). A
teacher's order is taken as drawn step by step (Plackett–Luce), its choice of a node as drawn from a softmax.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from stowplan.learn.batches import Batch, Said
from stowplan.learn.means import Means
from stowplan.learn.settings import Learning

__all__ = [
    "OutcomeLoss",
    "blocking_loss",
    "choice_log_prob",
    "imitation_losses",
    "mean_over",
    "outcome_loss",
    "outcome_terms",
]


_LARGEST_SURPRISE = 3.0


@dataclass(frozen=True, slots=True)
class OutcomeLoss:
    """Loss of predicted slowdowns over the decisions whose outcome is known.

    Attributes:
        loss: mean negative log likelihood, without its constant.
        squares: sum of squared errors of the log slowdown.
        known: how many outcomes there are.
        total: sum of squared log slowdowns: the errors of predicting none.
    """

    loss: Tensor
    squares: float
    known: int
    total: float


def outcome_loss(batch: Batch, said: Said) -> OutcomeLoss:
    """Return how well slowdowns were foreseen; 0 where no outcome is known."""
    is_known = ~batch.log_slowdown.isnan()
    real = batch.log_slowdown[is_known]
    error = real - said.log_slowdown[is_known]
    log_spread = said.log_spread[is_known]
    if not real.numel():
        return OutcomeLoss(said.log_slowdown.sum() * 0.0, 0.0, 0, 0.0)
    surprise = error * (-log_spread).exp()  # in standard deviations
    loss = (
        functional.huber_loss(surprise, torch.zeros_like(surprise), delta=_LARGEST_SURPRISE)
        + log_spread.mean()
    )
    squares = float(error.detach().square().sum())
    return OutcomeLoss(loss, squares, int(real.numel()), float(real.square().sum()))


def blocking_loss(batch: Batch, said: Said) -> Tensor:
    """Return the cross-entropy of whether tasks are blocked; 0 where nothing is known."""
    is_known = ~batch.blocked.isnan()
    if not bool(is_known.any()):
        return said.blocking.sum() * 0.0
    return functional.binary_cross_entropy_with_logits(said.blocking[is_known], batch.blocked[is_known])


def choice_log_prob(batch: Batch, said: Said) -> Tensor:
    """Return the log probability of what was chosen, (D,)."""
    return said.choice_log_probs.gather(1, batch.choice[:, None])[:, 0]


def imitation_losses(batch: Batch, said: Said) -> tuple[Tensor, Tensor]:
    """Return the negative log likelihood of a teacher's order (per step) and of its nodes (per decision).

    A choice that has no probability at all (a teacher waits though nothing runs) teaches nothing and is left
    out.
    """
    chosen = choice_log_prob(batch, said)
    return -mean_over(said.step_log_prob, batch.is_step), -mean_over(chosen, ~chosen.isinf())


def mean_over(values: Tensor, which: Tensor) -> Tensor:
    """Return the mean of the values that count; 0 when there are none. Others may be infinite."""
    counted = torch.where(which, values, 0.0)
    return counted.sum() / which.sum().clamp(min=1)


def outcome_terms(batch: Batch, said: Said, stage: Learning, means: Means) -> Tensor:
    """Return the losses of outcomes as a stage weighs them; notes them in `means`."""
    outcome = outcome_loss(batch, said)
    blocking = blocking_loss(batch, said)
    means.add_weighted("slowdown_error", outcome.squares, outcome.known)
    means.add_weighted("slowdown_square", outcome.total, outcome.known)
    means.add(outcome_loss=outcome.loss, blocking_loss=blocking)
    return stage.outcome_weight * outcome.loss + stage.blocking_weight * blocking
