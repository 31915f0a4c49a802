"""Stage 3: proximal policy optimisation, the whole of it in this file.

    scenarios → groups of runs with equal arrivals, faults and drift → advantages → clipped updates

* Decisions are single: each step of an order and each choice of a node has its own ratio and is clipped by
  itself. All decisions of a cycle share its advantage: what followed the cycle, less what was to be expected.
* To be expected is what the network expects, and what came to the other runs of the group beyond what it
  expected of them, at the same time (`baseline: both`). The first knows the state, the second the arrivals to
  come, which differ more between scenarios than decisions matter. Each can be had alone (`value`, `group`).
* Rewards are integrals over time and discounted by time. A run that was cut off at its horizon goes on from
  the network's value.
* Probabilities are those of the masks that held when a decision was made: they are part of its record.
* Slowdowns and blocked tasks are learned on, from the same runs.

Sources: J. Schulman et al., "Proximal Policy Optimization Algorithms", arXiv 1707.06347; H. Mao et al.,
SIGCOMM 2019 and ICLR 2019 (see `returns`); the estimate of the divergence: J. Schulman, "Approximating KL
Divergence", 2020.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from stowplan.errors import InternalError
from stowplan.learn.batches import Batch, Said, batches, say
from stowplan.learn.imitation import tell_returns
from stowplan.learn.learner import Learner
from stowplan.learn.losses import choice_log_prob, mean_over, outcome_terms
from stowplan.learn.means import Means
from stowplan.learn.records import RunRecord
from stowplan.learn.returns import advantages, group_baselines
from stowplan.learn.rollouts import Job, Rollers
from stowplan.learn.settings import Ppo

__all__ = ["clipped", "improve", "loss_of", "tell_advantages"]

_TINY = 1e-8


def improve(learner: Learner, stage: Ppo, rollers: Rollers) -> dict[str, float]:
    """Do one iteration; return what was seen of it.

    Raises:
        StowplanError: a run failed.
        InternalError: the network chose what the constraints refuse.
    """
    # 1. Runs: groups of the same scenario, which differ in what the network draws.
    jobs = [
        Job(
            number=number,
            difficulty=learner.difficulty,
            repeat=repeat,
            order_temperature=stage.order_temperature,
            choice_temperature=stage.choice_temperature,
            kept_decisions=stage.kept_decisions,
        )
        for number in learner.next_numbers(stage.scenarios)
        for repeat in range(stage.rollouts)
    ]
    records = [outcome.record for outcome in rollers.run(jobs, learner.weights, learner.statistics)]
    means = Means()
    means.of_runs(records)
    if any(record.illegal for record in records):
        raise InternalError(
            "the network chose a node that the constraints refuse: its mask is not that of the filters"
        )
    # 2. What each cycle was worth.
    tell_advantages(records, stage, learner.settings.reward.discount)
    cycles = [cycle for record in records for cycle in record.cycles]
    worth = np.array([cycle.advantage for cycle in cycles])
    found = np.array([cycle.reward_to_go for cycle in cycles])
    expected = np.concatenate([record.values[[c.number for c in record.cycles]] for record in records])
    means.add(explained=_explained(expected, found), advantage_spread=float(worth.std()))
    for cycle in cycles:
        cycle.advantage = float((cycle.advantage - worth.mean()) / (worth.std() + _TINY))
    # 3. Updates, until the policy has moved enough.
    learner.set_rate(stage.learning_rate)
    for _ in range(stage.passes):
        moved: list[float] = []
        for batch in batches(cycles, stage.batch_cycles, learner.rng):
            said = say(
                learner.network,
                batch,
                order_temperature=stage.order_temperature,
                choice_temperature=stage.choice_temperature,
            )
            loss, divergence = loss_of(batch, said, stage, means)
            moved.append(divergence)
            means.add(gradient=learner.step(loss + outcome_terms(batch, said, stage, means)))
        if np.mean(moved) > 1.5 * stage.target_kl:
            break
    return means.result()


def tell_advantages(records: Sequence[RunRecord], stage: Ppo, discount: float) -> None:
    """Fill in return and advantage of every kept cycle."""
    found = [tell_returns(record, discount) for record in records]
    baselines = _baselines(records, found, stage.baseline)
    for record, baseline in zip(records, baselines, strict=True):
        worth = advantages(
            record.rewards,
            record.lengths,
            baseline,
            beta=discount,
            decay=stage.decay,
            bootstrap=record.end_value if record.is_cut_off else 0.0,
        )
        for cycle in record.cycles:
            cycle.advantage = float(worth[cycle.number])


def _baselines(
    records: Sequence[RunRecord], found: Sequence[NDArray[np.float64]], kind: str
) -> list[NDArray[np.float64]]:
    """Return what each run is compared with at each cycle; nothing of it follows from its own choices."""
    values = [record.values for record in records]
    if kind == "value":
        return values
    expected = values if kind == "both" else [np.zeros_like(of_run) for of_run in values]
    baselines = list(expected)
    for number in dict.fromkeys(record.scenario for record in records):
        group = [place for place, record in enumerate(records) if record.scenario == number]
        of_others = group_baselines(
            [records[place].times_s for place in group], [found[place] - expected[place] for place in group]
        )
        for place, surprise in zip(group, of_others, strict=True):
            baselines[place] = expected[place] + surprise
    return baselines


def clipped(log_prob: Tensor, before: Tensor, advantage: Tensor, clip: float) -> Tensor:
    """Return the objective of each decision, to be made large: PPO's equation 7.

    Args:
        log_prob: of what was decided, now; any shape.
        before: the same when it was decided.
        advantage: broadcast to that shape.
        clip: how far the ratio may go from 1 for gain.
    """
    ratio = (log_prob - before).exp()
    return torch.minimum(ratio * advantage, ratio.clamp(1.0 - clip, 1.0 + clip) * advantage)


def loss_of(batch: Batch, said: Said, stage: Ppo, means: Means) -> tuple[Tensor, float]:
    """Return the loss of a batch and how far the policy has moved from the one that drew it."""
    chosen = choice_log_prob(batch, said)
    of_choice = clipped(chosen, batch.log_prob, batch.advantage[batch.cycle], stage.clip).mean()
    of_order = mean_over(
        clipped(said.step_log_prob, batch.order_log_prob, batch.advantage[:, None], stage.clip), batch.is_step
    )
    log_probs = said.choice_log_probs
    choices = (~log_probs.isinf()).sum(dim=-1).clamp(min=2)
    surprise = torch.where(
        log_probs.isinf(), 0.0, log_probs.exp() * log_probs.masked_fill(log_probs.isinf(), 0.0)
    )
    entropy = (-surprise.sum(dim=-1) / choices.float().log()).mean()  # 0 to 1 however many nodes there are
    value = functional.huber_loss(said.value, batch.reward_to_go)
    loss = (
        stage.value_weight * value
        - of_choice
        - stage.order_weight * of_order
        - stage.entropy_weight * entropy
    )
    with torch.no_grad():
        log_ratio = torch.cat(
            (chosen - batch.log_prob, (said.step_log_prob - batch.order_log_prob)[batch.is_step])
        )
        divergence = float((log_ratio.exp() - 1.0 - log_ratio).mean())
        beyond = float(((log_ratio.exp() - 1.0).abs() > stage.clip).float().mean())
    means.add(
        choice_gain=of_choice,
        order_gain=of_order,
        entropy=entropy,
        value_loss=value,
        divergence=divergence,
        clipped=beyond,
    )
    return loss, divergence


def _explained(expected: NDArray[np.float64], found: NDArray[np.float64]) -> float:
    """Return the share of the variance of returns that the network's values explain, at most 1."""
    spread = float(np.var(found))
    return 1.0 - float(np.var(found - expected)) / spread if spread > 0.0 else 0.0
