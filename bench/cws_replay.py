"""The simulator against real Kubernetes runs: six nf-core workflows, two schedulers, five runs each.

The traces (F. Lehmann et al., "How Workflow Engines Should Talk to Resource Managers", CCGrid 2023, and its
repository of results) are of Nextflow on four equal nodes under the stock scheduler (`original`:
kube-scheduler) and under the Common Workflow Scheduler with rank-min-round-robin. Each run is simulated with
its own tasks, run times and node speeds; makespans are compared by their medians over the five runs. What
surrounds the scheduler is measured in the traces' own columns, never fitted to a makespan; delays are means,
because delays add up along a path:

* `pod_startup_s`: mean of start - submit over tasks submitted while no other waited to start, all runs.
* `pod_start_interval_s`: mean time between two starts on one node while at least 20 tasks wait to start, in
  the workflow whose tasks never fill a node (eager: nothing else holds starts back there).
* `submission_s`: per run, mean of submit - complete of the last task before, less `status_report_s`.
* Time around the script inside the container: per run, mean of complete - start - realtime.
* Node capacities: the most cores and memory requested at once on each node, over all runs.
* Node speeds: per run, median over tasks of realtime over the same task's median in the five runs.

Two constants are defaults of Kubernetes: the kubelet notices a container's end once a second (PLEG relist,
`status_report_s`), and kube-scheduler backs off 1 to 10 s from a pod that fitted nowhere. The Common Workflow
Scheduler has no back-off; most of its gain in these runs comes from that and from the order by rank.
"""

import os
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Final

from bench.harness import Row, median_ci95
from stowplan.simulate.clusters import Cluster, load_cluster
from stowplan.simulate.files import read_text
from stowplan.simulate.options import SimulationOptions
from stowplan.simulate.simulator import Simulation
from stowplan.simulate.workloads import Submission, Workload
from stowplan.simulate.workloads.nextflow import workflow_of
from stowplan.simulate.workloads.nextflow_graph import infer_edges, name_tasks, parse_process_graph
from stowplan.simulate.workloads.nextflow_trace import TraceRow, parse_trace

DATA = Path(os.environ.get("STOWPLAN_DATA", Path(__file__).parent.parent.parent / "shared" / "data"))
WORKFLOWS: Final = ("ampliseq", "atacseq", "chipseq", "eager", "mag", "nanoseq")
STOCK: Final = "original"
RANKED: Final = "rank_min_roundrobin"
POLICIES: Final = {STOCK: "kube-scheduler", RANKED: "rank-min-round-robin"}
STATUS_REPORT_S: Final = 1.0
BACKOFF_S: Final = 1.0
NEVER_FULL: Final = "eager"
CROWD: Final = 20
CLOSE: Final = 0.15

Graph = Mapping[str, Mapping[str, bool]]


@dataclass(frozen=True)
class Run:
    """One recorded run: its rows by task name, and its process graph."""

    rows: Mapping[str, TraceRow]
    graph: Graph

    @cached_property
    def makespan_s(self) -> float:
        """First submission to last completion."""
        rows = self.rows.values()
        return max(row.complete_s for row in rows) - min(row.submit_s for row in rows)

    @cached_property
    def around_s(self) -> float:
        """Mean seconds that a container runs besides the script."""
        return statistics.fmean(row.complete_s - row.start_s - row.runtime_s for row in self.rows.values())

    @cached_property
    def submission_s(self) -> float:
        """Mean seconds from hearing of the last task before a task to its submission."""
        ready_s: dict[str, float] = {}
        for parent, child in infer_edges(self.rows, self.graph):
            ready_s[child] = max(ready_s.get(child, 0.0), self.rows[parent].complete_s)
        waits_s = [self.rows[child].submit_s - time_s for child, time_s in ready_s.items()]
        return max(0.0, statistics.fmean(waits_s) - STATUS_REPORT_S)

    def lonely_starts_s(self) -> list[float]:
        """Return start - submit of the tasks that alone waited to start."""
        rows = list(self.rows.values())
        return [
            row.start_s - row.submit_s
            for row in rows
            if not any(
                other is not row and other.submit_s <= row.start_s and other.start_s >= row.submit_s
                for other in rows
            )
        ]

    def crowded_gaps_s(self) -> list[float]:
        """Return the seconds between two starts on one node while many tasks wait."""
        rows = list(self.rows.values())
        gaps: list[float] = []
        for node in sorted({row.node for row in rows}):
            starts = sorted(row.start_s for row in rows if row.node == node)
            for before, after in pairwise(starts):
                if sum(row.submit_s <= before and row.start_s >= after for row in rows) >= CROWD:
                    gaps.append(after - before)
        return gaps


def read_runs(workflow: str, scheduler: str) -> list[Run]:
    """Read the runs of one workflow under one scheduler.

    Raises:
        InvalidFile: the shared data are not there, or damaged.
    """
    folder = DATA / "cws" / workflow / scheduler
    drawn = folder / "1-dag.html.gz"
    graph = parse_process_graph(read_text(drawn), str(drawn))
    return [
        Run(name_tasks(parse_trace(read_text(trace), str(trace))[0]), graph)
        for trace in sorted(folder.glob("*-trace.csv.gz"))
    ]


def node_speeds(run: Run, runs: Sequence[Run]) -> dict[str, float]:
    """Return each node's time factor in one run: median of run time over the task's median in all runs."""
    ratios: dict[str, list[float]] = {}
    for name, row in run.rows.items():
        typical_s = statistics.median(other.rows[name].runtime_s for other in runs if name in other.rows)
        if typical_s >= 1.0:
            ratios.setdefault(row.node, []).append(row.runtime_s / typical_s)
    return {node: statistics.median(found) for node, found in sorted(ratios.items())}


def simulated_s(
    run: Run, factors: Mapping[str, float], policy: str, cluster: Cluster, starts: "Starts"
) -> float:
    """Return the simulated makespan of one run."""
    rows = {name: replace(row, runtime_s=row.runtime_s + run.around_s) for name, row in run.rows.items()}
    workload = Workload("run", (Submission(0.0, workflow_of("run", rows, run.graph, factors)),))
    options = SimulationOptions(
        pod_startup_s=starts.startup_s,
        pod_start_interval_s=starts.interval_s,
        status_report_s=STATUS_REPORT_S,
        submission_s=run.submission_s,
        scheduler_backoff_s=BACKOFF_S if policy == POLICIES[STOCK] else 0.0,
    )
    result = Simulation(cluster, workload, policy, seed=0, options=options).run()
    return float(result.summary["makespan_s"][0])


@dataclass(frozen=True, slots=True)
class Starts:
    """How pods start on these nodes."""

    startup_s: float
    interval_s: float


def run(*, quick: bool) -> list[Row]:
    """Simulate every run and compare; `quick` takes two workflows and one run of each."""
    names = (NEVER_FULL, "ampliseq") if quick else WORKFLOWS
    runs = {(name, scheduler): read_runs(name, scheduler) for name in names for scheduler in POLICIES}
    lonely_s = [s for each in runs.values() for one in each for s in one.lonely_starts_s()]
    gaps_s = [
        gap for scheduler in POLICIES for one in runs[NEVER_FULL, scheduler] for gap in one.crowded_gaps_s()
    ]
    starts = Starts(statistics.fmean(lonely_s), statistics.fmean(gaps_s))
    cluster = load_cluster(DATA / "cws")
    rows = [
        Row.exact(
            starts.startup_s,
            name="cws/pod-startup",
            what=f"start of a pod that alone waits to start, mean of {len(lonely_s)}",
            unit="s",
        ),
        Row.exact(
            starts.interval_s,
            name="cws/start-interval",
            what=f"between two starts on one crowded node, mean of {len(gaps_s)}",
            unit="s",
        ),
    ]
    errors: list[float] = []
    gains: list[tuple[float, float]] = []
    for name in names:
        medians: dict[str, tuple[float, float]] = {}
        for scheduler, policy in POLICIES.items():
            each = runs[name, scheduler]
            ours = [
                simulated_s(one, node_speeds(one, each), policy, cluster, starts)
                for one in (each[:1] if quick else each)
            ]
            real_s = statistics.median(one.makespan_s for one in each)
            medians[scheduler] = (real_s, statistics.median(ours))
            rows.append(
                Row.of(
                    median_ci95(ours),
                    name=f"cws/{name}-{policy}",
                    what=f"{name}: simulated makespan under {policy}, median of {len(ours)} runs",
                    unit="s",
                    note=f"real: {real_s:.0f} s ({medians[scheduler][1] / real_s - 1:+.1%})",
                )
            )
        (stock_real_s, stock_s), (ranked_real_s, ranked_s) = medians[STOCK], medians[RANKED]
        errors.append(abs(stock_s / stock_real_s - 1))
        gains.append((100 * (1 - ranked_real_s / stock_real_s), 100 * (1 - ranked_s / stock_s)))
        rows.append(
            Row.exact(
                gains[-1][1],
                name=f"cws/{name}-gain",
                what=f"{name}: how much shorter rank-min-round-robin makes it, simulated",
                unit="%",
                note=f"real: {gains[-1][0]:.1f} %",
            )
        )
    within = sum(error <= CLOSE for error in errors)
    signs = sum(real * ours > 0.0 for real, ours in gains)
    worst = max(abs(real - ours) for real, ours in gains)
    mean_real, mean_ours = (statistics.fmean(side) for side in zip(*gains, strict=True))
    return [
        *rows,
        Row.exact(
            within, name="cws/within-15", what="stock makespans within 15 % of the real medians", unit="of 6"
        ),
        Row.exact(
            signs, name="cws/gain-signs", what="gains of rank-min-round-robin of the right sign", unit="of 6"
        ),
        Row.exact(
            worst, name="cws/gain-off", what="largest distance of a gain from the real one", unit="points"
        ),
        Row.exact(
            mean_ours,
            name="cws/mean-gain",
            what="mean gain of rank-min-round-robin, simulated",
            unit="%",
            note=f"real: {mean_real:.1f} %",
        ),
    ]
