"""What `make demo` shows of a live cluster: recorded workflows run for real, under two schedulers.

A few of the runs that ship with `stowplan demo`, converted to Argo workflows with real loads, on the cluster
of `bench/live_workflows.py`: two unequal real nodes that can take a part of them at once. First
kube-scheduler places them, then Stowplan, which has no durations yet, then Stowplan again, which has learnt
them. Nothing is taken from a file of results.

    python -m bench.live.demo
"""

import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Final

from bench.live.trials import KUBE_SCHEDULER, STOWPLAN, Bed, Trial, kube_scheduler, stowplan, with_history
from bench.live_workflows import spec
from stowplan.cli.terminal import say, show_table, write
from stowplan.errors import StowplanError
from stowplan.simulate.data import load_demo_recordings
from stowplan.simulate.report.table import Cell, Column, Table
from testbed import cluster
from testbed.argo.converted import Scale, convert_tasks
from testbed.errors import BedError, MissingPrerequisite
from testbed.images import image_name
from testbed.spec import Json
from testbed.stowplan import program

POLICY: Final = "srpt"
RUNS: Final[Mapping[str, int]] = {
    "epigenomics-chameleon-hep-1seq-100k-001": 1,
    "methylseq-dirt02-001": 1,
    "srasearch-chameleon-10a-001": 3,
}
"""Recorded runs and how often each is submitted, in this order: the long ones come first."""
COLD: Final = "Stowplan, first run"
WARM: Final = "Stowplan, second run"
UNUSABLE: Final = 2


def workflows() -> dict[str, Json]:
    """The workflows by instance, in the order in which they are submitted."""
    recordings = load_demo_recordings()
    image = image_name("load")
    return {
        f"{run.partition('-')[0]}-{number}": convert_tasks(
            *recordings[run], run.partition("-")[0], Scale(), image
        )
        for run, copies in RUNS.items()
        for number in range(1, copies + 1)
    }


def show(url: str) -> None:
    """Run the batch three times and show what came of it.

    Args:
        url: Of the history, which begins empty.

    Raises:
        BedError: The machine lacks something, or something did not do what it should.
    """
    batch = workflows()
    config = {
        "scheduler": {"policy": POLICY},
        "history": {"url": url, "refit_s": 5.0},
        "lease": {"enable": False},
    }
    running = cluster.start(spec(), owned=True)
    try:
        bed = Bed(running, tell=lambda text: say(f"  {text}"))
        trials: dict[str, Trial] = {}
        say(f"{len(batch)} recorded workflows on two real nodes, three times; each takes a minute or two")
        for name, namespace, schedules in (
            (KUBE_SCHEDULER, "demo-kube-scheduler", None),
            (COLD, "demo-first", config),
            (WARM, "demo-second", config),
        ):
            runs = kube_scheduler(running) if schedules is None else stowplan(running, schedules)
            scheduler = KUBE_SCHEDULER if schedules is None else STOWPLAN
            trials[name] = bed.run(scheduler, namespace, batch, runs)
    finally:
        running.down()
    show_table(table_of(trials))
    second = with_history(trials[WARM], url)
    errors = [each.error for each in second.foretold]
    write(
        f"Second run: {second.bound} of {len(second.pods)} pods bound and {second.explained} explained by "
        "Stowplan; their durations were foretold from the first run with a median error of "
        f"{median(errors):.0%}.\n"
    )
    last = max(second.pods, key=lambda pod: pod.bound_s)
    _explain(last.namespace, last.name, url)


def table_of(trials: Mapping[str, Trial]) -> Table:
    """How long each kind of workflow took from the batch's submission to its end, by who placed its tasks."""
    names = list(trials)
    first = trials[names[0]]
    kinds = sorted({instance.partition("-")[0] for instance in first.completions_s})
    rows = [[Cell(kind), *_cells([_mean_s(trials[name], kind) for name in names])] for kind in kinds]
    rows.append([Cell("all, mean"), *_cells([trials[name].mean_completion_s for name in names])])
    rows.append([Cell("until the last ended"), *_cells([trials[name].makespan_s for name in names])])
    return Table(
        title="Seconds until workflows of a kind are completed",
        columns=[Column("workflows", holds_words=True), *(Column(name) for name in names)],
        rows=rows,
        caption="One run each: a demonstration, not a measurement. The measured comparison, with repeats and "
        "intervals, is `python -m bench live_workflows`, kept in docs/BENCHMARKS.md.",
    )


def _mean_s(trial: Trial, kind: str) -> float:
    return fmean(
        took_s for instance, took_s in trial.completions_s.items() if instance.partition("-")[0] == kind
    )


def _cells(seconds: Sequence[float]) -> list[Cell]:
    first, *others = seconds
    return [
        Cell(f"{first:.0f}"),
        *(
            Cell(f"{other:.0f} ({other / first - 1:+.0%})", "good" if other < first else "bad")
            for other in others
        ),
    ]


def _explain(namespace: str, name: str, url: str) -> None:
    words = ["explain", f"pod/{name}", "-n", namespace, "--history", url]
    write(f"$ stowplan {' '.join(words[:-1])} …")
    sys.stdout.flush()  # what the command prints comes after it
    subprocess.run([*program(), *words], check=True)


def main() -> int:
    """Show it; 0 done or not possible here, 2 with a line that says what went wrong."""
    with tempfile.TemporaryDirectory() as scratch:
        try:
            show(f"sqlite:///{Path(scratch) / 'history.sqlite'}")
        except MissingPrerequisite as missing:
            say(f"not shown on a live cluster: {missing}")
        except (BedError, StowplanError) as error:
            say(str(error))
            return UNUSABLE
    return 0


if __name__ == "__main__":
    sys.exit(main())
