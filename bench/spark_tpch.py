"""Spark jobs on a fixed set of executors: mean completion time under known rules and shares by size.

TPC-H queries of seven sizes in a Poisson stream of 25 s, moving delay 2 s, job sequences of ten seeds; on 50
executors (200 jobs) and on 10 (50 jobs). The published numbers are of a public simulator of this benchmark
(spark-sched-sim, MIT) with its fair scheduler and its pretrained model of Decima (H. Mao et al., "Learning
scheduling algorithms for data processing clusters", SIGCOMM 2019): same seeds, same arrivals. Decima draws
its actions, so its number is of one draw.

Ours knows what Decima knows: the DAG, tasks left and mean durations of stages, and where executors are. Its
parameters were learned on other job sequences than these (`stowplan.simulate.spark.shares`). The bound takes
the tasks as long as they turned out to be under ours; it is not reached by any schedule.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from statistics import mean

from bench.harness import Row, median_ci95
from stowplan.simulate.spark import (
    OVERLOADED,
    STREAMING,
    SparkProfiles,
    SparkSetting,
    fair,
    run_episode,
    size_shares,
    srpt,
    weighted_fair,
)
from stowplan.simulate.spark.bounds import mean_completion_bound_s

DATA = Path(os.environ.get("STOWPLAN_DATA", Path(__file__).parent.parent.parent / "shared" / "data"))
SEEDS = range(10)
SETTINGS = {"50x200": STREAMING, "10x50": OVERLOADED}
FAIR_S = {"50x200": 60.30, "10x50": 981.6}
DECIMA_S = {"50x200": 53.66, "10x50": 618.9}


def rows_of(profiles: SparkProfiles, slug: str, setting: SparkSetting, seeds: Sequence[int]) -> list[Row]:
    """Play the episodes of one setting under each rule."""
    of = f"TPC-H stream, {setting.executors} executors, {setting.jobs} jobs, {len(seeds)} seeds"
    rules = (fair(), weighted_fair(), srpt(), size_shares())
    results = {rule.name: [run_episode(profiles, setting, rule, seed) for seed in seeds] for rule in rules}
    by_seed = {name: [one.mean_completion_s for one in those] for name, those in results.items()}
    fair_s = mean(by_seed["fair"])
    rows = [
        Row.exact(
            100 * abs(fair_s / FAIR_S[slug] - 1),
            name=f"spark/{slug}-fair-off",
            what=f"{of}: mean completion under fair, distance from the published",
            unit="%",
            note=f"published: {FAIR_S[slug]} s",
        )
    ]
    for name, those_s in by_seed.items():
        ratio = median_ci95([fair / ours for fair, ours in zip(by_seed["fair"], those_s, strict=True)])
        rows.append(
            Row(
                name=f"spark/{slug}-{name}",
                what=f"{of}: mean completion under {name}",
                unit="s",
                median=mean(those_s),
                ci95_low=min(those_s),
                ci95_high=max(those_s),
                samples=len(those_s),
                peer="" if name == "fair" else "fair",
                peer_median=None if name == "fair" else fair_s,
                ratio=None if name == "fair" else ratio.median,
                ratio_ci95=None if name == "fair" else (ratio.low, ratio.high),
                note=f"mean and range over seeds; pretrained Decima: {DECIMA_S[slug]} s",
            )
        )
    ours = results["size-shares"]
    rows += [
        Row.exact(
            100 * (1 - mean(by_seed["size-shares"]) / DECIMA_S[slug]),
            name=f"spark/{slug}-below-decima",
            what=f"{of}: mean completion under size-shares, below pretrained Decima",
            unit="%",
        ),
        Row.exact(
            mean(mean_completion_bound_s(profiles, setting, one) for one in ours),
            name=f"spark/{slug}-bound",
            what=f"{of}: lower bound of the mean completion of these tasks",
            unit="s",
            note="one machine as fast as all executors, shortest remaining first; or each job alone",
        ),
    ]
    return rows


def run(*, quick: bool) -> list[Row]:
    """Play both settings; `quick` plays two seeds of the smaller."""
    profiles = SparkProfiles.load(DATA / "tpch" / "tpch_stages.json.gz")
    if quick:
        return rows_of(profiles, "10x50", OVERLOADED, SEEDS[:2])
    return [row for slug, setting in SETTINGS.items() for row in rows_of(profiles, slug, setting, SEEDS)]
