"""One run of the benchmark: jobs arrive, a policy decides, and completion times come out."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stowplan.core.physics.handles import handle_of
from stowplan.errors import InvalidInput, StateConflict
from stowplan.simulate.spark.decision import Answer, Decision, SparkPolicy, decision_of
from stowplan.simulate.spark.loop import ILLEGAL, Player, begin, may_answer, step
from stowplan.simulate.spark.profiles import SparkProfiles
from stowplan.simulate.spark.setting import JobSequence, SparkSetting
from stowplan.simulate.spark.state import State, fresh_state

__all__ = ["CompiledRule", "SparkEpisode", "SparkResult", "run_episode"]


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """A rule that plays whole episodes in compiled code.

    Attributes:
        name: what it is called in tables.
        play: plays on from a decision to the end.
        parameters: the rule's own numbers.
    """

    name: str
    play: Player
    parameters: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class SparkResult:
    """What happened in an episode that is over.

    Attributes:
        arrival_s: (n,) when each job came.
        completion_s: (n,) how long each job took from its arrival on.
        kinds: (n,) what each job was.
        runs: (tasks,) `RUN_DTYPE`: which executor ran a task of which stage when.
        executors: of the cluster.
        decisions: how many there were.
        moves: of executors between jobs.
    """

    arrival_s: NDArray[np.float64]
    completion_s: NDArray[np.float64]
    kinds: NDArray[np.int64]
    runs: NDArray[np.void]
    executors: int
    decisions: int
    moves: int

    @property
    def mean_completion_s(self) -> float:
        """The benchmark's metric."""
        return float(self.completion_s.mean())

    @property
    def makespan_s(self) -> float:
        """From the first arrival to the last end."""
        return float((self.arrival_s + self.completion_s).max())

    @property
    def utilisation(self) -> float:
        """Share of the executors' time that they ran tasks in."""
        busy_ms = float((self.runs["end_ms"] - self.runs["start_ms"]).sum())
        return busy_ms / 1000.0 / self.executors / self.makespan_s


class SparkEpisode:
    """A cluster of Spark executors, from decision to decision.

    A function of its arguments: the same profiles, setting, sequence, generator and answers give the same
    bytes.

    Args:
        profiles: kinds of jobs.
        setting: the cluster.
        sequence: which jobs arrive when.
        rng: draws the duration of each task, in the order in which tasks begin.
    """

    def __init__(
        self, profiles: SparkProfiles, setting: SparkSetting, sequence: JobSequence, rng: np.random.Generator
    ) -> None:
        self._rng = rng
        self._state = fresh_state(setting, profiles, sequence)
        self._handle = handle_of(self._state)
        self._is_waiting = begin(self._handle, rng)

    @classmethod
    def seeded(cls, profiles: SparkProfiles, setting: SparkSetting, seed: int) -> SparkEpisode:
        """Make the episode of a seed: arrivals and durations come from NumPy's default generator."""
        rng = np.random.default_rng(seed)
        return cls(profiles, setting, JobSequence.draw(setting, profiles, rng), rng)

    def copy(self, rng: np.random.Generator | None = None) -> SparkEpisode:
        """Return a cluster of its own in the same state, to try answers on.

        Args:
            rng: draws its durations from here on; by default what this one would draw, which a policy that
                looks ahead must not know.
        """
        other = object.__new__(SparkEpisode)
        other._rng = copy.deepcopy(self._rng) if rng is None else rng
        # What is known of the kinds never changes; all else is the copy's own.
        shared = {"profiles", "neighbours", "samples_ms", "brackets"}
        other._state = State(
            **{
                name: table if name in shared else table.copy()
                for name, table in self._state._asdict().items()
            }
        )
        other._handle = handle_of(other._state)
        other._is_waiting = self._is_waiting
        return other

    @property
    def state(self) -> State:
        """The tables, for reading."""
        return self._state

    @property
    def now_s(self) -> float:
        """Simulated time."""
        return float(self._state.counters["now_ms"][0]) / 1000.0

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to decide."""
        return not self._is_waiting

    @cached_property
    def _edges(self) -> NDArray[np.int64]:
        """Ids of parent and child of every edge, (2, n)."""
        state = self._state
        known = state.profiles[state.stages["profile"]]
        child = np.repeat(np.arange(len(known)), known["parents"])
        within = np.arange(len(child)) - np.repeat(
            np.cumsum(known["parents"]) - known["parents"], known["parents"]
        )
        parent = state.neighbours[known["first_parent"][child] + within]
        return np.stack([state.jobs["first_stage"][state.stages["job"][child]] + parent, child])

    def decision(self) -> Decision:
        """Describe the decision that is due.

        Raises:
            StateConflict: the episode is over.
        """
        self._require_waiting()
        return decision_of(self._state, self._edges)

    def answer(self, answer: Answer) -> None:
        """Give an answer, and go on to the next decision or the end.

        Raises:
            InvalidInput: the answer is not allowed now.
            StateConflict: the episode is over.
        """
        self._require_waiting()
        if not may_answer(self._handle, answer.stage, answer.executors):
            raise InvalidInput(
                f"{answer} is not allowed at {self.now_s} s; choose a schedulable stage and 1 to all of the "
                "offered executors, or LEAVE"
            )
        self._is_waiting = step(self._handle, self._rng, answer.stage, answer.executors)

    def play(self, policy: CompiledRule | SparkPolicy) -> SparkResult:
        """Let a policy decide to the end, and return what happened.

        Raises:
            InvalidInput: the policy gave an answer that is not allowed.
            StateConflict: the policy left executors idle until nothing could happen any more.
        """
        if not isinstance(policy, CompiledRule):
            while self._is_waiting:
                self.answer(policy(self.decision()))
        elif self._is_waiting:
            end = policy.play(self._handle, self._rng, np.array(policy.parameters))
            if end == ILLEGAL:
                raise InvalidInput(
                    f"rule {policy.name} gave an answer that is not allowed at {self.now_s} s; mend the rule"
                )
            self._is_waiting = False
        return self.result()

    def result(self) -> SparkResult:
        """Return what happened.

        Raises:
            StateConflict: jobs are not done, because decisions are due or all executors were left idle.
        """
        state = self._state
        counters = state.counters[0]
        left = int(counters["jobs"] - counters["completed"])
        if left:
            why = (
                "answer the decisions that are due"
                if self._is_waiting
                else "the policy must leave fewer idle"
            )
            raise StateConflict(f"{left} jobs are not done at {self.now_s} s; {why}")
        arrival_ms = state.jobs["arrival_ms"]
        return SparkResult(
            arrival_s=arrival_ms / 1000.0,
            completion_s=(state.jobs["completed_ms"] - arrival_ms) / 1000.0,
            kinds=state.jobs["kind"].copy(),
            runs=state.runs.copy(),
            executors=int(counters["executors"]),
            decisions=int(counters["decisions"]),
            moves=int(counters["moves"]),
        )

    def _require_waiting(self) -> None:
        if not self._is_waiting:
            raise StateConflict("the episode is over; make a new one")


def run_episode(
    profiles: SparkProfiles, setting: SparkSetting, policy: CompiledRule | SparkPolicy, seed: int
) -> SparkResult:
    """Play the episode of a seed.

    Raises:
        InvalidInput: the policy gave an answer that is not allowed.
        StateConflict: the policy left executors idle until nothing could happen any more.
    """
    return SparkEpisode.seeded(profiles, setting, seed).play(policy)
