"""`stowplan simulate` and `stowplan demo`: from options to runs, to files, to the terminal."""

from __future__ import annotations

import math
import os
import shlex
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from stowplan.cli.exit_codes import INTERRUPTED
from stowplan.cli.inputs import load_rules, only_document
from stowplan.cli.policy_options import policy_maker
from stowplan.cli.terminal import progress_bar, say, show_table, write
from stowplan.core.constraints import NO_RULES
from stowplan.core.policy import Policy, make_policy, policy_names
from stowplan.errors import InvalidInput
from stowplan.simulate.clusters import Cluster, load_cluster
from stowplan.simulate.experiment import ExperimentProgress, ExperimentResult, run_experiment
from stowplan.simulate.faults import NO_FAULTS, FaultPlan
from stowplan.simulate.options import SimulationOptions
from stowplan.simulate.report.assemble import REPORT_NAME, Facts, publish_experiment
from stowplan.simulate.report.facts import cluster_facts, version_facts, workload_facts
from stowplan.simulate.report.findings import findings
from stowplan.simulate.report.folder import ResultFolder
from stowplan.simulate.report.preflight import infeasible_in_words
from stowplan.simulate.report.tables import (
    HEADLINE_METRICS,
    amount,
    comparison_table,
    counted,
    slowdown_table,
    summary_table,
)
from stowplan.simulate.simulator import Simulation
from stowplan.simulate.workloads import Arrivals, Workload, load_workload, parse_arrivals

__all__ = ["SimulationRequest", "run_simulation"]

_RECORDED: Final = "recorded"
_SHOWN_COLUMNS: Final = (*HEADLINE_METRICS, "scheduling_delay_mean_s", "cpu_utilisation", "oom_kills")


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationRequest:
    """What the options of `stowplan simulate` say."""

    cluster: Path
    workload: Path
    policies: tuple[str, ...]
    policy_options: tuple[str, ...]
    baseline: str | None
    seeds: int
    arrivals: str
    copies: int
    rules: Path | None
    faults: Path | None
    contention: bool
    scheduling_interval_s: float
    binding_s: float
    pod_startup_s: float
    processes: int | None
    out: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """An experiment, ready to run; `make` makes its policies.

    `settings` are further keywords of `run_experiment`.
    """

    title: str
    lead: str
    cluster: Cluster
    workload: Workload
    policies: Sequence[str]
    baseline: str
    seeds: int
    processes: int | None
    out: Path
    make: Callable[[str], Policy] = make_policy
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    conditions: Sequence[tuple[str, str]] = ()


def run_simulation(request: SimulationRequest) -> int:
    """Read the inputs, run, write and show; return the exit code.

    Raises:
        StowplanError: an input cannot be used, or results cannot be written.
    """
    named = (*request.policies, *([request.baseline] if request.baseline is not None else []))
    make = policy_maker(request.policy_options, named)
    _check_options(request, named, make)
    arrivals = _arrivals(request.arrivals)
    rules = load_rules(request.rules)
    faults = _faults(request.faults)
    options = SimulationOptions(
        scheduling_interval_s=request.scheduling_interval_s,
        binding_s=request.binding_s,
        pod_startup_s=request.pod_startup_s,
    )
    cluster = load_cluster(request.cluster)
    workload = load_workload(request.workload).replicated(request.copies)
    policies = request.policies
    if request.baseline is not None and request.baseline not in policies:
        policies = (request.baseline, *policies)
    return execute(
        Plan(
            title=f"{workload.name} on {cluster.name}",
            lead=f"{len(policies)} placement policies compared in simulation, paired by seed.",
            cluster=cluster,
            workload=workload,
            policies=policies,
            baseline=request.baseline or policies[0],
            seeds=request.seeds,
            processes=request.processes,
            out=request.out,
            make=make,
            settings={
                "arrivals": arrivals,
                "rules": rules,
                "faults": faults,
                "contention": request.contention,
                "options": options,
            },
            conditions=[
                ("Policy options", ", ".join(request.policy_options) or "none"),
                ("Arrivals", request.arrivals),
                ("Rule table", f"{request.rules}" if request.rules else "none"),
                ("Faults", f"{request.faults}" if request.faults else "none"),
                ("Contention", "on" if request.contention else "off: tasks never slow each other down"),
                ("Scheduling interval", f"{request.scheduling_interval_s:g} s"),
                ("Binding, pod start-up", f"{request.binding_s:g} s, {request.pod_startup_s:g} s"),
            ],
        )
    )


def _check_options(request: SimulationRequest, named: Sequence[str], make: Callable[[str], Policy]) -> None:
    """Refuse what can be seen without reading the cluster or the workload, by the name of the option."""
    for name in named:
        make(name)
    for name in request.policies:
        if request.policies.count(name) > 1:
            raise InvalidInput(f"--policy {name} is given twice; name each policy once")
    for option, seconds in (
        ("--scheduling-interval", request.scheduling_interval_s),
        ("--binding", request.binding_s),
        ("--pod-startup", request.pod_startup_s),
    ):
        if not (math.isfinite(seconds) and seconds >= 0.0):
            raise InvalidInput(f"{option} is {seconds:g}; give a number of seconds, 0 or more")
    _check_counts(request.seeds, request.processes)


def _check_counts(seeds: int, processes: int | None) -> None:
    if seeds < 1:
        raise InvalidInput(f"--seeds is {seeds}; give 1 or more")
    if processes is not None and processes < 1:
        raise InvalidInput(f"--processes is {processes}; give 1 or more")


def _arrivals(text: str) -> Arrivals | None:
    return None if text == _RECORDED else parse_arrivals(text)


def _faults(path: Path | None) -> FaultPlan:
    return NO_FAULTS if path is None else FaultPlan.parse(only_document(path), str(path))


def execute(plan: Plan) -> int:
    """Run a plan, write its results and show them; return the exit code.

    Raises:
        StowplanError: a run failed, or results cannot be written.
    """
    _check_counts(plan.seeds, plan.processes)
    seeds = range(1, plan.seeds + 1)
    with ResultFolder(plan.out) as folder:
        # What cannot be simulated (a fault of a node that is not there …) is told before anything else.
        first = plan.make(plan.policies[0])
        Simulation(plan.cluster, plan.workload, first, seed=seeds[0], **plan.settings)
        processes = plan.processes if plan.processes is not None else os.cpu_count() or 1
        runs = len(plan.policies) * plan.seeds
        say(
            f"{plan.workload.name}: {counted(len(plan.workload), 'workflow')}, "
            f"{counted(plan.workload.task_count, 'task')} on {plan.cluster.name}: "
            f"{counted(len(plan.cluster), 'node')}, {amount(plan.cluster.cores)} cores\n"
            f"{counted(runs, 'run')}: {', '.join(plan.policies)} × {counted(plan.seeds, 'seed')}"
        )
        misfits = infeasible_in_words(plan.cluster, plan.workload, plan.settings.get("rules", NO_RULES))
        if misfits is not None:
            say(f"warning: {misfits}")
        with _progress(runs) as progress:
            experiment = run_experiment(
                plan.cluster,
                plan.workload,
                plan.policies,
                seeds,
                baseline=plan.baseline,
                processes=processes,
                progress=progress,
                make=plan.make,
                **plan.settings,
            )
        publish_experiment(experiment, _facts(plan), folder)
    _show(experiment, plan.out)
    return INTERRUPTED if experiment.is_partial else 0


@contextmanager
def _progress(runs: int) -> Generator[Callable[[ExperimentProgress], None]]:
    with progress_bar() as bar:
        task = bar.add_task(f"0 of {runs} runs", total=1.0)
        yield lambda now: bar.update(
            task, completed=now.share, description=f"{now.runs_done} of {now.runs} runs"
        )


def _facts(plan: Plan) -> Facts:
    now = datetime.now(tz=UTC)
    known = policy_names()
    return Facts(
        title=plan.title,
        lead=plan.lead,
        nodes=tuple(node.name for node in plan.cluster.nodes),
        sections={
            "Cluster": cluster_facts(plan.cluster),
            "Workload": workload_facts(plan.workload),
            "Policies": [(name, known.get(name, "")) for name in plan.policies],
            "Conditions": [("Baseline", plan.baseline), ("Seeds", f"1 to {plan.seeds}"), *plan.conditions],
            "Versions": version_facts(),
            "Command": [("Command line", shlex.join(["stowplan", *sys.argv[1:]]))],
        },
        footer=f"Made by Stowplan on {now:%Y-%m-%d at %H:%M} UTC. Everything here is simulated.",
    )


def _show(experiment: ExperimentResult, out: Path) -> None:
    tables = (
        summary_table(experiment, only=_SHOWN_COLUMNS),
        comparison_table(experiment, metrics=HEADLINE_METRICS),
        slowdown_table(experiment.result.tasks),
    )
    for table in tables:
        if table is not None:
            show_table(table)
    for sentence in findings(experiment):
        write(f"• {sentence}")
    write(f"\nReport: {out / REPORT_NAME}\nData:   {out}/*.parquet")
