"""Rollouts: runs of drawn scenarios, in this process, in several, or on the machines of a Ray cluster.

A job says all that a run depends on, and the weights travel with it, so the same jobs give the same records
wherever and in whatever order they run. Workers are started anew, never forked: threads of PyTorch would not
survive it.
"""

from __future__ import annotations

import importlib
import multiprocessing
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray

from stowplan.core.domain import Workflow
from stowplan.core.encoder import Encoder
from stowplan.core.policy.learned.sizes import NetworkSizes
from stowplan.core.semantics import FrozenStatistics
from stowplan.errors import InvalidInput
from stowplan.learn.episodes import RecordingPolicy, Reward, run_episode
from stowplan.learn.network import PolicyNetwork
from stowplan.learn.records import RunRecord
from stowplan.learn.rules import make_rule
from stowplan.learn.sampling import NetworkPolicy, Temperatures
from stowplan.learn.scenarios import Ranges, Scenario, Split, draw_scenario, load_recordings
from stowplan.learn.survey import Survey
from stowplan.learn.teachers import Teacher
from stowplan.simulate.interrupts import ctrl_c_held_back

__all__ = ["NETWORK", "Job", "Outcome", "Rollers", "Setup", "Weights", "Worker", "rollers_of", "weights_of"]

NETWORK = "network"
"""Name of the actor that is the network; every other is a rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What all runs of a training share.

    Attributes:
        recordings: folder of recorded workflows, None: those that come with Stowplan.
        ranges: what scenarios are drawn from.
        base_seed: of all scenarios and draws.
        reward: what runs are judged by.
        sizes: of the network.
        most_groups: that are encoded in a cycle.
    """

    recordings: Path | None
    ranges: Ranges
    base_seed: int
    reward: Reward
    sizes: NetworkSizes
    most_groups: int


@dataclass(frozen=True, slots=True)
class Weights:
    """Parameters of the network by name; equal versions hold equal numbers."""

    version: int
    arrays: Mapping[str, NDArray[np.float32]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One run.

    Attributes:
        split, number, difficulty: which scenario.
        actor: `NETWORK` or the name of a rule.
        repeat: tells runs of one scenario apart; draws of the actor follow from it.
        order_temperature, choice_temperature: how far the network's draws stray.
        kept_decisions: about how many decisions are kept.
        surveys: whether raw features are surveyed.
    """

    number: int
    split: Split = Split.TRAINING
    difficulty: float = 1.0
    actor: str = NETWORK
    repeat: int = 0
    order_temperature: float = 0.0
    choice_temperature: float = 0.0
    kept_decisions: int = 0
    surveys: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a job."""

    job: Job
    record: RunRecord
    survey: Survey | None = None


@dataclass(slots=True)
class Worker:
    """Runs jobs; keeps recordings and network between them."""

    setup: Setup
    statistics: FrozenStatistics | None = None
    _recordings: dict[Split, dict[str, tuple[Workflow, ...]]] = field(
        default_factory=dict[Split, dict[str, tuple[Workflow, ...]]]
    )
    _network: PolicyNetwork | None = None
    _version: int = -1

    def scenario(self, job: Job) -> Scenario:
        """Draw the scenario of a job."""
        if job.split not in self._recordings:
            self._recordings[job.split] = load_recordings(self.setup.recordings, job.split)
        return draw_scenario(
            self._recordings[job.split],
            self.setup.ranges,
            base_seed=self.setup.base_seed,
            split=job.split,
            number=job.number,
            difficulty=job.difficulty,
        )

    def run(self, job: Job, weights: Weights | None) -> Outcome:
        """Run a job.

        Raises:
            InvalidInput: the network is to act, and there are no weights.
            StowplanError: the run failed.
        """
        scenario = self.scenario(job)
        survey = Survey() if job.surveys else None
        rng = np.random.default_rng(np.random.SeedSequence(scenario.seed, spawn_key=(job.repeat,)))
        encoder = Encoder(
            statistics=self.statistics, off=scenario.without, most_groups=self.setup.most_groups
        )
        kept_share = min(1.0, job.kept_decisions / scenario.workload.task_count)
        policy: RecordingPolicy
        if job.actor == NETWORK:
            policy = NetworkPolicy(
                self._load(weights),
                encoder,
                rng,
                temperatures=Temperatures(order=job.order_temperature, choice=job.choice_temperature),
                kept_share=kept_share,
            )
        else:
            policy = Teacher(make_rule(job.actor), encoder, rng, kept_share=kept_share, survey=survey)
        return Outcome(job, run_episode(scenario, policy, self.setup.reward), survey)

    def _load(self, weights: Weights | None) -> PolicyNetwork:
        if weights is None:
            raise InvalidInput("the network is to act in a rollout, but no weights were given")
        if self._network is None:
            self._network = PolicyNetwork(self.setup.sizes).eval()
        if self._version != weights.version:
            self._network.load_state_dict(
                {name: torch.from_numpy(array.copy()) for name, array in weights.arrays.items()}
            )
            self._version = weights.version
        return self._network


class Rollers(Protocol):
    """Runs jobs; a context manager around the processes that do it."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...

    def run(
        self, jobs: Sequence[Job], weights: Weights | None, statistics: FrozenStatistics | None
    ) -> Iterator[Outcome]:
        """Yield what came of each job, in the order of the jobs."""
        ...


class _Here:
    """One after the other, in this process."""

    def __init__(self, setup: Setup) -> None:
        self._worker = Worker(setup)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        del error

    def run(
        self, jobs: Sequence[Job], weights: Weights | None, statistics: FrozenStatistics | None
    ) -> Iterator[Outcome]:
        self._worker.statistics = statistics
        for job in jobs:
            threads = torch.get_num_threads()
            torch.set_num_threads(1)  # as in a process of its own: sums come out the same to the last bit
            try:
                outcome = self._worker.run(job, weights)
            finally:
                torch.set_num_threads(threads)
            yield outcome


class _Kept:
    """The worker of a worker process."""

    worker: Worker


def _begin(setup: Setup) -> None:
    torch.set_num_threads(1)
    _Kept.worker = Worker(setup)


def _run(job: Job, weights: Weights | None, statistics: FrozenStatistics | None) -> Outcome:
    _Kept.worker.statistics = statistics
    return _Kept.worker.run(job, weights)


class _Processes:
    """Several at a time, each in a process of its own."""

    def __init__(self, setup: Setup, processes: int) -> None:
        self._pool = ProcessPoolExecutor(
            processes,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_begin,
            initargs=(setup,),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def run(
        self, jobs: Sequence[Job], weights: Weights | None, statistics: FrozenStatistics | None
    ) -> Iterator[Outcome]:
        with ctrl_c_held_back():  # workers are born in here
            futures = [self._pool.submit(_run, job, weights, statistics) for job in jobs]
        for future in futures:
            yield future.result()


class _Ray:
    """Tasks on a Ray cluster, as many at a time as it has cores."""

    def __init__(self, setup: Setup, address: str) -> None:
        try:
            ray = importlib.import_module("ray")  # only those who have a cluster need it
        except ModuleNotFoundError:
            raise InvalidInput(
                "rollouts are to run on Ray, which is not installed; "
                "install the extra `ray`, or set `ray` to null"
            ) from None
        self._ray: Any = ray
        if not self._ray.is_initialized():
            self._ray.init(address=address, log_to_driver=False)
        self._setup = self._ray.put(setup)
        self._task: Callable[..., Any] = self._ray.remote(_run_on_ray).remote

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._ray.shutdown()

    def run(
        self, jobs: Sequence[Job], weights: Weights | None, statistics: FrozenStatistics | None
    ) -> Iterator[Outcome]:
        shared = self._ray.put((weights, statistics))
        waiting = [self._task(self._setup, job, shared) for job in jobs]
        for one in waiting:
            yield self._ray.get(one)


def _run_on_ray(setup: Setup, job: Job, shared: tuple[Weights | None, FrozenStatistics | None]) -> Outcome:
    """Run a job in a process of Ray, which keeps the worker for the next one."""
    weights, statistics = shared
    if getattr(_Kept, "worker", None) is None or _Kept.worker.setup != setup:
        _begin(setup)
    return _run(job, weights, statistics)


def rollers_of(setup: Setup, *, processes: int, ray: str | None) -> Rollers:
    """Return what runs jobs.

    Args:
        setup: what all runs share.
        processes: on this machine, 1: in this process.
        ray: address of a Ray cluster, "local" for one on this machine; None: no Ray.

    Raises:
        InvalidInput: Ray is asked for and not installed, or `processes` is not positive.
    """
    if processes < 1:
        raise InvalidInput(f"processes is {processes}; give at least 1")
    if ray is not None:
        return _Ray(setup, ray)
    return _Here(setup) if processes == 1 else _Processes(setup, processes)


def weights_of(network: PolicyNetwork, version: int) -> Weights:
    """Return a copy of the parameters of a network."""
    state = network.state_dict()
    return Weights(version, {name: tensor.detach().cpu().numpy().copy() for name, tensor in state.items()})
