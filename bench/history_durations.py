"""Expected durations from history against the last value and the mean, on real traces.

Each prediction is scored by its absolute percentage error against the real run time, the median over all
predictions is a row; "held" is the share of real run times within the 80 % interval that was given with them.
Run times below a second are predicted, but not scored: the traces have whole seconds there, or less than the
machine's own jitter. Peers:

* last value: the newest run of the same task (the same item where it was seen, else of the same class). This
  is Argo Workflows' `estimatedDuration`, which takes a node's duration from the last successful workflow.
* mean: of all runs of the same class.

What is predicted from what:

* cws: six nf-core workflows on four equal nodes, ten runs each. One run is left out and predicted from the
  nine others; and, as the hard beginning, each run from the one before it alone.
* cws, new workflow: each run of a workflow from the runs of the five others; the peer is the mean of all.
* wfinstances: recorded runs of one workflow with other data and machines; one is left out. No items.
* sizey: long runs; each task from those of the run that had ended by then, and, which only ours can use, how
  long those had been running that had not (in 20 steps). Few items come twice.
* lotaru: seven kinds of machines; a fifth of the tasks on each machine from their runs on the others, when
  the other tasks were seen there too. Items are the inputs.
"""

import os
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Final

from bench.harness import Row, measure, median_ci95
from stowplan.observe.history import ClassKey, DurationModel, Observation
from stowplan.simulate.files import data_files, parse_csv, read_text
from stowplan.simulate.laws.machines import parse_runs
from stowplan.simulate.workloads.nextflow_trace import parse_trace
from stowplan.simulate.workloads.wfinstances import parse_recording

DATA: Final = Path(os.environ.get("STOWPLAN_DATA", Path(__file__).parent.parent.parent / "shared" / "data"))
SHORTEST_SCORED_S: Final = 1.0
STEPS: Final = 20
PARTS: Final = 5

Runs = dict[str, list[Observation]]


@dataclass(slots=True)
class Score:
    """Absolute percentage errors of ours and the peers, and how many real values the interval held."""

    ours: list[float] = field(default_factory=list[float])
    last: list[float] = field(default_factory=list[float])
    mean: list[float] = field(default_factory=list[float])
    held: int = 0

    def add(self, known: Sequence[Observation], asked: Iterable[Observation], *, new: bool = False) -> None:
        """Predict `asked` from `known`; with `new` those of classes not seen, else those of seen ones."""
        model = DurationModel(known)
        ended = [each for each in known if each.is_complete]
        by_class: dict[ClassKey, list[float]] = {}
        newest: dict[tuple[ClassKey, str], tuple[float, float]] = {}
        for each in ended:
            by_class.setdefault(each.key, []).append(each.elapsed_s)
            for item in {each.item, ""}:
                at = (each.key, item)
                newest[at] = max(newest.get(at, (0.0, 0.0)), (each.seen_s, each.elapsed_s))
        means = {key: statistics.fmean(values) for key, values in by_class.items()}
        overall = statistics.fmean(each.elapsed_s for each in ended)
        for each in asked:
            if (each.key in by_class) is new or each.elapsed_s < SHORTEST_SCORED_S:
                continue
            answer = model.expected(each.key, item=each.item, node_class=each.node_class, shape=each.shape)
            last = newest.get((each.key, each.item), newest.get((each.key, ""), (0.0, overall)))[1]
            for errors, value in (
                (self.ours, answer.expected_s),
                (self.last, last),
                (self.mean, means.get(each.key, overall)),
            ):
                errors.append(100.0 * abs(value / each.elapsed_s - 1.0))
            self.held += answer.low_s <= each.elapsed_s <= answer.high_s

    def rows(self, name: str, what: str) -> list[Row]:
        """Return the rows of this question."""
        ours = median_ci95(self.ours)
        last, mean = statistics.median(self.last), statistics.median(self.mean)
        return [
            Row(
                name=f"history/{name}",
                what=f"{what}: median error",
                unit="%",
                median=ours.median,
                ci95_low=ours.low,
                ci95_high=ours.high,
                samples=ours.samples,
                peer="last value",
                peer_median=last,
                ratio=last / ours.median,
                note=f"mean of the class: {mean:.1f} % ({mean / ours.median:.2f} × ours)",
            ),
            Row.exact(
                100.0 * self.held / len(self.ours),
                name=f"history/{name}-held",
                what=f"{what}: real times within the 80 % interval",
                unit="%",
            ),
        ]


def cws_runs(workflow: str) -> Runs:
    """Return the runs of one workflow by their names, oldest first."""
    runs: Runs = {}
    for file in data_files(DATA / "cws" / workflow):
        if not file.name.startswith(tuple("12345")) or "trace" not in file.name:
            continue
        run = f"{file.parent.name}/{file.name}"
        rows, _ = parse_trace(read_text(file), file.name)
        runs[run] = [
            Observation(
                key=ClassKey(workflow, row.process.rpartition(":")[2], row.process),
                elapsed_s=row.runtime_s,
                run=f"{workflow}/{run}",
                seen_s=row.complete_s,
                item=row.tag,
            )
            for row in rows
            if row.is_completed
        ]
    return dict(sorted(runs.items(), key=lambda named: max(each.seen_s for each in named[1])))


def wfinstances_runs(family: Path) -> Runs:
    """Return the recorded runs of one family of workflows by file."""
    runs: Runs = {}
    for number, file in enumerate(data_files(family)):
        tasks, _, _ = parse_recording(read_text(file), file.name)
        runs[file.name] = [
            Observation(
                key=ClassKey(family.name, task.template, ""),
                elapsed_s=task.runtime_s,
                run=file.name,
                seen_s=float(number),
            )
            for task in tasks
        ]
    return runs


@dataclass(frozen=True, slots=True)
class TimedTask:
    """A run of a task, and when it was submitted and started."""

    submit_s: float
    start_s: float
    run: Observation

    def at(self, now_s: float) -> Observation | None:
        """Return what was known of it at `now_s`."""
        if self.run.seen_s <= now_s:
            return self.run
        if self.start_s >= now_s:
            return None
        return replace(self.run, is_complete=False, elapsed_s=now_s - self.start_s, seen_s=now_s)


def sizey_tasks(file: Path) -> list[TimedTask]:
    """Return the completed tasks of one trace, by submission."""
    needs = ("process", "tag", "status", "submit", "start", "complete", "realtime")
    found = [
        TimedTask(
            float(row["submit"]) / 1000,
            float(row["start"]) / 1000,
            Observation(
                key=ClassKey(file.name, row["process"].rpartition(":")[2], row["process"]),
                elapsed_s=float(row["realtime"]) / 1000,
                run=file.name,
                seen_s=float(row["complete"]) / 1000,
                item="" if row["tag"] == "-" else row["tag"],
            ),
        )
        for row in parse_csv(read_text(file), file.name, needs=needs)
        if row["status"] == "COMPLETED" and "-" not in (row["start"], row["complete"], row["realtime"])
    ]
    return sorted(found, key=lambda each: each.submit_s)


def left_out(scores: Score, runs: Runs) -> None:
    """Predict each run from all others; of a single run nothing can be left out."""
    for name, asked in runs.items() if len(runs) > 1 else ():
        scores.add([each for other, run in runs.items() if other != name for each in run], asked)


def lotaru_score(*, quick: bool) -> Score:
    """Predict each task on each machine from its runs elsewhere."""
    runs = [run for file in data_files(DATA / "lotaru") for run in parse_runs(read_text(file), file.name)]
    machines = sorted({run.machine for run in runs})
    found = [
        Observation(
            key=ClassKey(run.workflow, run.task, ""),
            elapsed_s=run.runtime_s,
            run=f"{run.workflow}/{run.label}/{run.sequences}/{run.machine}",
            seen_s=float(machines.index(run.machine)),
            item=f"{run.label}/{run.sequences}",
            node_class=run.machine,
        )
        for run in runs
    ]
    keys = sorted({each.key for each in found})
    score = Score()
    for machine in machines[:2] if quick else machines:
        for part in range(PARTS):
            new_there = set(keys[part::PARTS])
            known: list[Observation] = []
            asked: list[Observation] = []
            for each in found:
                is_asked = each.key in new_there and each.node_class == machine
                (asked if is_asked else known).append(each)
            score.add(known, asked)
    return score


def run(*, quick: bool) -> list[Row]:
    """Score every question; `quick` takes two workflows, families, traces and machines."""
    workflows = sorted(folder.name for folder in (DATA / "cws").iterdir())[: 2 if quick else None]
    cws = {workflow: cws_runs(workflow) for workflow in workflows}
    nine, second, fresh = Score(), Score(), Score()
    for workflow, runs in cws.items():
        left_out(nine, runs)
        for before, after in pairwise(runs.values()):
            second.add(before, after)
        others = [each for name, of in cws.items() if name != workflow for run in of.values() for each in run]
        for asked in list(runs.values())[:1]:
            fresh.add(others, asked, new=True)
    recorded = Score()
    for family in sorted((DATA / "wfinstances").iterdir())[: 2 if quick else None]:
        if family.name != "nfcore":  # its files are different workflows
            left_out(recorded, wfinstances_runs(family))
    within = Score()
    for file in data_files(DATA / "sizey")[: 2 if quick else None]:
        tasks = sizey_tasks(file)
        for step in range(1, STEPS):
            first, last = len(tasks) * step // STEPS, len(tasks) * (step + 1) // STEPS
            seen = [each.at(tasks[first].submit_s) for each in tasks]
            known = [each for each in seen if each is not None]
            if any(each.is_complete for each in known):
                within.add(known, [each.run for each in tasks[first:last]])
    everything = [each for of in cws.values() for run in of.values() for each in run]
    return [
        *nine.rows("cws", "cws, nine runs seen"),
        *second.rows("cws-second", "cws, one run seen"),
        *fresh.rows("cws-new", "cws, new workflow"),
        *recorded.rows("wfinstances", "wfinstances, other runs of the family seen"),
        *within.rows("sizey", "sizey, earlier tasks of the same run"),
        *lotaru_score(quick=quick).rows("lotaru", "lotaru, task new on this machine"),
        Row.of(
            measure(lambda: DurationModel(everything), repeats=3 if quick else 7),
            name="history/fit",
            what=f"model made anew from {len(everything)} runs of {len({e.key for e in everything})} classes",
            unit="s",
        ),
    ]
