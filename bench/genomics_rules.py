"""Genomics workflows on a cluster that breathes and on one that does not: rules beside kube-scheduler.

Load and clusters are in `genomics/`: 128 recorded workflows of three families arrive as a Poisson stream at
32 machines of 256 cores. On the *breathing* cluster machines differ, tenants that nobody scheduled come and
go, disks and memory drift; on the *clean* one nothing is hidden and all machines are equal, so that only
order and packing are left to gain. Ten seeds; under one seed every policy meets the same arrivals and the
same drift.

Completion is from submission to the last task's end; its mean and its 95th percentile (linear between order
statistics) over the 128 workflows of a seed are compared with kube-scheduler's of the same seed. The bounds
are proven per seed, by `genomics/bounds.py`. The load is the share of allocatable cores that placed pods
request under kube-scheduler, as a mean over the time in which workflows arrive.

A run takes one to two minutes of processor time. Each is kept in the cache under what it depends on, so that
a measurement that was broken off goes on where it stopped.
"""

import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from time import process_time

import msgspec
import numpy as np

from bench.genomics.bounds import Bounds, LowerBounds
from bench.genomics.scenario import LOAD, cluster, workload
from bench.harness import Row, median_ci95
from stowplan.core.policy import make_policy
from stowplan.simulate.results import RunResult
from stowplan.simulate.simulator import Simulation
from testbed.cache import cache_folder, content_hash

CLUSTERS = ("breathing", "clean")
PEER = "kube-scheduler"
POLICIES = (PEER, "srpt", "srpt-physics", "srpt-measured", "look-ahead")
SEEDS = range(10)
PARTS = ("core", "simulate")
"""Packages of the product on which a run depends."""


class Outcome(msgspec.Struct, frozen=True):
    """What is kept of a run.

    Attributes:
        completion_s: of each workflow, in order of arrival.
        requested_share: of allocatable cores, by placed pods, mean up to the last arrival.
        wanted_share: the same by all pods that were ready, placed or not.
        cpu_s: processor time that the run took.
    """

    completion_s: list[float]
    requested_share: float
    wanted_share: float
    cpu_s: float

    @property
    def mean_s(self) -> float:
        """Mean completion."""
        return float(np.mean(self.completion_s))

    @property
    def p95_s(self) -> float:
        """95th percentile of completion."""
        return float(np.percentile(self.completion_s, 95))


@cache
def digest() -> str:
    """What the outcome of a run depends on besides cluster, policy and seed."""
    root = Path(__file__).parent
    product = root.parent / "src" / "stowplan"
    files = [file for part in PARTS for file in sorted((product / part).rglob("*.py"))]
    scenario = [*sorted((root / "genomics").glob("*.yaml")), root / "genomics" / "scenario.py"]
    return content_hash(file.read_bytes() for file in [*files, *scenario])


def outcome(name: str, policy: str, seed: int) -> Outcome:
    """Run `policy` on a cluster under one seed, or take what was kept of that run."""
    file = cache_folder() / "genomics-rules" / digest() / f"{name}-{policy}-{seed}.json"
    if file.exists():
        return msgspec.json.decode(file.read_bytes(), type=Outcome)
    begun_s = process_time()
    simulation = Simulation(cluster(name), workload(), make_policy(policy), seed=seed)
    result = simulation.run()
    if result.is_partial or set(result.workflows["status"]) != {"done"}:
        raise RuntimeError(f"{policy} on {name}, seed {seed}: not every workflow came to its end")
    cores = simulation.cluster.cores
    found = Outcome(
        result.workflows["completion_s"].to_list(),
        _core_seconds(result, "placed_s") / cores,
        _core_seconds(result, "ready_s") / cores,
        process_time() - begun_s,
    )
    file.parent.mkdir(parents=True, exist_ok=True)
    waiting = file.with_suffix(f".{os.getpid()}")
    waiting.write_bytes(msgspec.json.encode(found))
    waiting.replace(file)
    return found


def _core_seconds(result: RunResult, since: str) -> float:
    """Cores requested from `since` on until a task's end, as a mean up to the last arrival."""
    until_s = float(result.workflows["submitted_s"].to_numpy().max())
    tasks = result.tasks
    begin_s = np.minimum(tasks[since].to_numpy(), until_s)
    end_s = np.minimum(tasks["finished_s"].to_numpy(), until_s)
    return float(((end_s - begin_s) * tasks["cpu_request_cores"].to_numpy()).sum()) / until_s


def arrivals_s(name: str, seed: int) -> list[float]:
    """When each workflow arrives under a seed, whatever the policy."""
    submissions = Simulation(cluster(name), workload(), PEER, seed=seed).workload.submissions
    return [submission.time_s for submission in submissions]


def compared(name: str, policy: str, seeds: Sequence[int], lowest: Sequence[Bounds]) -> list[Row]:
    """Return mean and 95th percentile of completion under a policy, beside kube-scheduler's by seed."""
    ours = [outcome(name, policy, seed) for seed in seeds]
    peer = [outcome(name, PEER, seed) for seed in seeds]
    rows: list[Row] = []
    for kind, what in (("mean", "mean completion"), ("p95", "95th percentile of completion")):
        own_s, peer_s, low_s = (
            [getattr(each, f"{kind}_s") for each in side] for side in (ours, peer, lowest)
        )
        spread = median_ci95(own_s)
        ratio = median_ci95([p / o for p, o in zip(peer_s, own_s, strict=True)])
        above = median_ci95([o / low for o, low in zip(own_s, low_s, strict=True)])
        rows.append(
            Row(
                name=f"genomics/{name}-{policy}-{kind}",
                what=f"128 genomics workflows, {name} cluster: {what} under {policy}",
                unit="s",
                median=spread.median,
                ci95_low=spread.low,
                ci95_high=spread.high,
                samples=spread.samples,
                peer="" if policy == PEER else PEER,
                peer_median=None if policy == PEER else median_ci95(peer_s).median,
                ratio=None if policy == PEER else ratio.median,
                ratio_ci95=None if policy == PEER else (ratio.low, ratio.high),
                note=f"{above.median:.2f} times the bound",
            )
        )
    return rows


def load_row(name: str, seeds: Sequence[int]) -> Row:
    """Return how much of the cluster is requested under kube-scheduler while workflows arrive."""
    runs = [outcome(name, PEER, seed) for seed in seeds]
    wanted = median_ci95([100 * run.wanted_share for run in runs])
    return Row.of(
        median_ci95([100 * run.requested_share for run in runs]),
        name=f"genomics/{name}-load",
        what=f"128 genomics workflows, {name} cluster: allocatable cores requested under {PEER}",
        unit="%",
        note=f"aim on breathing: {100 * LOAD:.0f} %; with the pods that wait: {wanted.median:.0f} %",
    )


def run(*, quick: bool) -> list[Row]:
    """Measure every policy on both clusters; `quick` takes one seed."""
    seeds = SEEDS[:1] if quick else SEEDS
    rows: list[Row] = []
    for name in CLUSTERS:
        lower = LowerBounds(cluster(name), workload())
        lowest = [lower.of(arrivals_s(name, seed)) for seed in seeds]
        rows.append(load_row(name, seeds))
        for kind, what in (("mean", "mean completion"), ("p95", "95th percentile of completion")):
            rows.append(
                Row.of(
                    median_ci95([getattr(each, f"{kind}_s") for each in lowest]),
                    name=f"genomics/{name}-bound-{kind}",
                    what=f"128 genomics workflows, {name} cluster: lower bound of the {what}",
                    unit="s",
                )
            )
        for policy in POLICIES:
            rows += compared(name, policy, seeds, lowest)
    return rows
