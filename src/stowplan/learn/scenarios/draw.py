"""One scenario from one seed: cluster, workload, faults and surroundings, equal wherever it is drawn.

Seeds of the three splits never meet: a split is part of the seed sequence. A scenario's `seed` also drives
what chance decides in its runs (arrivals are fixed here already), so every run of a group of rollouts meets
the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from stowplan.core.domain import CPU, MEMORY, Workflow
from stowplan.core.encoder import FeatureGroup
from stowplan.errors import InvalidInput
from stowplan.learn.scenarios.clusters import draw_cluster
from stowplan.learn.scenarios.faults import draw_faults
from stowplan.learn.scenarios.machines import draw_types
from stowplan.learn.scenarios.programs import draw_programs
from stowplan.learn.scenarios.ranges import Ranges
from stowplan.learn.scenarios.recordings import Split
from stowplan.learn.scenarios.synthetic import FAMILY, draw_workflow
from stowplan.simulate.clusters import Cluster
from stowplan.simulate.faults import FaultPlan
from stowplan.simulate.options import SensorOptions, SimulationOptions
from stowplan.simulate.workloads import AllAtOnce, Arrivals, Burst, Poisson, Submission, Workload

__all__ = ["Scenario", "draw_scenario", "seed_of"]

_SPLIT_KEY = {Split.TRAINING: 0, Split.VALIDATION: 1, Split.TEST: 2}
_HORIZON = 20.0  # an episode ends after this many times the time that its work needs


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What a run is made of. `without` are the groups of features that nobody measures here.

    `time_scale_s` is the mean critical path of its workflows: rewards are counted in it, so that long and
    short scenarios weigh alike.
    """

    number: int
    seed: int
    cluster: Cluster
    workload: Workload
    faults: FaultPlan
    options: SimulationOptions
    without: tuple[FeatureGroup, ...]
    time_scale_s: float


def seed_of(base: int, split: Split, number: int) -> np.random.SeedSequence:
    """Return the seed of scenario `number` of a split; those of two splits or numbers share nothing."""
    return np.random.SeedSequence(base, spawn_key=(_SPLIT_KEY[split], number))


def draw_scenario(
    recordings: Mapping[str, tuple[Workflow, ...]],
    ranges: Ranges,
    *,
    base_seed: int,
    split: Split,
    number: int,
    difficulty: float = 1.0,
) -> Scenario:
    """Draw a scenario; the same arguments give the same scenario.

    Args:
        recordings: workflows by family, of the split (`load_recordings`).
        ranges: what may be drawn.
        base_seed: of the training run.
        split: whose seeds are used.
        number: which of them.
        difficulty: 0 to 1, see `Ranges.at`.

    Raises:
        InvalidInput: no workflow fits the cluster that was drawn, ten times in a row.
    """
    seeds = seed_of(base_seed, split, number)
    at = ranges.at(difficulty)
    for attempt_seed in seeds.spawn(10):
        rng = np.random.default_rng(attempt_seed)
        scenario = _draw(rng, recordings, at, number)
        if scenario is not None:
            return scenario
    raise InvalidInput(
        f"scenario {number} of {split}: no workflow of {', '.join(recordings)} fits the clusters drawn; "
        "raise most_tasks or the cluster's ranges"
    )


def _draw(
    rng: np.random.Generator, recordings: Mapping[str, tuple[Workflow, ...]], ranges: Ranges, number: int
) -> Scenario | None:
    has_gpus = rng.random() < ranges.gpu_share
    types = draw_types(rng, ranges, has_gpus=has_gpus)
    cluster = draw_cluster(rng, ranges, types, f"scenario-{number}")
    workflows = _draw_workflows(rng, recordings, ranges, has_gpus=has_gpus)
    scale = _log_uniform(rng, *ranges.task_scale)
    templates = tuple(sorted({task.template for workflow in workflows for task in workflow.tasks}))
    programs = draw_programs(rng, templates, types, has_errors=rng.random() < ranges.estimate_error_share)
    changed = [
        replace(w, tasks=tuple(programs[task.template].applied(task, scale) for task in w.tasks))
        for w in workflows
    ]
    fitting = [workflow for workflow in changed if _fits(workflow, cluster)]
    if not fitting:
        return None
    gap_s = _mean_gap_s(fitting, cluster, float(rng.uniform(*ranges.load)))
    length_s = gap_s * len(fitting)
    workload = Workload(
        f"scenario-{number}",
        tuple(Submission(0.0, workflow) for workflow in fitting),
        source="drawn for training",
    ).arriving(rng, _draw_arrivals(rng, gap_s, length_s))
    paths_s = [workflow.critical_path()[1] for workflow in fitting]
    faults = draw_faults(rng, ranges, length_s=length_s + max(paths_s), has_gpus=has_gpus)
    return Scenario(
        number=number,
        seed=int(rng.integers(1 << 31)),
        cluster=cluster,
        workload=workload,
        faults=faults,
        options=_draw_options(
            rng, horizon_s=_HORIZON * (length_s + max(paths_s)), noisy_share=ranges.noisy_share
        ),
        without=tuple(group for group in FeatureGroup if rng.random() < ranges.missing_share),
        time_scale_s=math.fsum(paths_s) / len(paths_s),
    )


def _draw_workflows(
    rng: np.random.Generator,
    recordings: Mapping[str, tuple[Workflow, ...]],
    ranges: Ranges,
    *,
    has_gpus: bool,
) -> list[Workflow]:
    """Draw a mix: some families, weighted at random, and synthetic graphs; bounded by tasks in all."""
    families = sorted(recordings)
    weights = rng.dirichlet(np.full(len(families), 0.7))
    count = int(rng.integers(ranges.workflows[0], ranges.workflows[1] + 1))
    synthetic_share = max(ranges.synthetic_share, 0.5 if has_gpus else 0.0)
    left, most = ranges.most_tasks, ranges.most_tasks // 6
    drawn: list[Workflow] = []
    for number in range(count):
        if rng.random() < synthetic_share or not families:
            chosen = draw_workflow(rng, f"{FAMILY}/{number}", most_tasks=min(left, 120), uses_gpus=has_gpus)
        else:
            family = recordings[families[int(rng.choice(len(families), p=weights))]]
            known = [workflow for workflow in family if len(workflow) <= most] or [min(family, key=len)]
            pick = known[int(rng.integers(len(known)))]
            chosen = replace(pick, name=f"{pick.name}/{number}")
        if len(chosen) <= left:
            drawn.append(chosen)
            left -= len(chosen)
        if left <= 0:
            break
    return drawn


def _fits(workflow: Workflow, cluster: Cluster) -> bool:
    """Whether every task fits some node that is empty."""
    nodes = {(node.allocatable, len(node.hardware.gpus)) for node in cluster.nodes}
    return all(
        any(
            room.get(CPU, 0) >= shape.requests.get(CPU, 0)
            and room.get(MEMORY, 0) >= shape.requests.get(MEMORY, 0)
            and gpus >= (shape.gpu.count if shape.gpu is not None else 0)
            for room, gpus in nodes
        )
        for shape in dict.fromkeys(task.shape for task in workflow.tasks)
    )


def _mean_gap_s(workflows: list[Workflow], cluster: Cluster, load: float) -> float:
    """Return the mean gap of arrivals at which `load` of the cluster's cores are requested."""
    core_s = math.fsum(
        task.work.alone_s * task.shape.requests.get(CPU, 0) / 1000 for w in workflows for task in w.tasks
    )
    return core_s / (load * cluster.cores * len(workflows))


def _draw_arrivals(rng: np.random.Generator, gap_s: float, length_s: float) -> Arrivals:
    kind = rng.random()
    if kind < 0.1:
        return AllAtOnce()
    if kind < 0.25:
        return Burst(gap_s * 1.5, 0.2 * length_s, 0.1 * length_s, factor=float(rng.uniform(4.0, 17.0)))
    return Poisson(gap_s)


def _draw_options(rng: np.random.Generator, *, horizon_s: float, noisy_share: float) -> SimulationOptions:
    is_instant = rng.random() < 0.5
    return SimulationOptions(
        scheduling_interval_s=0.0 if rng.random() < 0.3 else float(rng.choice((0.5, 1.0, 2.0))),
        pod_startup_s=0.0 if is_instant else float(rng.uniform(0.5, 6.0)),
        unreachable_toleration_s=float(rng.choice((30.0, 300.0))),
        horizon_s=horizon_s,
        sensors=_draw_sensors(rng) if rng.random() < noisy_share else SensorOptions(),
        usage_points=2,
        node_usage_rows=4,
    )


def _draw_sensors(rng: np.random.Generator) -> SensorOptions:
    """Draw how badly nodes are measured."""
    return SensorOptions(
        noise=float(rng.uniform(0.0, 0.2)),
        delay_s=float(rng.uniform(0.0, 10.0)),
        loss=float(rng.uniform(0.0, 0.2)),
    )


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return math.exp(float(rng.uniform(math.log(low), math.log(high))))
