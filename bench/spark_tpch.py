"""Spark jobs on a fixed set of executors: mean completion time under known rules and shares by size.

TPC-H queries of seven sizes in a Poisson stream of 25 s, moving delay 2 s, job sequences of seeds 0 to 9; on
50 executors (200 jobs) and on 10 (50 jobs). The numbers of the peer are those of a public simulator of this
benchmark (spark-sched-sim, MIT) under its pretrained model of Decima (H. Mao et al., "Learning scheduling
algorithms for data processing clusters", SIGCOMM 2019), as its commit 2ba8d80 gives them: the same seeds and
arrivals, one run each, in which Decima draws its actions. Under its fair scheduler both simulators agree.

Ours knows what Decima knows: the DAG, tasks left and mean durations of stages, and where executors are. Its
parameters were learned on the job sequences of other seeds (`stowplan.simulate.spark.shares`); two settings
that nothing was learned on show what that is worth elsewhere. The bound takes tasks to be as long as they
turned out under ours; no schedule of them is below it.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean

from bench.harness import Row, median_ci95
from stowplan.simulate.spark import (
    OVERLOADED,
    STREAMING,
    SparkProfiles,
    SparkResult,
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
DECIMA_S = {
    "50x200": (59.78, 39.59, 50.74, 56.13, 66.32, 49.41, 58.67, 56.65, 56.75, 42.58),
    "10x50": (592.9, 598.9, 524.2, 903.6, 878.0, 712.8, 414.6, 505.0, 456.3, 602.8),
}
UNSEEN = {
    "50x200-every-20": replace(STREAMING, mean_gap_s=20.0),
    "25x100-every-40": SparkSetting(executors=25, jobs=100, mean_gap_s=40.0),
}


def described(setting: SparkSetting, seeds: Sequence[int]) -> str:
    """Say what is measured on."""
    stream = f"TPC-H stream of {setting.mean_gap_s:.0f} s"
    return f"{stream}, {setting.executors} executors, {setting.jobs} jobs, {len(seeds)} seeds"


def compared(
    results: Sequence[SparkResult], peer: str, peer_s: Sequence[float], *, name: str, what: str
) -> Row:
    """Make the row of one rule beside another on the same seeds: means, and the median ratio of the pairs."""
    ours_s = [one.mean_completion_s for one in results]
    ratio = median_ci95([theirs / ours for theirs, ours in zip(peer_s, ours_s, strict=True)])
    exact = Row.exact(mean(ours_s), name=name, what=what, unit="s", note="means over the seeds")
    return replace(
        exact,
        peer=peer,
        peer_median=mean(peer_s),
        ratio=ratio.median,
        ratio_ci95=(ratio.low, ratio.high),
    )


def rows_of(profiles: SparkProfiles, slug: str, seeds: Sequence[int]) -> list[Row]:
    """Play the episodes of a published setting under each rule."""
    setting = SETTINGS[slug]
    of = described(setting, seeds)
    results = {
        rule.name: [run_episode(profiles, setting, rule, seed) for seed in seeds]
        for rule in (fair(), weighted_fair(), srpt(), size_shares())
    }
    fair_s = mean(one.mean_completion_s for one in results["fair"])
    decima_s = [DECIMA_S[slug][seed] for seed in seeds]
    rows = [
        compared(
            those,
            "pretrained Decima",
            decima_s,
            name=f"spark/{slug}-{name}",
            what=f"{of}: mean completion under {name}",
        )
        for name, those in results.items()
    ]
    bounds_s = [mean_completion_bound_s(profiles, setting, one) for one in results["size-shares"]]
    return [
        *rows,
        Row.exact(
            100 * abs(fair_s / FAIR_S[slug] - 1),
            name=f"spark/{slug}-fair-off",
            what=f"{of}: mean completion under fair, distance from the published",
            unit="%",
            note=f"published, ten seeds: {FAIR_S[slug]} s",
        ),
        Row.exact(
            mean(bounds_s),
            name=f"spark/{slug}-bound",
            what=f"{of}: lower bound of the mean completion of these tasks",
            unit="s",
            note="one machine as fast as all executors, shortest remaining first; or each job alone",
        ),
    ]


def unseen_row(profiles: SparkProfiles, slug: str, seeds: Sequence[int]) -> Row:
    """Play the episodes of a setting that nothing was learned on."""
    setting = UNSEEN[slug]
    fair_s = [run_episode(profiles, setting, fair(), seed).mean_completion_s for seed in seeds]
    return compared(
        [run_episode(profiles, setting, size_shares(), seed) for seed in seeds],
        "fair",
        fair_s,
        name=f"spark/{slug}-size-shares",
        what=f"{described(setting, seeds)}: mean completion under size-shares",
    )


def run(*, quick: bool) -> list[Row]:
    """Play all settings; `quick` plays two seeds of the smallest."""
    profiles = SparkProfiles.load(DATA / "tpch" / "tpch_stages.json.gz")
    if quick:
        return rows_of(profiles, "10x50", SEEDS[:2])
    published = [row for slug in SETTINGS for row in rows_of(profiles, slug, SEEDS)]
    return published + [unseen_row(profiles, slug, SEEDS) for slug in UNSEEN]
