"""Stages 1 and 2: learn what comes of decisions, then decide as the best rule of each scenario did.

Which rule is best differs between scenarios: physics helps where tenants are few, and misleads where they are
many. So every teacher runs the whole scenario, and only the one that did best is imitated: look-ahead with
the real end in place of a prediction. Outcomes are learned from all of them; the more bad nodes they used,
the more there is to see.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from torch.nn import functional

from stowplan.learn.batches import Batch, Said, batches, say
from stowplan.learn.learner import Learner
from stowplan.learn.losses import imitation_losses, outcome_terms
from stowplan.learn.means import Means
from stowplan.learn.records import CycleRecord, RunRecord
from stowplan.learn.returns import returns
from stowplan.learn.rollouts import Job, Rollers
from stowplan.learn.settings import Imitation, Outcomes

__all__ = ["best_of_each", "imitate", "learn_outcomes", "tell_returns"]


def learn_outcomes(learner: Learner, stage: Outcomes, rollers: Rollers) -> dict[str, float]:
    """Do one iteration of stage 1; return what was seen of it.

    Raises:
        StowplanError: a run failed.
    """
    jobs = [
        Job(
            number=number,
            difficulty=learner.difficulty,
            actor=stage.rules[number % len(stage.rules)],
            kept_decisions=stage.kept_decisions,
        )
        for number in learner.next_numbers(stage.scenarios)
    ]
    records = [outcome.record for outcome in rollers.run(jobs, None, learner.statistics)]
    means = Means()
    means.of_runs(records)
    learner.set_rate(stage.learning_rate)
    for batch in _passes(learner, stage, [cycle for record in records for cycle in record.cycles]):
        said = say(learner.network, batch, order_temperature=1.0, choice_temperature=1.0)
        means.add(gradient=learner.step(outcome_terms(batch, said, stage, means)))
    return means.result()


def imitate(learner: Learner, stage: Imitation, rollers: Rollers) -> dict[str, float]:
    """Do one iteration of stage 2; return what was seen of it.

    Raises:
        StowplanError: a run failed.
    """
    jobs = [
        Job(
            number=number,
            difficulty=learner.difficulty,
            actor=teacher,
            kept_decisions=stage.kept_decisions,
        )
        for number in learner.next_numbers(stage.scenarios)
        for teacher in stage.teachers
    ]
    records = [outcome.record for outcome in rollers.run(jobs, None, learner.statistics)]
    best = best_of_each(records)
    means = Means()
    means.of_runs(best)
    for record in best:
        tell_returns(record, learner.settings.reward.discount)
    learner.set_rate(stage.learning_rate)
    of_best = {id(cycle) for record in best for cycle in record.cycles}
    others = [cycle for record in records for cycle in record.cycles if id(cycle) not in of_best]
    for batch in _passes(learner, stage, [cycle for record in best for cycle in record.cycles]):
        said = _say(learner, batch, stage)
        order, choice = imitation_losses(batch, said)
        value = functional.huber_loss(said.value, batch.reward_to_go)
        means.add(order_loss=order, choice_loss=choice, value_loss=value)
        loss = stage.order_weight * order + stage.choice_weight * choice + stage.value_weight * value
        means.add(gradient=learner.step(loss + outcome_terms(batch, said, stage, means)))
    for batch in batches(others, stage.batch_cycles, learner.rng):
        learner.step(outcome_terms(batch, _say(learner, batch, stage), stage, means))
    return means.result()


def best_of_each(records: Sequence[RunRecord]) -> list[RunRecord]:
    """Return, of the runs of each scenario, the one that cost least; the first of equals."""
    best: dict[int, RunRecord] = {}
    for record in records:
        known = best.get(record.scenario)
        if known is None or record.rewards.sum() > known.rewards.sum():
            best[record.scenario] = record
    return list(best.values())


def tell_returns(record: RunRecord, discount: float) -> NDArray[np.float64]:
    """Fill in what followed each kept cycle, and return it for all cycles of the run."""
    bootstrap = record.end_value if record.is_cut_off else 0.0
    found = returns(record.rewards, record.lengths, beta=discount, bootstrap=bootstrap)
    for cycle in record.cycles:
        cycle.reward_to_go = float(found[cycle.number])
    return found


def _say(learner: Learner, batch: Batch, stage: Imitation) -> Said:
    return say(
        learner.network,
        batch,
        order_temperature=stage.order_temperature,
        choice_temperature=stage.choice_temperature,
    )


def _passes(learner: Learner, stage: Outcomes | Imitation, cycles: Sequence[CycleRecord]) -> list[Batch]:
    """Return the batches of all passes over the cycles, each pass in an order of its own."""
    return [batch for _ in range(stage.passes) for batch in batches(cycles, stage.batch_cycles, learner.rng)]
