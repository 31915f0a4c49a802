"""Checkpoints: what comes back is what was saved, damage is refused, and a resumed run is the run."""

import json
from pathlib import Path

import msgspec
import pytest
import torch

from stowplan.errors import InvalidFile, InvalidInput
from stowplan.learn.checkpoints import BEST, LAST, load_checkpoint, save_checkpoint
from stowplan.learn.learner import Learner, new_learner
from stowplan.learn.settings import Settings
from stowplan.learn.training import METRICS, Progress, begin_or_resume, train


def ignore(progress: Progress) -> None:
    del progress


def run(settings: Settings, out: Path, *, iterations: int | None = None) -> Learner:
    """Train, stopping before another iteration once `iterations` are done."""
    learner = begin_or_resume(settings, out)
    train(learner, out, report=ignore, is_stopped=lambda: learner.done == iterations)
    return learner


def same(one: Learner, other: Learner) -> bool:
    mine, theirs = one.network.state_dict(), other.network.state_dict()
    return all(torch.equal(mine[name], theirs[name]) for name in mine)


@pytest.mark.slow
def test_a_run_that_is_stopped_and_resumed_is_the_same_run(settings: Settings, tmp_path: Path) -> None:
    straight = run(settings, tmp_path / "straight")
    for done in (1, 2, 3, None):
        resumed = run(settings, tmp_path / "stopped", iterations=done)
    assert straight.done == resumed.done == 4
    assert same(straight, resumed)
    assert (straight.best, straight.drawn) == (resumed.best, resumed.drawn)
    numbers = [
        [
            {name: value for name, value in json.loads(line).items() if name != "seconds"}
            for line in (tmp_path / folder / METRICS).read_text().splitlines()
        ]
        for folder in ("straight", "stopped")
    ]
    assert numbers[0] == numbers[1]
    assert [one["stage"] for one in numbers[0]] == [
        "measuring",
        "outcomes",
        "imitation",
        "validation",
        "ppo",
        "ppo",
        "validation",
    ]
    assert (tmp_path / "straight" / BEST).exists()


@pytest.mark.slow
def test_processes_do_not_change_what_is_learned(settings: Settings, tmp_path: Path) -> None:
    two = msgspec.structs.replace(settings, processes=2)
    assert same(run(settings, tmp_path / "one", iterations=2), run(two, tmp_path / "two", iterations=2))


def test_a_checkpoint_comes_back_as_it_was(settings: Settings, tmp_path: Path) -> None:
    learner = new_learner(settings)
    learner.step(sum((p.square().sum() for p in learner.network.parameters()), torch.zeros(())))
    learner.done, learner.drawn, learner.best = 3, 17, 1.25
    learner.baselines["random"] = [1.0, 2.0]
    learner.rng.random(5)
    save_checkpoint(learner, tmp_path / LAST)
    expected = (learner.rng.random(), float(torch.rand(())))
    loaded = load_checkpoint(tmp_path / LAST)
    assert same(learner, loaded)
    assert (loaded.done, loaded.drawn, loaded.best, loaded.baselines) == (3, 17, 1.25, {"random": [1.0, 2.0]})
    assert loaded.settings == settings
    assert (loaded.rng.random(), float(torch.rand(()))) == expected
    moments = loaded.optimiser.state_dict()["state"]
    assert moments
    assert torch.equal(moments[0]["exp_avg"], learner.optimiser.state_dict()["state"][0]["exp_avg"])


@pytest.mark.parametrize("keep", [0, 10, 40, 200, -1])
def test_a_truncated_checkpoint_is_refused(settings: Settings, tmp_path: Path, keep: int) -> None:
    path = tmp_path / LAST
    save_checkpoint(new_learner(settings), path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(InvalidFile, match=r"last\.checkpoint.*(no checkpoint|truncated or altered)"):
        load_checkpoint(path)


@pytest.mark.parametrize("place", [0, 45, 300, -20])
def test_an_altered_checkpoint_is_refused(settings: Settings, tmp_path: Path, place: int) -> None:
    path = tmp_path / LAST
    save_checkpoint(new_learner(settings), path)
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(InvalidFile, match=r"last\.checkpoint"):
        load_checkpoint(path)


def test_a_missing_checkpoint_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match=r"nowhere.*cannot be read"):
        load_checkpoint(tmp_path / "nowhere")


def test_a_folder_of_another_training_is_not_gone_on_with(settings: Settings, tmp_path: Path) -> None:
    save_checkpoint(new_learner(settings), tmp_path / LAST)
    with pytest.raises(InvalidInput, match="other settings"):
        begin_or_resume(msgspec.structs.replace(settings, seed=4), tmp_path)
    moved = msgspec.structs.replace(settings, processes=2)
    assert begin_or_resume(moved, tmp_path).settings.processes == 2
