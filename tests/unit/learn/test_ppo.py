"""The parts of PPO by hand, and that it learns what it is told is good."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from stowplan.errors import InvalidInput
from stowplan.learn.batches import batches, collate, say
from stowplan.learn.learner import new_learner
from stowplan.learn.losses import choice_log_prob, mean_over
from stowplan.learn.means import Means
from stowplan.learn.ppo import clipped, loss_of, tell_advantages
from stowplan.learn.records import RunRecord
from stowplan.learn.rollouts import Job, Worker
from stowplan.learn.settings import Ppo, Settings


def test_gain_is_cut_off_and_loss_is_not() -> None:
    before = torch.zeros(4)
    now = torch.tensor([1.5, 0.5, 1.5, 0.5]).log()
    advantage = torch.tensor([1.0, 1.0, -1.0, -1.0])
    assert_allclose(clipped(now, before, advantage, 0.2), [1.2, 0.5, -1.5, -0.8], atol=1e-6)


def test_a_mean_does_not_see_what_does_not_count() -> None:
    values = torch.tensor([1.0, -torch.inf, 3.0])
    assert float(mean_over(values, torch.tensor([True, False, True]))) == pytest.approx(2.0)
    assert float(mean_over(values, torch.zeros(3, dtype=torch.bool))) == 0.0


def record(scenario: int, rewards: list[float], *, is_cut_off: bool = False) -> RunRecord:
    count = len(rewards)
    return RunRecord(
        scenario=scenario,
        times_s=np.arange(count, dtype=np.float64),
        rewards=np.array(rewards),
        lengths=np.ones(count),
        values=np.full(count, -1.0),
        cycles=[],
        is_cut_off=is_cut_off,
        end_value=-4.0,
        completion_s=1.0,
        tail_s=1.0,
        tasks=1,
    )


def with_cycles(worker: Worker, run: RunRecord) -> RunRecord:
    """The run with a cycle kept at each of its times."""
    cycles = worker.run(Job(number=0, actor="srpt-fastest", kept_decisions=500), None).record.cycles
    run.cycles = cycles[: len(run.times_s)]
    for number, cycle in enumerate(run.cycles):
        cycle.number = number
    return run


@pytest.mark.parametrize("baseline", ["group", "both"])
def test_runs_are_compared_within_their_group(worker: Worker, baseline: str) -> None:
    runs = [
        with_cycles(worker, record(n, r))
        for n, r in ((0, [-1.0, -2.0]), (0, [-3.0, -2.0]), (1, [-9.0, -9.0]))
    ]
    tell_advantages(runs, Ppo(rollouts=2, baseline=baseline), discount=0.0)
    assert [[cycle.advantage for cycle in run.cycles] for run in runs[:2]] == [[2.0, 0.0], [-2.0, 0.0]]
    assert [cycle.reward_to_go for cycle in runs[0].cycles] == [-3.0, -2.0]
    alone = [-18.0, -9.0] if baseline == "group" else [-17.0, -8.0]  # nobody to be compared with
    assert [cycle.advantage for cycle in runs[2].cycles] == alone


def test_what_the_network_foresaw_is_no_surprise(worker: Worker) -> None:
    """Two runs of a group end differently, and the values knew: neither did better than expected."""
    runs = [with_cycles(worker, record(0, [-1.0, -2.0])), with_cycles(worker, record(0, [-3.0, -2.0]))]
    runs[0].values, runs[1].values = np.array([-3.0, -2.0]), np.array([-5.0, -2.0])
    tell_advantages(runs, Ppo(rollouts=2, baseline="both"), discount=0.0)
    assert [[cycle.advantage for cycle in run.cycles] for run in runs] == [[0.0, 0.0], [0.0, 0.0]]


def test_a_run_cut_off_is_not_taken_as_ended(worker: Worker) -> None:
    runs = [with_cycles(worker, record(0, [-1.0, -2.0], is_cut_off=cut)) for cut in (True, False)]
    tell_advantages(runs, Ppo(rollouts=2), discount=0.0)
    assert [cycle.reward_to_go for cycle in runs[0].cycles] == [-7.0, -6.0]
    assert [cycle.advantage for cycle in runs[0].cycles] == [-4.0, -4.0]


def test_the_networks_value_can_be_the_baseline(worker: Worker) -> None:
    run = with_cycles(worker, record(0, [-1.0, -2.0]))
    tell_advantages([run], Ppo(baseline="value", rollouts=1), discount=0.0)
    assert [cycle.advantage for cycle in run.cycles] == [-2.0, -1.0]


def test_what_is_worth_more_becomes_more_likely(settings: Settings, worker: Worker) -> None:
    """Choices of even nodes are told to be good, of odd ones bad: the network comes to prefer even ones."""
    learner = new_learner(settings)
    stage = Ppo(order_weight=0.0, entropy_weight=0.0, learning_rate=3e-3)
    job = Job(number=0, order_temperature=0.1, choice_temperature=2.0, kept_decisions=300)
    cycles = worker.run(job, learner.weights).record.cycles
    picked = [cycle for cycle in cycles if cycle.decisions[0].choice < len(cycle.decisions[0].rows)]
    for cycle in picked:
        cycle.decisions = cycle.decisions[:1]
        cycle.advantage = 1.0 if cycle.decisions[0].choice % 2 == 0 else -1.0
    whole = collate(picked)

    def liking() -> float:
        said = say(learner.network, whole, order_temperature=0.1, choice_temperature=2.0)
        return float((choice_log_prob(whole, said) * whole.advantage).mean().detach())

    before = liking()
    learner.set_rate(stage.learning_rate)
    for _ in range(10):
        for batch in batches(picked, 16, learner.rng):
            said = say(learner.network, batch, order_temperature=0.1, choice_temperature=2.0)
            learner.step(loss_of(batch, said, stage, Means())[0])
    assert liking() > before + 0.02


@pytest.mark.parametrize(
    ("fields", "message"),
    [({"baseline": "best"}, "'best'"), ({"rollouts": 1}, "rollouts is 1"), ({"clip": -0.1}, "clip is -0.1")],
)
def test_settings_that_mean_nothing_are_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Ppo(**fields)  # pyright: ignore[reportArgumentType]
