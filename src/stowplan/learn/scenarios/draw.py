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

from stowplan.core.domain import Workflow
from stowplan.core.encoder import FeatureGroup
from stowplan.errors import InvalidInput
from stowplan.learn.scenarios.chance import log_uniform
from stowplan.learn.scenarios.clusters import draw_cluster
from stowplan.learn.scenarios.faults import draw_faults
from stowplan.learn.scenarios.load import mean_gap_s, room_for
from stowplan.learn.scenarios.machines import draw_types
from stowplan.learn.scenarios.programs import Program, draw_programs, programmed
from stowplan.learn.scenarios.ranges import Ranges
from stowplan.learn.scenarios.recordings import Split
from stowplan.learn.scenarios.synthetic import FAMILY, draw_workflow
from stowplan.simulate.clusters import Cluster
from stowplan.simulate.faults import FaultPlan
from stowplan.simulate.options import SensorOptions, SimulationOptions
from stowplan.simulate.workloads import AllAtOnce, Arrivals, Burst, Poisson, Submission, Workload

__all__ = ["Scenario", "draw_scenario", "seed_of"]

_SPLIT_KEY = {Split.TRAINING: 0, Split.VALIDATION: 1, Split.TEST: 2}
_INTERVALS_S = (0.0, 1.0, 1.0, 2.0, 2.0)
_READINGS_S = (5.0, 10.0, 15.0, 30.0)
_MOST_NODE_S = 1.2e5
"""Seconds of an episode times its nodes, about; by that and the next an episode takes a few seconds."""
_MOST_READINGS = 16000  # of all nodes in an episode, about; one takes 0.1 ms
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
    programs = draw_programs(rng, ranges, workflows, types)
    made = programmed(workflows, programs)
    kept = [before for before, after in zip(workflows, made, strict=True) if _fits(after, cluster)]
    if not kept:
        return None
    load = float(rng.uniform(*ranges.load))
    fitting, gap_s = _affordable(kept, programs, cluster, load, ranges.workflows[0])
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
            rng, len(cluster), length_s=length_s + max(paths_s), noisy_share=ranges.noisy_share
        ),
        without=tuple(group for group in FeatureGroup if rng.random() < ranges.missing_share),
        time_scale_s=math.fsum(paths_s) / len(paths_s),
    )


def _affordable(
    workflows: list[Workflow], programs: dict[str, Program], cluster: Cluster, load: float, fewest: int
) -> tuple[list[Workflow], float]:
    """Return workflows as they run and the mean gap between them, so that an episode is not too long.

    What is too long has fewer workflows, but `fewest`, and if that is not enough all its durations are cut.
    """
    most_s = _MOST_NODE_S / len(cluster)
    made = programmed(workflows, programs)
    made = made[: max(int(most_s / mean_gap_s(made, cluster, load)), fewest)]
    gap_s = mean_gap_s(made, cluster, load)
    length_s = gap_s * len(made) + max(workflow.critical_path()[1] for workflow in made)
    if length_s <= most_s:
        return made, gap_s
    paced = {template: program.paced(most_s / length_s) for template, program in programs.items()}
    made = programmed(workflows[: len(made)], paced)
    return made, mean_gap_s(made, cluster, load)


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
            size = round(log_uniform(rng, 2.0, max(most, 2.0)))
            chosen = draw_workflow(rng, f"{FAMILY}/{number}", most_tasks=size, uses_gpus=has_gpus)
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
    return all(room_for(shape, cluster) for shape in dict.fromkeys(task.shape for task in workflow.tasks))


def _draw_arrivals(rng: np.random.Generator, gap_s: float, length_s: float) -> Arrivals:
    kind = rng.random()
    if kind < 0.1:
        return AllAtOnce()
    if kind < 0.25:
        return Burst(gap_s * 1.5, 0.2 * length_s, 0.1 * length_s, factor=float(rng.uniform(4.0, 17.0)))
    return Poisson(gap_s)


def _draw_options(
    rng: np.random.Generator, nodes: int, *, length_s: float, noisy_share: float
) -> SimulationOptions:
    is_instant = rng.random() < 0.5
    bearable = [every_s for every_s in _READINGS_S if every_s * _MOST_READINGS >= length_s * nodes]
    interval_s = float(rng.choice(bearable or _READINGS_S[-1:]))
    is_noisy = rng.random() < noisy_share
    return SimulationOptions(
        scheduling_interval_s=float(rng.choice(_INTERVALS_S)),
        pod_startup_s=0.0 if is_instant else float(rng.uniform(0.5, 6.0)),
        unreachable_toleration_s=float(rng.choice((30.0, 300.0))),
        horizon_s=_HORIZON * length_s,
        sensors=_draw_sensors(rng, interval_s) if is_noisy else SensorOptions(interval_s=interval_s),
        usage_points=2,
        node_usage_rows=4,
    )


def _draw_sensors(rng: np.random.Generator, interval_s: float) -> SensorOptions:
    """Draw how badly nodes are measured: one in two readings lost is an agent that hardly keeps up."""
    return SensorOptions(
        interval_s=interval_s,
        noise=float(rng.uniform(0.0, 0.4)),
        delay_s=log_uniform(rng, 0.1, 30.0),
        loss=0.5 * float(rng.random() ** 2),
    )
