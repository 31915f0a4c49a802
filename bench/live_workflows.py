"""Real workflows on real nodes: kube-scheduler against Stowplan.

Twenty recorded executions of five families (WfInstances), converted to Argo workflows with real loads
(`testbed/argo/converted.py`), submitted at once to two unequal real nodes that can take a small part of them:
what waits has to be ordered. The batch runs under kube-scheduler and under Stowplan (binder mode) in turns,
on one bed, who begins changing from pair to pair. Nothing differs but `schedulerName` and which of the two
schedulers runs; Argo's waits are shortened and its rates raised for both alike, see
`testbed/argo/controller.py`.

Stowplan learns durations from its own runs only. Its first run knows nothing and is a row of its own, with
the run of kube-scheduler beside it; the second predicts from the first, and every later one is paired.

`python -m bench.live_workflows [--policy NAME] [--pairs N] [--small]` measures one policy and keeps nothing
in `results/`. Either way a run that is stopped goes on from what is in `out/`.
"""

import argparse
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from bench.__main__ import show
from bench.harness import Estimate, Paired, Row, compare, median_ci95
from bench.live.trials import KUBE_SCHEDULER, STOWPLAN, Bed, Trial, kube_scheduler, stowplan, with_history
from stowplan.errors import StowplanError
from stowplan.simulate.files import read_text
from stowplan.simulate.statistics import paired_change, percentile
from testbed import cluster
from testbed.argo.converted import Scale, convert
from testbed.cache import content_hash
from testbed.errors import BedError
from testbed.images import image_name
from testbed.spec import GIB, ClusterSpec, Json, RealNode

DATA: Final = Path(os.environ.get("STOWPLAN_DATA", Path(__file__).parent.parent.parent / "shared" / "data"))
OUT: Final = Path("out") / "live_workflows"
POLICY: Final = "srpt"
PAIRS: Final = 5
NODES: Final = (0.8, 0.4)  # cores; with the disk in proportion
DISK_BYTES_PER_S: Final = 20 << 20

BATCH: Final[tuple[tuple[str, int], ...]] = (
    ("nfcore/bacass-dirt02-001", 11),
    ("srasearch/srasearch-chameleon-10a-001", 2),
    ("srasearch/srasearch-chameleon-10a-002", 2),
    ("srasearch/srasearch-chameleon-10a-003", 2),
    ("nfcore/methylseq-dirt02-001", 1),
    ("epigenomics/epigenomics-chameleon-hep-1seq-100k-001", 1),
    ("nfcore/fetchngs-dirt02-001", 1),
)
"""Recordings and how often each is submitted: 20 workflows, 373 tasks."""
SMALL: Final[tuple[tuple[str, int], ...]] = (
    ("nfcore/bacass-dirt02-001", 3),
    ("nfcore/methylseq-dirt02-001", 1),
)


def spec() -> ClusterSpec:
    """Two nodes of which one is twice the other, and Argo; schedulers come and go."""
    return ClusterSpec(
        real_nodes=tuple(
            RealNode(
                cpus=cpus,
                memory_bytes=4 * GIB,
                disk_read_bytes_per_s=round(DISK_BYTES_PER_S * cpus / NODES[0]),
                disk_write_bytes_per_s=round(DISK_BYTES_PER_S * cpus / NODES[0]),
            )
            for cpus in NODES
        ),
        scheduler=None,
        argo=True,
        images=("pause", "busybox", "load", "argoexec"),
    )


def read_batch(chosen: Sequence[tuple[str, int]], scale: Scale) -> dict[str, Json]:
    """The workflows by instance, in the order in which they are submitted: the families mixed."""
    waiting = [[path] * copies for path, copies in chosen]
    order = [paths.pop() for _ in range(max(map(len, waiting))) for paths in waiting if paths]
    return {
        f"{number:02}": convert(
            read_text(DATA / "wfinstances" / f"{path}.json.gz"), short_name(path), scale, image_name("load")
        )
        for number, path in enumerate(order)
    }


def short_name(path: str) -> str:
    """What the names of a recording's workflows begin with."""
    return path.rpartition("/")[2].replace("-chameleon", "").replace("-dirt02", "").replace("-100k", "")


@dataclass(frozen=True)
class Book:
    """The trials of one setting that are over, kept as they come."""

    folder: Path

    def trial(self, name: str, run: Callable[[], Trial]) -> Trial:
        """The trial of that name, run now if it is not kept."""
        file = self.folder / f"{name}.json"
        if not file.exists():
            trial = run()
            part = file.with_suffix(".part")
            part.write_bytes(msgspec.json.encode(trial))
            part.rename(file)
        return msgspec.json.decode(file.read_bytes(), type=Trial)


def measure(
    policy: str, pairs: int, chosen: Sequence[tuple[str, int]], out: Path
) -> tuple[list[Trial], list[Trial]]:
    """Run the cold pair and as many warm ones; returns the trials of kube-scheduler's and of Stowplan's.

    Raises:
        MissingPrerequisite: Not root, or something else that a test cluster needs is not there.
        ComponentFailed: A workflow did not succeed, or what a trial must hold does not hold.
    """
    workflows = read_batch(chosen, Scale())
    settings = msgspec.json.encode([policy, workflows, NODES, DISK_BYTES_PER_S])
    book = Book(out / f"{policy}-{content_hash([settings])}")
    book.folder.mkdir(parents=True, exist_ok=True)
    url = f"sqlite:///{(book.folder / 'history.sqlite').resolve()}"
    config = {
        "scheduler": {"policy": policy},
        "history": {"url": url, "refit_s": 5.0},
        "lease": {"enable": False},
    }
    running = cluster.start(spec(), owned=True)
    try:
        bed = Bed(running, tell=lambda text: print(f"  {text}", flush=True))

        def theirs(pair: int) -> Trial:
            name = f"{KUBE_SCHEDULER}-{pair}"
            return book.trial(name, lambda: bed.run(KUBE_SCHEDULER, name, workflows, kube_scheduler(running)))

        def ours(pair: int) -> Trial:
            name = f"{STOWPLAN}-{pair}"
            return book.trial(
                name,
                lambda: with_history(bed.run(STOWPLAN, name, workflows, stowplan(running, config)), url),
            )

        both: dict[str, list[Trial]] = {KUBE_SCHEDULER: [], STOWPLAN: []}
        for pair in range(pairs + 1):
            turns = [theirs, ours] if pair % 2 == 0 else [ours, theirs]
            for turn in turns:
                trial = turn(pair)
                both[trial.scheduler].append(trial)
                print(
                    f"  {trial.scheduler} {pair}: mean {trial.mean_completion_s:.1f} s, "
                    f"makespan {trial.makespan_s:.1f} s",
                    flush=True,
                )
    finally:
        running.down()
    return both[KUBE_SCHEDULER], both[STOWPLAN]


def rows_of(theirs: Sequence[Trial], ours: Sequence[Trial], policy: str) -> list[Row]:
    """Return the rows of a measurement, whose first pair is the cold one."""
    size = f"{len(ours[0].workflows)} workflows, {len(ours[0].pods)} pods on {len(NODES)} nodes, {policy}"
    figures: dict[str, tuple[str, Callable[[Trial], float]]] = {
        "completion": ("mean completion of the workflows", lambda trial: trial.mean_completion_s),
        "makespan": ("until the last workflow ended", lambda trial: trial.makespan_s),
        "completion-p95": (
            "95th percentile of completion",
            lambda trial: percentile(np.array(list(trial.completions_s.values())), 0.95),
        ),
    }
    what, of = figures["completion"]
    return [
        _versus("cold", f"{what}, nothing known of durations: {size}", theirs[:1], ours[:1], of),
        *(_versus(name, f"{what}: {size}", theirs[1:], ours[1:], of) for name, (what, of) in figures.items()),
        _gain("completion-gain", "mean completion is lower by, of kube-scheduler's", theirs[1:], ours[1:]),
        *(
            _gain(f"completion-gain-{family}", f"the same, of the workflows {family} alone", *chosen)
            for family, chosen in _families(theirs[1:], ours[1:]).items()
        ),
        *_proofs(ours),
    ]


def _versus(
    name: str, what: str, theirs: Sequence[Trial], ours: Sequence[Trial], of: Callable[[Trial], float]
) -> Row:
    paired = Paired(tuple(map(of, ours)), tuple(map(of, theirs)))
    return replace(compare(paired, name=f"live/{name}", what=what, peer=KUBE_SCHEDULER), samples=len(ours))


def _gain(name: str, what: str, theirs: Sequence[Trial], ours: Sequence[Trial]) -> Row:
    change = paired_change(
        [trial.mean_completion_s for trial in ours], [trial.mean_completion_s for trial in theirs]
    )
    low, high = (change.low, change.high) if change.is_bounded else (change.estimate, change.estimate)
    return Row.of(
        Estimate(-change.estimate, -high, -low, change.samples),
        name=f"live/{name}",
        what=what,
        unit="%",
        note="geometric mean over pairs, Student's 95 % interval",
    )


def _families(theirs: Sequence[Trial], ours: Sequence[Trial]) -> dict[str, tuple[list[Trial], list[Trial]]]:
    """The trials with the workflows of one family only, by family."""
    families = sorted({_family(workflow.name) for trial in ours for workflow in trial.workflows})

    def only(trial: Trial, family: str) -> Trial:
        kept = tuple(each for each in trial.workflows if _family(each.name) == family)
        return replace(trial, workflows=kept)

    return {
        family: ([only(trial, family) for trial in theirs], [only(trial, family) for trial in ours])
        for family in families
    }


def _family(name: str) -> str:
    return name.partition("-")[0]


def _proofs(ours: Sequence[Trial]) -> list[Row]:
    """What must hold of every trial of ours, beside its speed: the checks of a trial have passed before."""
    pods = sum(len(trial.pods) for trial in ours)
    second = ours[1]
    errors = [100.0 * each.error for each in second.foretold]
    known = sum(each.source in ("item", "class") for each in second.foretold)

    def share(name: str, what: str, part: int, whole: int) -> Row:
        return Row.exact(
            part / whole, name=f"live/{name}", what=what, unit="of 1", note=f"{part:,} of {whole:,}"
        )

    return [
        share("succeeded", "workflows that succeeded", *_counts(ours)),
        share("bound", "pods that Stowplan bound", sum(trial.bound for trial in ours), pods),
        share("explained", "pods whose node it explains", sum(trial.explained for trial in ours), pods),
        share("recorded", "pods in the history, to their end", sum(trial.recorded for trial in ours), pods),
        Row.of(
            median_ci95(errors),
            name="live/prediction-error",
            what="second run: expected against real duration, median over pods",
            unit="%",
        ),
        share("prediction-known", "of these, expected from runs of the same class", known, len(errors)),
    ]


def _counts(ours: Sequence[Trial]) -> tuple[int, int]:
    workflows = [workflow for trial in ours for workflow in trial.workflows]
    return sum(workflow.phase == "Succeeded" for workflow in workflows), len(workflows)


def run(*, quick: bool) -> list[Row]:
    """Measure with the policy that holds the limits, or once with a few workflows, kept nowhere.

    Raises:
        MissingPrerequisite: Not root, or something else that a test cluster needs is not there.
        ComponentFailed: A workflow did not succeed.
    """
    if not quick:
        return rows_of(*measure(POLICY, PAIRS, BATCH, OUT), POLICY)
    with tempfile.TemporaryDirectory() as scratch:
        return rows_of(*measure(POLICY, 1, SMALL, Path(scratch)), POLICY)


def main() -> None:
    """Measure what the command line asks for, and print it."""
    parser = argparse.ArgumentParser(prog="python -m bench.live_workflows")
    parser.add_argument("--policy", default=POLICY, help="see stowplan policies")
    parser.add_argument("--pairs", type=int, default=PAIRS, help="pairs beside the cold one")
    parser.add_argument("--small", action="store_true", help="a few workflows")
    options = parser.parse_args()
    chosen = SMALL if options.small else BATCH
    try:
        rows = rows_of(*measure(options.policy, options.pairs, chosen, OUT), options.policy)
    except (BedError, StowplanError) as error:
        raise SystemExit(f"not measured: {error}") from error
    show(rows)


if __name__ == "__main__":
    main()
