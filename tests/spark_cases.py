"""Small Spark jobs for the tests of the Spark simulator, and a policy that answers at random."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from stowplan.simulate.spark.decision import LEAVE, Answer, Decision
from stowplan.simulate.spark.profiles import SparkProfiles
from stowplan.simulate.spark.setting import JobSequence, SparkSetting
from stowplan.simulate.workloads.tpch import Query, Stage

LEVELS = ("5", "10", "20")


def stage(
    first: Sequence[float],
    rest: Sequence[float] = (),
    fresh: Sequence[float] = (),
    levels: Sequence[str] = ("5",),
) -> Stage:
    """A stage that was measured alike at each level; as recorded, its first wave contains the fresh tasks."""
    return Stage(
        {level: [*first, *fresh] for level in levels},
        {level: list(rest) for level in levels},
        {level: list(fresh) for level in levels},
    )


def query(stages: Sequence[Stage], edges: Sequence[tuple[int, int]] = ()) -> Query:
    """A query of these stages; edges are (parent, child)."""
    adjacency = np.zeros((len(stages), len(stages)))
    for parent, child in edges:
        adjacency[parent, child] = 1.0
    return Query(adjacency.tolist(), {str(number): one for number, one in enumerate(stages)})


def profiles_of(*queries: Query) -> SparkProfiles:
    """Queries of one scale."""
    return SparkProfiles.of({"1g": {str(number): one for number, one in enumerate(queries, 1)}}, "test")


def sequence(*arrivals_s: float, kinds: Sequence[int] | None = None) -> JobSequence:
    """Jobs at these times; without `kinds`, the n-th is of the n-th kind."""
    numbers = range(len(arrivals_s)) if kinds is None else kinds
    return JobSequence(np.array(numbers, np.int64), 1000.0 * np.array(arrivals_s))


class RandomPolicy:
    """Chooses evenly among the stages that may be chosen, and now and then leaves the rest."""

    def __init__(self, seed: int, leaves: float) -> None:
        self._rng = np.random.default_rng(seed)
        self._leaves = leaves

    def __call__(self, decision: Decision) -> Answer:
        """Answer one decision."""
        return self.choose(decision.stages[decision.schedulable].tolist(), decision.offered)

    def choose(self, stages: Sequence[int], offered: int) -> Answer:
        """Choose among `stages`."""
        if self._rng.random() < self._leaves:
            return LEAVE
        return Answer(int(self._rng.choice(stages)), 1 + int(self._rng.integers(offered)))


_durations = st.lists(st.integers(1, 9000).map(float), min_size=1, max_size=4)


@st.composite
def stages(draw: st.DrawFn) -> Stage:
    """A stage measured at the first one to three of `LEVELS`."""
    levels = LEVELS[: draw(st.integers(1, len(LEVELS)))]
    fresh = draw(st.one_of(st.just([]), _durations))
    rest = draw(st.one_of(st.just([]), _durations))
    return Stage(
        {level: [*draw(_durations), *fresh] for level in levels},
        dict.fromkeys(levels, rest),
        dict.fromkeys(levels, fresh),
    )


@st.composite
def queries(draw: st.DrawFn) -> Query:
    """A query of up to five stages in any order of precedence."""
    made = draw(st.lists(stages(), min_size=1, max_size=5))
    order = draw(st.permutations(range(len(made))))
    pairs = [(order[a], order[b]) for b in range(len(made)) for a in range(b)]
    edges = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    return query(made, edges)


@st.composite
def clusters(draw: st.DrawFn) -> tuple[SparkProfiles, SparkSetting, JobSequence]:
    """A small cluster and its jobs."""
    known = profiles_of(*draw(st.lists(queries(), min_size=1, max_size=3)))
    jobs = draw(st.integers(1, 5))
    gaps = draw(st.lists(st.floats(0.0, 30.0), min_size=jobs - 1, max_size=jobs - 1))
    kinds = draw(st.lists(st.integers(0, known.kinds - 1), min_size=jobs, max_size=jobs))
    setting = SparkSetting(
        executors=draw(st.integers(1, 12)),
        jobs=jobs,
        moving_s=draw(st.sampled_from([0.0, 0.5, 2.0])),
        warmup_s=draw(st.sampled_from([0.0, 1.0])),
    )
    return known, setting, sequence(0.0, *np.cumsum(gaps).tolist(), kinds=kinds)
