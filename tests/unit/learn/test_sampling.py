"""Draws: their probabilities are those that learning assumes, and constraints are never broken."""

from itertools import permutations

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from stowplan.learn.batches import collate, say
from stowplan.learn.losses import choice_log_prob
from stowplan.learn.network import PolicyNetwork
from stowplan.learn.rollouts import Job, Setup, Worker, weights_of
from stowplan.learn.rules import FIRST_RULE
from stowplan.learn.sampling import step_log_probs


@pytest.fixture
def network(setup: Setup) -> PolicyNetwork:
    """A network that has opinions: one that was not trained adds nothing to its rule."""
    torch.manual_seed(1)
    network = PolicyNetwork(setup.sizes)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return network.eval()


def test_probabilities_of_all_orders_add_up_to_one() -> None:
    scores = np.array([0.3, -1.0, 2.0, 0.0])
    total = sum(np.exp(step_log_probs(scores[list(order)]).sum()) for order in permutations(range(4)))
    assert_allclose(total, 1.0)


def test_the_first_step_is_a_softmax() -> None:
    scores = np.array([1.0, 0.0, -1.0])
    assert_allclose(np.exp(step_log_probs(scores)[0]), np.e / (np.e + 1.0 + 1.0 / np.e))


@pytest.mark.parametrize(("order", "choice"), [(0.1, 0.5), (1.0, 1.0)])
def test_learning_sees_the_probabilities_of_the_rollout(
    network: PolicyNetwork, worker: Worker, order: float, choice: float
) -> None:
    job = Job(number=1, order_temperature=order, choice_temperature=choice, kept_decisions=60)
    record = worker.run(job, weights_of(network, 0)).record
    assert record.illegal == 0
    batch = collate(record.cycles)
    said = say(network, batch, order_temperature=order, choice_temperature=choice)
    assert_allclose(choice_log_prob(batch, said).detach(), batch.log_prob, atol=2e-4)
    steps = said.step_log_prob.detach()[batch.is_step]
    assert_allclose(steps, batch.order_log_prob[batch.is_step], atol=2e-4)


def test_a_cycle_can_be_learned_from_alone_or_with_others(network: PolicyNetwork, worker: Worker) -> None:
    job = Job(number=2, order_temperature=0.3, choice_temperature=1.0, kept_decisions=60)
    cycles = worker.run(job, weights_of(network, 0)).record.cycles
    whole = say(network, collate(cycles), order_temperature=0.3, choice_temperature=1.0)
    first = say(network, collate(cycles[:1]), order_temperature=0.3, choice_temperature=1.0)
    groups, nodes = first.blocking.shape[1], first.choice_log_probs.shape[1] - 1
    count = len(first.log_slowdown)
    assert_allclose(whole.value[0].detach(), first.value[0].detach(), atol=1e-5)
    assert_allclose(whole.blocking[0, :groups].detach(), first.blocking[0].detach(), atol=1e-5)
    assert_allclose(whole.log_slowdown[:count].detach(), first.log_slowdown.detach(), atol=1e-5)
    assert_allclose(
        whole.choice_log_probs[:count, :nodes].detach(), first.choice_log_probs[:, :nodes].detach(), atol=1e-4
    )


def test_what_is_not_feasible_has_no_probability(network: PolicyNetwork, worker: Worker) -> None:
    jobs = [
        Job(number=number, order_temperature=0.1, choice_temperature=5.0, kept_decisions=200)
        for number in range(8)
    ]
    weights = weights_of(network, 0)
    batch = collate([cycle for job in jobs for cycle in worker.run(job, weights).record.cycles])
    said = say(network, batch, order_temperature=0.1, choice_temperature=5.0)
    nodes = batch.is_feasible.shape[1]
    assert not batch.is_feasible.all()
    assert torch.isneginf(said.choice_log_probs[:, :nodes][~batch.is_feasible]).all()
    placed = batch.choice < nodes
    assert batch.is_feasible[placed].gather(1, batch.choice[placed, None]).all()
    total = said.choice_log_probs.exp().sum(dim=1)
    assert_allclose(total.detach(), 1.0, atol=1e-5)


def test_the_same_job_gives_the_same_run(network: PolicyNetwork, setup: Setup) -> None:
    job = Job(number=4, repeat=2, order_temperature=0.3, choice_temperature=1.0, kept_decisions=30)
    one, other = (Worker(setup).run(job, weights_of(network, 0)).record for _ in range(2))
    assert one.completion_s == other.completion_s
    assert [cycle.number for cycle in one.cycles] == [cycle.number for cycle in other.cycles]
    assert_allclose(one.rewards, other.rewards, rtol=0.0, atol=0.0)


def test_runs_of_a_group_differ_in_draws_alone(network: PolicyNetwork, setup: Setup) -> None:
    worker = Worker(setup)
    jobs = [
        Job(number=4, repeat=repeat, order_temperature=1.0, choice_temperature=3.0) for repeat in range(2)
    ]
    one, other = (worker.run(job, weights_of(network, 0)).record for job in jobs)
    assert one.times_s[0] == other.times_s[0]  # the same first arrival
    assert one.completion_s != other.completion_s


def test_untrained_it_is_the_rule_that_it_starts_from(setup: Setup) -> None:
    """Equal up to rounding, and to the order of tasks of one workflow: runs agree closely."""
    worker = Worker(setup)
    untrained = weights_of(PolicyNetwork(setup.sizes), 0)
    for number in range(3):
        network = worker.run(Job(number=number, difficulty=0.0), untrained).record
        rule = worker.run(Job(number=number, difficulty=0.0, actor=FIRST_RULE), None).record
        assert network.completion_s == pytest.approx(rule.completion_s, rel=0.1)
