"""What is known of each kind of Spark job: its stages, their order, and samples of their task durations.

A kind is a TPC-H query at one scale. Of each stage the durations of its tasks were measured on 2 to 100
executors and sorted into waves: *fresh*, on an executor that was idle or came from another job; *first*, on
one that came from another stage of the job; *rest*, on one that stays with the stage. The recorded first
waves contain the fresh tasks, which are taken out here; a level at which nothing is left of the first wave
takes that of the next lower level, and a stage that was not measured at a level stands there with its
highest (rules of the public simulator of Decima's authors: H. Mao et al., "Learning scheduling algorithms for
data processing clusters", SIGCOMM 2019, section 6.2).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from stowplan.errors import InvalidFile
from stowplan.simulate.files import read_text
from stowplan.simulate.workloads.tpch import Query, Stage, read_queries

__all__ = ["FIRST", "FRESH", "LEVELS", "REST", "SPAN_COUNT", "STAGE_PROFILE_DTYPE", "SparkProfiles"]

LEVELS: Final = (5, 10, 20, 40, 50, 60, 80, 100)
"""Numbers of executors that durations are asked for."""
FRESH: Final = 0
FIRST: Final = 1
REST: Final = 2
SPAN_COUNT: Final = 3 * len(LEVELS)
"""Samples of a stage by wave and level: span `wave · len(LEVELS) + level`."""

_fields: list[Any] = [
    ("mean_ms", "f8"),
    ("tail_ms", "f8"),
    *((name, "i8") for name in ("tasks", "first_parent", "parents", "first_child", "children")),
    ("start", "i8", (SPAN_COUNT,)),
    ("count", "i8", (SPAN_COUNT,)),
    ("span_mean_ms", "f8", (SPAN_COUNT,)),
]
STAGE_PROFILE_DTYPE: Final = np.dtype(_fields, align=True)
"""A stage of a kind. `mean_ms` is over all its samples: what schedulers are told before it runs. `tail_ms` is
the longest path of such means from the stage to the end of the job, its own included. `parents` and
`children` are runs of `neighbours`. `start`, `count` and `span_mean_ms` tell the samples of each span (count
0: none, NaN ms)."""


@dataclass(frozen=True, slots=True)
class SparkProfiles:
    """Kinds of jobs, by scale and query; kind `scale · queries + query`.

    Attributes:
        scales: names of the scales, such as "2g".
        queries: how many queries there are of each scale.
        first_stage: (kinds + 1,) where the stages of a kind begin in `stages`.
        stages: (n,) `STAGE_PROFILE_DTYPE`.
        neighbours: numbers of parents and children within their kind.
        samples_ms: task durations.
    """

    scales: tuple[str, ...]
    queries: int
    first_stage: NDArray[np.int64]
    stages: NDArray[np.void]
    neighbours: NDArray[np.int64]
    samples_ms: NDArray[np.float64]

    @classmethod
    def load(cls, path: str | Path) -> SparkProfiles:
        """Read a collection of TPC-H stages.

        Raises:
            InvalidFile: the file is unreadable, of another form, or lacks a duration that may be needed.
        """
        return cls.of(read_queries(read_text(Path(path)), str(path)), str(path))

    @classmethod
    def of(cls, scales: Mapping[str, Mapping[str, Query]], name: str) -> SparkProfiles:
        """Prepare queries; `name` is where they come from, in messages.

        Raises:
            InvalidFile: there are none, scales differ in their queries, a query has a cycle, or a stage lacks
                a duration that may be needed.
        """
        numbers = {tuple(queries) for queries in scales.values()}
        if len(numbers) != 1 or not next(iter(numbers)):
            raise InvalidFile(
                f"{name}: has no queries, or other queries at other scales; give each scale all"
            )
        build = _Builder(name)
        for scale, queries in scales.items():
            for number, query in queries.items():
                build.add(query, f"tpch-{scale}-q{number}")
        return cls(
            tuple(scales),
            len(next(iter(numbers))),
            np.array(build.first_stage, np.int64),
            np.concatenate(build.stages),
            np.array(build.neighbours, np.int64),
            np.array(build.samples_ms, np.float64),
        )

    @property
    def kinds(self) -> int:
        """How many kinds there are."""
        return len(self.first_stage) - 1


class _Builder:
    """Collects stages of all kinds into flat tables."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.first_stage = [0]
        self.stages: list[NDArray[np.void]] = []
        self.neighbours: list[int] = []
        self.samples_ms: list[float] = []

    def add(self, query: Query, kind: str) -> None:
        """Add the stages of one kind."""
        before = np.array(query.adjacency) != 0.0
        order = _topological_order(before)
        if len(order) != len(before):
            raise InvalidFile(f"{self.name}: {kind} has stages that wait for one another; remove the cycle")
        table = np.zeros(len(before), STAGE_PROFILE_DTYPE)
        for number, row in enumerate(table):
            row["first_parent"], row["parents"] = self._run(np.flatnonzero(before[:, number]))
            row["first_child"], row["children"] = self._run(np.flatnonzero(before[number]))
            stage = query.task_durations[str(number)]
            try:
                self._measure(row, stage)
            except ValueError as error:
                raise InvalidFile(f"{self.name}: {kind} stage {number}: {error}") from None
        for number in reversed(order):
            after_ms = table["tail_ms"][before[number]]
            table["tail_ms"][number] = table["mean_ms"][number] + after_ms.max(initial=0.0)
        self.stages.append(table)
        self.first_stage.append(self.first_stage[-1] + len(table))

    def _run(self, numbers: NDArray[np.intp]) -> tuple[int, int]:
        self.neighbours.extend(numbers.tolist())
        return len(self.neighbours) - len(numbers), len(numbers)

    def _sample(self, durations_ms: list[float]) -> int:
        self.samples_ms.extend(durations_ms)
        return len(self.samples_ms) - len(durations_ms)

    def _measure(self, row: np.void, stage: Stage) -> None:
        if not stage.first_wave:
            raise ValueError("has no measured task; remove the query")
        # How many tasks a stage has differs a little between measurements; the level named first decides.
        named_first = next(iter(stage.first_wave))
        row["tasks"] = len(stage.first_wave[named_first]) + len(stage.rest_wave.get(named_first, []))
        spans: dict[int, tuple[tuple[int, list[float]], ...]] = {}
        first: list[float] = []
        every: list[float] = []
        for level in sorted(int(level) for level in stage.first_wave):
            fresh = stage.fresh_durations.get(str(level), [])
            first = _without(stage.first_wave[str(level)], fresh) or first
            rest = stage.rest_wave.get(str(level), [])
            if not (fresh or first):
                raise ValueError(f"has no task of a first wave on {level} executors; remove the query")
            spans[level] = tuple((self._sample(one), one) for one in (fresh, first, rest))
            every += [*fresh, *first, *rest]
        for number, level in enumerate(LEVELS):
            for wave, (start, one) in enumerate(spans[level if level in spans else max(spans)]):
                span = wave * len(LEVELS) + number
                row["start"][span], row["count"][span] = start, len(one)
                row["span_mean_ms"][span] = np.mean(one) if one else np.nan
        if not min(every) > 0.0:
            raise ValueError(f"has a task of {min(every)} ms; durations must be above 0")
        row["mean_ms"] = np.mean(every)


def _without(durations: list[float], taken: list[float]) -> list[float]:
    """Return `durations` less one occurrence for each in `taken`."""
    left = Counter(taken)
    kept: list[float] = []
    for duration in durations:
        if left[duration] > 0:
            left[duration] -= 1
        else:
            kept.append(duration)
    return kept


def _topological_order(before: NDArray[np.bool_]) -> list[int]:
    """Return the stages, parents first; those on a cycle and behind it are missing."""
    waits = before.sum(axis=0)
    order = np.flatnonzero(waits == 0).tolist()
    for number in order:  # grows while it is gone through
        waits[before[number]] -= 1
        order += np.flatnonzero(before[number] & (waits == 0)).tolist()
    return order
