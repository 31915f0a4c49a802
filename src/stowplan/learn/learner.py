"""What is learned and how far that is: all of it goes into a checkpoint, and comes back bit for bit."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from stowplan.core.semantics import FrozenStatistics
from stowplan.errors import InternalError
from stowplan.learn.network import PolicyNetwork
from stowplan.learn.rollouts import Weights, weights_of
from stowplan.learn.settings import Settings

__all__ = ["Learner", "new_learner"]


@dataclass(slots=True)
class Learner:
    """The state of a training run.

    Attributes:
        settings: of the run.
        network: what learns.
        optimiser: Adam, with its moments.
        rng: order of batches.
        statistics: of features; None before they were measured.
        done: iterations done, over all stages.
        drawn: scenarios of training drawn so far: the number of the next.
        best: least validation score so far.
        baselines: validation results of the rules by name: (mean log completion, mean log tail).
    """

    settings: Settings
    network: PolicyNetwork
    optimiser: torch.optim.Adam
    rng: np.random.Generator
    statistics: FrozenStatistics | None = None
    done: int = 0
    drawn: int = 0
    best: float = float("inf")
    baselines: dict[str, list[float]] = field(default_factory=dict[str, list[float]])

    @property
    def weights(self) -> Weights:
        """A copy of the network's parameters, for rollouts."""
        return weights_of(self.network, self.done)

    @property
    def difficulty(self) -> float:
        """How hard scenarios are at this stage of the curriculum, 0 to 1."""
        return min(1.0, (self.done + 1) / max(self.settings.warm_up, 1))

    def next_numbers(self, count: int) -> range:
        """Return the numbers of the next `count` scenarios of training."""
        first = self.drawn
        self.drawn += count
        return range(first, self.drawn)

    def step(self, loss: Tensor) -> float:
        """Learn from a loss; return the length of its gradient before it was cut.

        Raises:
            InternalError: the gradient is not finite.
        """
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.network.parameters(), self.settings.gradient_norm)
        if not bool(torch.isfinite(norm)):
            raise InternalError(
                f"the gradient of iteration {self.done} is {float(norm)}; loss {float(loss.detach())}"
            )
        self.optimiser.step()
        return float(norm)

    def set_rate(self, learning_rate: float) -> None:
        """Go on with another learning rate."""
        for group in self.optimiser.param_groups:
            group["lr"] = learning_rate


def new_learner(settings: Settings) -> Learner:
    """Return a run that has not begun. Sets PyTorch's threads, seed and determinism for this process."""
    torch.manual_seed(settings.seed)
    torch.set_num_threads(settings.threads)
    torch.use_deterministic_algorithms(mode=True)
    network = PolicyNetwork(settings.sizes)
    optimiser = torch.optim.Adam(network.parameters(), lr=settings.outcomes.learning_rate, eps=1e-5)
    return Learner(settings, network, optimiser, np.random.default_rng(settings.seed))
