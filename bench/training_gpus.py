"""Training gangs and streaming services on 64 GPUs, under kube-scheduler's rules and under the policy gangs.

What is submitted and on which machines is in `bench/training`, committed before any rule was tried on it. The
baseline is kube-scheduler as it comes: its default score plugins, gangs whole or not at all (KEP-4671, beta
in 1.37) and on each node the GPUs that NVIDIA's device plugin prefers, those of one root complex when enough
are free there (`core.decoder.gpus`). Nothing tells it that workers belong together, unless users write pod
affinity: that is measured too, and `gangs` beside it.

Each awareness of `gangs` is measured alone and with the other, on the same submissions at the same times. Of
a job that ran under both, the time of a step and of the reduction in it are compared; the geometric mean over
jobs is one sample, and there is one per seed. How long GPUs compute, and how long they are held, is taken
from half an hour after the beginning, when the machines have filled, to the last submission.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from bench.harness import Row, median_ci95
from bench.training.scenario import cluster, with_affinity, workload
from stowplan.core.constraints import NO_RULES, RuleTable
from stowplan.core.physics.network import overlapped_time_s, ring_time_s
from stowplan.core.physics.vocabulary import LinkClass
from stowplan.core.policy import make_policy
from stowplan.simulate.results import RunResult
from stowplan.simulate.simulator import Simulation
from stowplan.simulate.workloads import Workload

SEEDS: Final = tuple(range(1, 11))
FILLED_S: Final = 1800.0
PATIENCE: Final = ("patience_s", 600.0)
"""Chosen on seeds 101 to 103 among 0, 600 and 1,800 seconds."""
SPREAD: Final = RuleTable(spread_factor=0.4)
BASELINE: Final = "kube-scheduler"
AFFINITY: Final = "affinity"
COMPARED: Final = {
    "step_s": ("step", "time of a step"),
    "reduce_s": ("all-reduce", "time of an all-reduce"),
    "completion_s": ("completion", "time from submission to end"),
    "service_s": ("service", "time that a service takes for its work"),
}
ROOM: Final = ((4, LinkClass.SAME_ROOT_COMPLEX), (8, LinkClass.SAME_NODE), (16, LinkClass.SAME_RACK))
"""How many GPUs there are at most within a distance on these machines."""


@dataclass(frozen=True, slots=True)
class Variant:
    """Who decides. `name` is what rows are called."""

    name: str
    what: str
    policy: str
    options: tuple[tuple[str, object], ...] = ()
    rules: RuleTable = NO_RULES
    is_with_affinity: bool = False


VARIANTS: Final = (
    Variant(BASELINE, "kube-scheduler", "kube-scheduler"),
    Variant(AFFINITY, "kube-scheduler, affinity written", "kube-scheduler", is_with_affinity=True),
    Variant("root-complexes", "root complexes alone", "gangs", (("network", False), PATIENCE), SPREAD),
    Variant("network", "network alone", "gangs", (("root_complexes", False), PATIENCE)),
    Variant("gangs", "both", "gangs", (PATIENCE,), SPREAD),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run came to: shares of GPUs that compute and are held; by job its steps and reductions.

    `completion_s` is by submission from then to the end, `service_s` how long each service took for its work.
    """

    computing: float
    held: float
    step_s: dict[str, float]
    reduce_s: dict[str, float]
    completion_s: dict[str, float]
    service_s: dict[str, float]


def simulate(load: Workload, variant: Variant, seed: int) -> Outcome:
    """Run the load once to its end."""
    policy = make_policy(variant.policy, **dict(variant.options))
    submitted = with_affinity(load) if variant.is_with_affinity else load
    simulation = Simulation(cluster(), submitted, policy, seed=seed, rules=variant.rules)
    result: RunResult = simulation.run()
    last_s = max(submission.time_s for submission in simulation.workload.submissions)
    gpu = result.usage.filter(
        (pl.col("resource") == "gpu") & (pl.col("time_s") >= FILLED_S) & (pl.col("time_s") <= last_s)
    )
    whole = float((gpu["allocatable"] * gpu["length_s"]).sum())
    jobs = result.training.filter(pl.col("ended_s").is_not_null()).group_by("workflow").last()
    return Outcome(
        computing=float((gpu["used"] * gpu["length_s"]).sum()) / whole,
        held=float((gpu["requested"] * gpu["length_s"]).sum()) / whole,
        step_s=dict(jobs.select("workflow", "step_s").rows()),
        reduce_s=dict(jobs.select("workflow", "reduce_s").rows()),
        completion_s=dict(
            result.workflows.drop_nulls("completion_s").select("workflow", "completion_s").rows()
        ),
        service_s=dict(
            result.tasks.filter((pl.col("family") == "streaming") & (pl.col("status") == "done"))
            .select("workflow", "actual_s")
            .rows()
        ),
    )


def lower(times_s: dict[str, float], base_s: dict[str, float]) -> float:
    """By how much the geometric mean over jobs that both ran is lower than the base, per cent."""
    logarithms = [math.log(times_s[job] / base_s[job]) for job in times_s.keys() & base_s.keys()]
    return 100.0 * (1.0 - math.exp(float(np.mean(sorted(logarithms)))))


def rows_of(runs: dict[str, list[Outcome]]) -> list[Row]:
    """Rows of all variants over the seeds."""
    rows: list[Row] = []

    def add(name: str, what: str, samples: Sequence[float]) -> None:
        rows.append(Row.of(median_ci95(samples), name=f"training-gpus/{name}", what=what, unit="%"))

    for variant in VARIANTS:
        mine, name = runs[variant.name], variant.name
        add(f"{name}-computing", f"{variant.what}: GPUs that compute", [100 * one.computing for one in mine])
        add(f"{name}-held", f"{variant.what}: GPUs that are held", [100 * one.held for one in mine])
        for against, peer in ((BASELINE, "as it comes"), (AFFINITY, "with affinity")):
            if name in (BASELINE, against) or (against == AFFINITY and name != "gangs"):
                continue
            over = "" if against == BASELINE else f"-over-{against}"
            for key, what in COMPARED.items():
                times = [
                    (getattr(one, key), getattr(other, key))
                    for one, other in zip(mine, runs[against], strict=True)
                ]
                add(
                    f"{name}-{what[0]}{over}",
                    f"{variant.what}: {what[1]}, lower than under kube-scheduler {peer}",
                    [lower(one, other) for one, other in times],
                )
    return rows


def bounds() -> list[Row]:
    """What the machines and the load allow at most, whoever decides."""
    fabric = cluster().fabric
    near_s, across_s = (
        ring_time_s(1e9, 4, link.bytes_per_s, link.latency_s)
        for link in (fabric.same_root_complex, fabric.same_node)
    )
    held = computed = 0.0
    for submission in workload().submissions:
        tasks = submission.workflow.tasks
        gpus, job = sum(task.shape.gpu.count for task in tasks if task.shape.gpu), tasks[0].work.training
        if job is not None:
            narrowest = next(distance for most, distance in ROOM if gpus <= most)
            link = fabric.link(narrowest)
            reduce_s = ring_time_s(job.gradient_bytes, gpus, link.bytes_per_s, link.latency_s)
            held += gpus * job.steps * overlapped_time_s(job.compute_s, reduce_s, job.overlap)
            computed += gpus * job.steps * job.compute_s
    return [
        Row.exact(
            100.0 * computed / held,
            name="training-gpus/bound-computing",
            what="GPUs of gangs: compute, of those held, each gang as near as it can be, nothing beside it",
            unit="%",
        ),
        Row.exact(
            100.0 * (1.0 - near_s / across_s),
            name="training-gpus/bound-root-complex",
            what="one all-reduce of four GPUs in a root complex, lower than across two, nothing beside it",
            unit="%",
        ),
    ]


def run(*, quick: bool) -> list[Row]:
    """Measure; `quick` takes one seed of the first thirty submissions."""
    load = workload()
    if quick:
        load = Workload(load.name, load.submissions[:30], arrivals=load.arrivals)
    seeds = SEEDS[:1] if quick else SEEDS
    runs = {variant.name: [simulate(load, variant, seed) for seed in seeds] for variant in VARIANTS}
    return [*bounds(), *rows_of(runs)]
