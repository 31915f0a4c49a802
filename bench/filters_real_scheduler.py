"""Our constraints and scores against the real kube-scheduler, over a real API server, on generated clusters.

A case is one pod that waits in a cluster of 50 nodes. kube-scheduler 1.37 tells an extender of ours which
nodes passed its filters and which one it wants; the oracle is asked too, and so proved. Anything that differs
is a mismatch: our nodes as the case is written and as the API server held it, the oracle's nodes and scores,
the choice, the reasons in kube-scheduler's message.
"""

import tempfile
from pathlib import Path
from typing import Final

from bench.harness import Row
from testbed.differential.real_run import RealProgress, run_real

CASES: Final = 600
QUICK_CASES: Final = 20
SEED: Final = 2  # not the seed of the oracle's run: other clusters
SUMS: Final = Path("out") / "filters_real_scheduler.json"


def measure(path: Path, cases: int) -> RealProgress:
    """Judge the cases and return the sums."""
    path.parent.mkdir(parents=True, exist_ok=True)
    progress = RealProgress(seed=SEED, nodes=50)
    for progress in run_real(path, cases=cases, seed=SEED):
        if progress.tally.clusters % 10 == 0:
            print(f"  {progress.tally.cases:,} cases, {progress.tally.different:,} mismatches", flush=True)
    return progress


def rows_of(progress: RealProgress) -> list[Row]:
    """Return the sums as rows."""
    tally = progress.tally
    share = tally.chosen_in_our_best / max(tally.chosen, 1)
    emphases = len(progress.cases_by_emphasis)

    def row(name: str, value: float, what: str, unit: str) -> Row:
        return Row.exact(value, name=f"filters-real/{name}", what=what, unit=unit)

    return [
        row(
            "cases", tally.cases, f"pods judged, in {tally.clusters:,} clusters of {emphases} kinds", "cases"
        ),
        row("judgements", tally.judgements, "pods and nodes, in pairs", "pairs"),
        row("feasible", tally.feasible, "of these, no filter refuses", "pairs"),
        row("mismatches", tally.different, "differences of any kind", "differences"),
        row("best-share", share, f"its choice is among our best ({tally.chosen:,} cases)", "of 1"),
        row(
            "totals-share",
            tally.our_totals_equal / max(tally.scored, 1),
            f"every feasible node's total is equal ({tally.scored:,} cases)",
            "of 1",
        ),
        row("reasons", tally.worded, "cases without a node whose reasons were compared", "cases"),
        row("duration", progress.elapsed_s, "all cases, without the control plane's start", "s"),
        row("per-case", progress.seconds_per_case, "one case, with its share of the cluster's making", "s"),
    ]


def run(*, quick: bool) -> list[Row]:
    """Judge a few cases and keep no sums, or all of them."""
    if not quick:
        return rows_of(measure(SUMS, CASES))
    with tempfile.TemporaryDirectory() as folder:
        return rows_of(measure(Path(folder) / "sums.json", QUICK_CASES))
