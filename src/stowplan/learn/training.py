"""A training run, from its first scenario to its last checkpoint: measuring, three stages, validation.

What a run does next follows from its state alone, so one that was stopped and goes on does what it would have
done: the same scenarios, the same draws, the same weights, bit for bit, with any number of processes. It can
be stopped between iterations; what an iteration under way had done is lost, and done again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from torch.utils.tensorboard.writer import SummaryWriter

from stowplan.errors import InvalidInput
from stowplan.learn.checkpoints import BEST, LAST, load_checkpoint, save_checkpoint
from stowplan.learn.imitation import imitate, learn_outcomes
from stowplan.learn.learner import Learner, new_learner
from stowplan.learn.ppo import improve
from stowplan.learn.rollouts import NETWORK, Job, Rollers, Setup, rollers_of
from stowplan.learn.scenarios import Split
from stowplan.learn.settings import Settings
from stowplan.learn.survey import statistics_of
from stowplan.learn.validation import run_actors, score_of

__all__ = ["METRICS", "Progress", "begin_or_resume", "setup_of", "train"]

METRICS: Final = "metrics.jsonl"
"""File with one line of numbers for each iteration, as TensorBoard shows them."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is. `stage` is measuring, outcomes, imitation, ppo or validation."""

    stage: str
    done: int
    total: int
    numbers: Mapping[str, float]


def setup_of(settings: Settings) -> Setup:
    """Return what rollouts of a training share."""
    return Setup(
        recordings=None if settings.recordings is None else Path(settings.recordings),
        ranges=settings.ranges,
        base_seed=settings.seed,
        reward=settings.reward,
        sizes=settings.sizes,
        most_groups=settings.most_groups,
    )


def begin_or_resume(settings: Settings, out: Path) -> Learner:
    """Return the state to go on from: that of the last checkpoint in `out`, else that of a new run.

    Raises:
        InvalidFile: the checkpoint is damaged.
        InvalidInput: it is of a run with other settings.
    """
    path = out / LAST
    if not path.exists():
        return new_learner(settings)
    learner = load_checkpoint(path)
    if learner.settings.digest != settings.digest:
        raise InvalidInput(
            f"{path} is of a training with other settings; name another folder with --out, or go on with the "
            "settings that it was begun with"
        )
    learner.settings = settings  # where it runs may differ
    return learner


def train(
    learner: Learner,
    out: Path,
    *,
    report: Callable[[Progress], None],
    is_stopped: Callable[[], bool],
) -> bool:
    """Run to the end or until stopped; return whether it came to its end. All is written to `out`.

    Raises:
        StowplanError: a run failed, or `out` cannot be written.
    """
    settings = learner.settings
    out.mkdir(parents=True, exist_ok=True)
    run = _Run(learner, out, report)
    with rollers_of(setup_of(settings), processes=settings.processes, ray=settings.ray) as rollers:
        if learner.statistics is None:
            _measure(learner, rollers)
            run.note("measuring", {})
            run.save()
        while learner.done < run.total:
            if is_stopped():
                run.save()
                return False
            stage, step = _stage_of(learner)
            began = time.perf_counter()
            numbers = step(learner, rollers)
            numbers["seconds"] = time.perf_counter() - began
            learner.done += 1
            run.note(stage, numbers)
            is_last = learner.done == run.total
            if settings.checks.scenarios and (learner.done % settings.checks.every == 0 or is_last):
                run.validate(rollers)
            if is_last or learner.done % settings.checkpoint_every == 0:
                run.save()
    run.close()
    return True


def _stage_of(learner: Learner) -> tuple[str, Callable[[Learner, Rollers], dict[str, float]]]:
    """Return the name of the stage that a run is in, and its iteration."""
    settings = learner.settings
    first = settings.outcomes.iterations
    if learner.done < first:
        return "outcomes", lambda one, rollers: learn_outcomes(one, settings.outcomes, rollers)
    if learner.done < first + settings.imitation.iterations:
        return "imitation", lambda one, rollers: imitate(one, settings.imitation, rollers)
    return "ppo", lambda one, rollers: improve(one, settings.ppo, rollers)


def _measure(learner: Learner, rollers: Rollers) -> None:
    """Freeze the statistics of features, from scenarios as hard as they get."""
    stage = learner.settings.measuring
    jobs = [
        Job(
            number=number,
            actor=stage.rules[number % len(stage.rules)],
            kept_decisions=stage.kept_decisions,
            surveys=True,
        )
        for number in learner.next_numbers(stage.scenarios)
    ]
    surveys = [outcome.survey for outcome in rollers.run(jobs, None, None)]
    learner.statistics = statistics_of([survey for survey in surveys if survey is not None])


class _Run:
    """Where a run writes."""

    def __init__(self, learner: Learner, out: Path, report: Callable[[Progress], None]) -> None:
        settings = learner.settings
        self.total = settings.outcomes.iterations + settings.imitation.iterations + settings.ppo.iterations
        self._learner = learner
        self._out = out
        self._report = report
        self._board = SummaryWriter(str(out / "tensorboard"), purge_step=learner.done + 1)
        self._forget_later()

    def _forget_later(self) -> None:
        """Leave out the lines of iterations that are to be done again."""
        path = self._out / METRICS
        if path.exists():
            kept = [
                line
                for line in path.read_text().splitlines()
                if json.loads(line)["done"] <= self._learner.done
            ]
            path.write_text("".join(f"{line}\n" for line in kept))

    def note(self, stage: str, numbers: Mapping[str, float]) -> None:
        """Write the numbers of an iteration."""
        done = self._learner.done
        for name, number in numbers.items():
            self._board.add_scalar(f"{stage}/{name}", number, done)
        with (self._out / METRICS).open("a") as stream:
            stream.write(json.dumps({"done": done, "stage": stage, **numbers}) + "\n")
        self._report(Progress(stage, done, self.total, numbers))

    def validate(self, rollers: Rollers) -> None:
        """Compare the network as it would serve with rules; keep it when it is the best so far."""
        learner, checks = self._learner, self._learner.settings.checks
        missing = [rule for rule in checks.rules if rule not in learner.baselines]
        found = run_actors(
            [NETWORK, *missing],
            rollers,
            scenarios=checks.scenarios,
            split=Split.VALIDATION,
            weights=learner.weights,
            statistics=learner.statistics,
        )
        for rule in missing:
            learner.baselines[rule] = [found[rule].log_completion, found[rule].log_tail]
        ours = found[NETWORK]
        numbers = {
            "log_completion": ours.log_completion,
            "log_tail": ours.log_tail,
            "illegal": float(ours.illegal),
        }
        for rule in checks.rules:
            completion, tail = learner.baselines[rule]
            numbers[f"completion_against_{rule}"] = ours.log_completion - completion
            numbers[f"tail_against_{rule}"] = ours.log_tail - tail
        self.note("validation", numbers)
        if score_of(ours) < learner.best:
            learner.best = score_of(ours)
            save_checkpoint(learner, self._out / BEST)

    def save(self) -> None:
        """Write the checkpoint to resume from."""
        save_checkpoint(self._learner, self._out / LAST)
        self._board.flush()

    def close(self) -> None:
        """Close what shows the numbers."""
        self._board.close()
