"""What was trained is what serves: a release decides as the network of its checkpoint does."""

from pathlib import Path

import numpy as np
import pytest
import torch

from stowplan.cli.process import run
from stowplan.core.encoder import SCHEMA, nominal_statistics
from stowplan.core.policy.learned import LearnedPolicy
from stowplan.learn.checkpoints import save_checkpoint
from stowplan.learn.episodes import simulation_of
from stowplan.learn.learner import Learner, new_learner
from stowplan.learn.rollouts import Job, Setup, Worker
from stowplan.learn.settings import Settings
from stowplan.registry import load_release


@pytest.fixture
def learner(settings: Settings) -> Learner:
    """A network with opinions."""
    learner = new_learner(settings)
    with torch.no_grad():
        for parameter in learner.network.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    learner.statistics = nominal_statistics(SCHEMA)
    return learner


def test_a_release_places_as_the_network_does(learner: Learner, setup: Setup, tmp_path: Path) -> None:
    save_checkpoint(learner, tmp_path / "last.checkpoint")
    command = ["export", "--checkpoint", str(tmp_path / "last.checkpoint"), "--out", str(tmp_path / "mine")]
    assert run(command) == 0
    worker = Worker(setup, learner.statistics)
    for number in range(3):
        job = Job(number=number)
        scenario = worker.scenario(job)
        if scenario.without:
            continue  # a release says itself which groups it does without
        ours = worker.run(job, learner.weights).record
        policy = LearnedPolicy(load_release(tmp_path / "mine"))
        simulation = simulation_of(scenario, policy)
        while not simulation.is_over:
            simulation.step()
        finished_s = np.array([simulation.book.finished_s[index] for index in range(len(scenario.workload))])
        spent_s = finished_s - np.array([s.time_s for s in scenario.workload.submissions])
        assert float(spent_s.mean()) == pytest.approx(ours.completion_s, rel=1e-9)


def test_a_training_that_has_not_begun_has_no_release(
    settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_checkpoint(new_learner(settings), tmp_path / "last.checkpoint")
    command = ["export", "--checkpoint", str(tmp_path / "last.checkpoint"), "--out", str(tmp_path / "mine")]
    assert run(command) == 2
    assert "has not begun" in capsys.readouterr().err
