"""Which tasks will be blocked: our network beside an LSTM, and what its position encoding is worth.

What "blocked" means is in `stowplan.learn.blocked`. Runs of drawn scenarios of the training
families teach; runs of scenarios of three other families (nf-core, epigenomics, bwa), on clusters of their
own, test ("unseen"), and so do other scenarios of the training families ("seen"). Every variant has the same
data, batches, optimiser and number of steps, and as many parameters to within a per cent (but for the
logistic regression, a line for how far one weight for each number goes). Five seeds each of first weights and
batches; an interval holds what seeds and test workflows do together.

A row is one group of a cycle. Runs and fits are kept in the cache under what they depend on, so that a
measurement that was broken off goes on where it stopped. Needs PyTorch (the extra `learn`) and WfInstances
(STOWPLAN_DATA); ten to fifteen minutes of processor time.
"""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from bench.harness import Estimate, Row
from stowplan.core.encoder import SCHEMA, Encoder
from stowplan.core.policy.learned.sizes import NetworkShape
from stowplan.core.semantics import FrozenStatistics
from stowplan.learn.ablations.fitting import fit, foretell
from stowplan.learn.ablations.models import OURS, PEER, VARIANTS
from stowplan.learn.ablations.observations import (
    Observations,
    joined,
    load_observations,
    save_observations,
)
from stowplan.learn.ablations.scores import accuracy, auroc, drawn_again, errors
from stowplan.learn.ablations.watching import observe
from stowplan.learn.episodes import Reward
from stowplan.learn.export import sizes_of_schema
from stowplan.learn.rollouts import Job, Setup, Worker
from stowplan.learn.rules import make_rule
from stowplan.learn.scenarios import Ranges, Split
from stowplan.learn.survey import statistics_of
from testbed.cache import cache_folder, content_hash
from testbed.errors import MissingPrerequisite

DATA: Final = Path(os.environ.get("STOWPLAN_DATA", Path(__file__).parents[2] / "shared" / "data"))
RULES: Final = ("srpt-fastest", "srpt-physics", "kube-scheduler", "random")
"""As in stage 1 of the training: one for each scenario in turn."""
RANGES: Final = Ranges(
    nodes=(6, 16), workflows=(6, 20), most_tasks=600, gpu_share=0.0, load=(0.9, 1.5)
)  # smaller than those of the training, and loaded enough that tasks wait
SCENARIOS: Final = {Split.TRAINING: 48, Split.TEST: 24, Split.VALIDATION: 24}
JUDGED: Final = {"unseen": Split.TEST, "seen": Split.VALIDATION}
"""Families that nothing was taught on, and other scenarios of the families that were."""
SURVEYED: Final = 6
MOST_GROUPS: Final = 64
KEPT_CYCLES: Final = 200
SEEDS: Final = range(5)
STEPS: Final = 400
BATCH_CYCLES: Final = 16
DRAWS: Final = 300
PARTS: Final = ("core", "simulate", "learn")
"""Packages of the product on which a run and a fit depend."""

SIZES: Final = sizes_of_schema(NetworkShape())
Logits = NDArray[np.float32]


@cache
def digest() -> str:
    """What runs and fits depend on besides their names and numbers."""
    product = Path(__file__).parent.parent / "src" / "stowplan"
    files = [file for part in PARTS for file in sorted((product / part).rglob("*.py"))]
    return content_hash(file.read_bytes() for file in [*files, Path(__file__)])


def kept(name: str) -> Path:
    """Where a result is kept."""
    return cache_folder() / "blocking-risk" / digest() / name


@cache
def worker() -> Worker:
    """What draws and runs scenarios."""
    return Worker(
        Setup(
            recordings=DATA / "wfinstances",
            ranges=RANGES,
            base_seed=11,
            reward=Reward(),
            sizes=SIZES,
            most_groups=MOST_GROUPS,
        )
    )


@cache
def statistics() -> FrozenStatistics:
    """Mean and spread of the features, from scenarios of the training families that nothing else uses."""
    jobs = [
        Job(number=10_000 + number, actor=RULES[number % len(RULES)], kept_decisions=150, surveys=True)
        for number in range(SURVEYED)
    ]
    surveys = [worker().run(job, None).survey for job in jobs]
    return statistics_of([survey for survey in surveys if survey is not None])


def observed(split: Split, count: int) -> Observations:
    """Return what was seen in the first `count` scenarios of a split."""
    parts: list[Observations] = []
    for number in range(count):
        path = kept(f"{split}-{number}.npz")
        if not path.exists():
            scenario = worker().scenario(Job(number=number, split=split))
            encoder = Encoder(statistics=statistics(), off=scenario.without, most_groups=MOST_GROUPS)
            rule = make_rule(RULES[number % len(RULES)])
            save_observations(observe(scenario, rule, encoder, KEPT_CYCLES), path)
        parts.append(load_observations(path))
    return joined(parts)


def foretold(name: str, seed: int, steps: int, train: Observations, test: Observations) -> Logits:
    """Return what a variant says of the test's groups after training."""
    path = kept(f"{name}-{seed}-{steps}-{len(train.groups)}-{len(test.groups)}.npy")
    if not path.exists():
        model = fit(name, SIZES, train, seed=seed, steps=steps, batch_cycles=BATCH_CYCLES)
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(f".{os.getpid()}")
        with unfinished.open("wb") as stream:
            np.save(stream, foretell(model, test))
        unfinished.replace(path)
    return np.load(path)


class Judge:
    """Measures of all variants on the test's groups whose outcome is known."""

    def __init__(self, which: str, test: Observations, said: dict[str, list[Logits]], draws: int) -> None:
        self._which = which
        self._known = ~np.isnan(test.blocked)
        self._is_blocked = test.blocked[self._known] > 0.5
        self._workflow = test.workflow[self._known]
        self._said = {name: [logits[self._known] for logits in all_] for name, all_ in said.items()}
        self._draws = draws

    def rows(self) -> list[Row]:
        """Return the rows of all variants."""
        return [row for name in self._said for row in self._of(name)]

    def _of(self, name: str) -> list[Row]:
        said, peer, truth = self._said[name], self._said[PEER], self._is_blocked
        wrong = [errors(one, truth) for one in said]
        peer_wrong = [errors(one, truth) for one in peer]

        def fewer(seed: int, weights: NDArray[np.float64]) -> float:
            peer_errors = float(weights @ peer_wrong[seed])
            return 100.0 * (1.0 - float(weights @ wrong[seed]) / peer_errors) if peer_errors else math.nan

        rows = [
            self._row(
                f"{name}-accuracy", "accuracy", "%", name, lambda s, w: 100.0 * accuracy(said[s], truth, w)
            ),
            self._row(f"{name}-auroc", "AUROC", "1", name, lambda s, w: auroc(said[s], truth, w)),
        ]
        if name != PEER:
            rows.append(self._row(f"{name}-fewer-errors", f"fewer errors than {PEER}", "%", name, fewer))
        return rows

    def _row(
        self,
        row: str,
        what: str,
        unit: str,
        name: str,
        measure: Callable[[int, NDArray[np.float64]], float],
    ) -> Row:
        seeds = len(self._said[name])
        centre, low, high = drawn_again(
            measure,
            seeds=seeds,
            workflow=self._workflow,
            draws=self._draws,
            rng=np.random.default_rng(1),
        )
        return Row.of(
            Estimate(centre, low, high, seeds),
            name=f"blocking/{self._which}-{row}",
            what=f"tasks of {self._which} families that will be blocked, foretold by {name}: {what}",
            unit=unit,
            note="mean of the seeds; 95 % of draws of seeds and workflows",
        )


def base_rows(train: Observations, tests: Mapping[str, Observations]) -> list[Row]:
    """Return how often tasks are blocked, and how far the best single number goes."""
    rows: list[Row] = []
    for name, data in {"training": train, **tests}.items():
        known = ~np.isnan(data.blocked)
        rows.append(
            Row.exact(
                100.0 * float(data.blocked[known].mean()),
                name=f"blocking/{name}-share",
                what=f"{name}: groups of cycles whose next task is blocked",
                unit="%",
                note=f"{int(known.sum())} groups, {len(data.groups)} cycles, "
                f"{len(np.unique(data.workflow))} workflows",
            )
        )
    column, sign = best_column(train)
    for name, data in tests.items():
        known = ~np.isnan(data.blocked)
        rows.append(
            Row.exact(
                auroc(sign * data.task_features[known, column], data.blocked[known] > 0.5),
                name=f"blocking/{name}-single-auroc",
                what=f"tasks of {name} families: AUROC of the one feature that does best in training",
                unit="1",
                note=SCHEMA.task.encoded_names[column],
            )
        )
    return rows


def best_column(data: Observations) -> tuple[int, float]:
    """Return the task feature that tells blocked tasks best, and 1, or −1 when less of it means blocked."""
    known = ~np.isnan(data.blocked)
    is_blocked = data.blocked[known] > 0.5
    found = [auroc(column[known], is_blocked) for column in data.task_features.T]
    best = int(np.argmax(np.abs(np.array(found) - 0.5)))
    return best, 1.0 if found[best] >= 0.5 else -1.0


def said_by_all(
    names: Sequence[str], seeds: Sequence[int], steps: int, train: Observations, test: Observations
) -> dict[str, list[Logits]]:
    """Return what each variant says under each seed, fitted in turns so that all are as far."""
    said: dict[str, list[Logits]] = {name: [] for name in names}
    for seed in seeds:
        for name in names:
            said[name].append(foretold(name, seed, steps, train, test))
    return said


def run(*, quick: bool) -> list[Row]:
    """Measure all variants; `quick` takes few scenarios, one seed and few steps."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(mode=True)
    if not (DATA / "wfinstances").is_dir():
        raise MissingPrerequisite(f"{DATA / 'wfinstances'} is missing; set STOWPLAN_DATA")
    train = observed(Split.TRAINING, 4 if quick else SCENARIOS[Split.TRAINING])
    tests = {name: observed(split, 4 if quick else SCENARIOS[split]) for name, split in JUDGED.items()}
    names = (OURS, PEER) if quick else tuple(VARIANTS)
    said = said_by_all(
        names, SEEDS[:1] if quick else SEEDS, 20 if quick else STEPS, train, joined([*tests.values()])
    )
    rows = base_rows(train, tests)
    begin = 0
    for which, test in tests.items():
        part = slice(begin, begin + len(test.blocked))
        own = {name: [logits[part] for logits in each] for name, each in said.items()}
        rows += Judge(which, test, own, 20 if quick else DRAWS).rows()
        begin = part.stop
    return rows
