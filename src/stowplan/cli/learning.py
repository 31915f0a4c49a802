"""`stowplan train`, `evaluate` and `export`: from files to runs, to the terminal or a release."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from stowplan.cli.exit_codes import INTERRUPTED
from stowplan.cli.terminal import progress_bar, say, show_table, write
from stowplan.errors import InvalidInput, UnknownName
from stowplan.learn.checkpoints import BEST, LAST, load_checkpoint
from stowplan.learn.export import export_release
from stowplan.learn.rollouts import NETWORK, rollers_of
from stowplan.learn.scenarios import Split
from stowplan.learn.settings import load_settings
from stowplan.learn.training import Progress, begin_or_resume, setup_of, train
from stowplan.learn.validation import Scores, run_actors
from stowplan.registry import write_release
from stowplan.simulate.interrupts import ctrl_c_sets
from stowplan.simulate.report.table import Cell, Column, Table
from stowplan.simulate.statistics import Interval, paired_change

__all__ = ["run_evaluation", "run_export", "run_training"]

_SHOWN = ("log_completion", "slowdown_error", "choice_loss", "divergence")


def run_training(*, config: Path, out: Path, processes: int | None) -> int:
    """Train, or go on with a training; return the exit code.

    Raises:
        StowplanError: the settings, the data or a checkpoint cannot be used, or a run failed.
    """
    settings = load_settings(config)
    if processes is not None:
        settings = msgspec.structs.replace(settings, processes=processes)
    learner = begin_or_resume(settings, out)
    if learner.done:
        say(f"going on after iteration {learner.done} of the training in {out}")
    stop = threading.Event()
    with ctrl_c_sets(stop), progress_bar() as bar:
        task = bar.add_task("measuring", total=1.0)

        def report(now: Progress) -> None:
            shown = [f"{name} {now.numbers[name]:.3g}" for name in _SHOWN if name in now.numbers]
            words = " ".join((f"{now.stage} {now.done} of {now.total}", *shown))
            bar.update(task, completed=now.done, total=now.total, description=words)
            if now.stage == "validation":
                say(f"after iteration {now.done}: {_in_words(now.numbers)}")

        is_whole = train(learner, out, report=report, is_stopped=stop.is_set)
    if not is_whole:
        say(f"stopped after iteration {learner.done}; the same command goes on from there")
        return INTERRUPTED
    best = out / BEST if (out / BEST).exists() else out / LAST
    write(f"Trained: {best}\nNumbers: {out}/metrics.jsonl, and for TensorBoard {out}/tensorboard")
    return 0


def _in_words(numbers: Mapping[str, float]) -> str:
    prefix = "completion_against_"
    found = [
        f"{100.0 * math.expm1(numbers[name]):+.1f} % against {name.removeprefix(prefix)}"
        for name in numbers
        if name.startswith(prefix)
    ]
    return f"mean completion {', '.join(found)}" if found else f"{numbers['log_completion']:.3f} log seconds"


def run_evaluation(
    *,
    checkpoint: Path,
    split: str,
    scenarios: int,
    policies: Sequence[str],
    processes: int,
    recordings: Path | None,
) -> int:
    """Compare a trained network with rules on scenarios that it was not trained on; return the exit code.

    Raises:
        StowplanError: an option, the checkpoint or the data cannot be used, or a run failed.
    """
    if split not in tuple(Split):
        raise UnknownName("split", split, [one.value for one in Split])
    if scenarios < 1:
        raise InvalidInput(f"--scenarios is {scenarios}; give 1 or more")
    learner = load_checkpoint(checkpoint)
    settings = learner.settings
    if recordings is not None:
        settings = msgspec.structs.replace(settings, recordings=str(recordings))
    with rollers_of(setup_of(settings), processes=processes, ray=None) as rollers:
        found = run_actors(
            [NETWORK, *policies],
            rollers,
            scenarios=scenarios,
            split=Split(split),
            weights=learner.weights,
            statistics=learner.statistics,
        )
    show_table(_table(found, policies, split, scenarios))
    return 0


def run_export(*, checkpoint: Path, out: Path, name: str) -> None:
    """Write the network of a checkpoint as a release.

    Raises:
        InvalidInput: the run has not measured its features yet.
        StowplanError: the checkpoint cannot be used, or the release cannot be written.
    """
    learner = load_checkpoint(checkpoint)
    if learner.statistics is None:
        raise InvalidInput(f"{checkpoint}: is of a training that has not begun; train first")
    release = export_release(
        learner.network, name=name, statistics=learner.statistics, training=learner.settings.digest
    )
    write_release(release, out)
    write(f"Release: {out}")


def _table(found: Mapping[str, Scores], policies: Sequence[str], split: str, scenarios: int) -> Table:
    ours = found[NETWORK]
    rows = [
        [
            Cell(policy),
            _change(paired_change(ours.completion_s.tolist(), found[policy].completion_s.tolist())),
            _change(paired_change(ours.tail_s.tolist(), found[policy].tail_s.tolist())),
        ]
        for policy in policies
    ]
    return Table(
        f"The network against each rule, {scenarios} {split} scenarios",
        (Column("against"), Column("mean completion"), Column("95th percentile of completion")),
        rows,
        "Geometric mean of the ratios with 95 % intervals, pair by pair; "
        f"choices that constraints refuse: {ours.illegal}.",
    )


def _change(change: Interval) -> Cell:
    text = f"{change.estimate:+.1f} %"
    if not change.is_bounded:
        return Cell(text)
    verdict = "good" if change.high < 0.0 else "bad" if change.low > 0.0 else ""
    return Cell(f"{text} ({change.low:+.1f} to {change.high:+.1f})", verdict)
