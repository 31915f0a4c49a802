"""How far our constraints and scores agree with kube-scheduler's own, node for node, on generated clusters.

A case is one pod that waits in a cluster of 50 nodes; the same objects are judged by our core and by a
program that links the plugins of kube-scheduler 1.37.2. A filter is decisive in a case when it alone keeps
the pod from some node. NodeName cannot be: a pod that names its node is bound, there and here. A run that is
stopped goes on from its tally in `out/`.
"""

import tempfile
from pathlib import Path
from typing import Final

from bench.harness import Row
from testbed.differential.run import DECIDABLE, Progress
from testbed.differential.run import run as judge

CASES: Final = 100_000
SEED: Final = 1
TALLY: Final = Path("out") / "filters_differential.json"


def measure(path: Path, cases: int, processes: int) -> Progress:
    """Judge the cases and return the sums."""
    path.parent.mkdir(parents=True, exist_ok=True)
    progress = Progress(seed=SEED, nodes=50)
    for progress in judge(path, cases=cases, seed=SEED, processes=processes):
        if len(progress.done) % 100 == 0:
            print(f"  {progress.tally.cases:,} cases, {progress.tally.different:,} mismatches", flush=True)
    return progress


def rows_of(progress: Progress) -> list[Row]:
    """Return the sums as rows."""
    tally = progress.tally
    decisive = {name: tally.decisive_cases.get(name, 0) for name in DECIDABLE}
    least = min(decisive, key=lambda name: decisive[name])
    share = tally.best_within / tally.scored if tally.scored else 0.0

    def row(name: str, value: float, what: str, unit: str, note: str = "") -> Row:
        return Row.exact(value, name=f"filters/{name}", what=what, unit=unit, note=note)

    return [
        row("cases", tally.cases, f"pods judged, in {tally.clusters:,} clusters", "cases"),
        row("judgements", tally.judgements, "pods and nodes, in pairs", "pairs"),
        row("feasible", tally.feasible, "of these, no filter refuses", "pairs"),
        row("mismatches", tally.different, "differences of any kind", "differences"),
        row(
            "best-share", share, f"kube-scheduler's choice is among our best ({tally.scored:,} cases)", "of 1"
        ),
        row("totals-share", tally.totals_equal / max(tally.scored, 1), "every node's total is equal", "of 1"),
        row("decisive-least", decisive[least], "the filter that decides least often", "cases", least),
        *(
            row(f"decisive-{name}", count, f"{name} alone keeps a pod from a node", "cases")
            for name, count in decisive.items()
        ),
    ]


def run(*, quick: bool) -> list[Row]:
    """Judge a few cases and keep no tally, or all of them with two processes."""
    if not quick:
        return rows_of(measure(TALLY, CASES, 2))
    with tempfile.TemporaryDirectory() as folder:
        return rows_of(measure(Path(folder) / "tally.json", 300, 1))
