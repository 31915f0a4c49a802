"""One run of a scenario under one policy, and what came of every decision that was kept."""

from __future__ import annotations

import math
from typing import Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from stowplan.core.policy import Policy
from stowplan.errors import InvalidInput
from stowplan.learn.blocked import is_blocked
from stowplan.learn.records import CycleRecord, RunRecord
from stowplan.learn.returns import Stays, costs
from stowplan.learn.scenarios import Scenario
from stowplan.simulate.ledger import AttemptStatus
from stowplan.simulate.simulator import Simulation
from stowplan.simulate.statistics import percentile

__all__ = [
    "RecordingPolicy",
    "Reward",
    "ends_s_of",
    "mean_costs",
    "run_episode",
    "simulation_of",
    "stays_of",
]

Floats = NDArray[np.float64]
_LOG_BOUNDS = (-2.0, 5.0)  # of slowdowns: beyond e⁵ something stood still, which is not contention


class RecordingPolicy(Policy, Protocol):
    """A policy that keeps records of its cycles."""

    cycles: list[CycleRecord]
    times_s: list[float]
    values: list[float]
    illegal: int

    def finish(self) -> None:
        """Take down the last cycle."""
        ...


class Reward(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, frozen=True):
    """What runs are judged by.

    Attributes:
        tail_weight: how much more a workflow weighs for each time scale that it has been there; a proposal.
        discount: per time scale; 0: what happens late counts in full.

    Raises:
        InvalidInput: a number is negative or not finite.
    """

    tail_weight: float = 0.2
    discount: float = 0.05

    def __post_init__(self) -> None:
        """Check the range."""
        for name in self.__struct_fields__:
            number: float = getattr(self, name)
            if not (math.isfinite(number) and number >= 0.0):
                raise InvalidInput(f"reward: {name} is {number}; give a number of 0 or more")


def simulation_of(scenario: Scenario, policy: Policy) -> Simulation:
    """Return the simulation of a scenario: arrivals, faults and drift are the same for every policy."""
    return Simulation(
        scenario.cluster,
        scenario.workload,
        policy,
        seed=scenario.seed,
        faults=scenario.faults,
        options=scenario.options,
    )


def run_episode(scenario: Scenario, policy: RecordingPolicy, reward: Reward) -> RunRecord:
    """Run a scenario to its end or its horizon.

    Raises:
        StowplanError: the policy failed.
    """
    simulation = simulation_of(scenario, policy)
    while not simulation.is_over:
        simulation.step()
    policy.finish()
    stays = stays_of(simulation)
    times_s = np.array(policy.times_s, dtype=np.float64)
    edges_s = np.append(times_s, max(simulation.now_s, float(times_s[-1]) if times_s.size else 0.0))
    rewards = -mean_costs(stays, edges_s, reward, scenario.time_scale_s)
    _tell_outcomes(simulation, policy.cycles)
    spent_s = np.minimum(stays.until_s, simulation.now_s) - stays.from_s
    spent_s = np.maximum(spent_s, 0.0)  # one that had not arrived at the horizon spent nothing
    return RunRecord(
        scenario=scenario.number,
        times_s=times_s,
        rewards=rewards,
        lengths=np.diff(edges_s) / scenario.time_scale_s,
        values=np.array(policy.values, dtype=np.float64),
        cycles=policy.cycles,
        is_cut_off=not simulation.is_complete,
        end_value=policy.values[-1] if policy.values else 0.0,
        completion_s=float(spent_s.mean()),
        tail_s=percentile(spent_s, 0.95),
        tasks=len(simulation.floor.ledger),
        illegal=policy.illegal,
    )


def mean_costs(stays: Stays, times_s: Floats, reward: Reward, scale_s: float) -> Floats:
    """Return the cost between consecutive times per workflow, so that large runs weigh as small ones."""
    found = costs(stays, times_s, tail_weight=reward.tail_weight, scale_s=scale_s)
    return found / len(stays.from_s)


def stays_of(simulation: Simulation) -> Stays:
    """Return when each workflow came and came to a good end; one that failed never did."""
    book = simulation.book
    until_s = np.full(len(book.submissions), np.inf)
    for index, time_s in book.finished_s.items():
        if not book.progress[index].has_failed:
            until_s[index] = time_s
    return Stays(np.array([submission.time_s for submission in book.submissions]), until_s)


def ends_s_of(simulation: Simulation) -> Floats:
    """Return when each task came to a good end, (T,); NaN: it did not."""
    ledger = simulation.floor.ledger
    ends_s = np.full(len(simulation.book.tasks), np.nan)
    done = np.array(ledger.status, dtype=np.int8) == AttemptStatus.DONE
    ends_s[np.array(ledger.task, dtype=np.int64)[done]] = np.array(ledger.ended_s)[done]
    return ends_s


def _tell_outcomes(simulation: Simulation, cycles: list[CycleRecord]) -> None:
    """Fill in what came of the decisions, and which tasks were blocked."""
    ledger, book = simulation.floor.ledger, simulation.book
    kernel_ids = np.array(ledger.kernel_id, dtype=np.int64)
    started_s = simulation.site.kernel.started_s(kernel_ids) if kernel_ids.size else np.zeros(0)
    is_done = np.array(ledger.status, dtype=np.int8) == AttemptStatus.DONE
    actual_s = np.where(is_done, np.array(ledger.ended_s) - started_s, np.nan)
    attempt_of = {
        (task, placed_s): attempt
        for attempt, (task, placed_s) in enumerate(zip(ledger.task, ledger.placed_s, strict=True))
    }
    ends_s = ends_s_of(simulation)

    for cycle in cycles:
        waiting = len(cycle.decisions[0].rows)
        for decision in cycle.decisions:
            attempt = attempt_of.get((book.id_of[decision.key], cycle.time_s))
            if decision.choice == waiting or attempt is None or not actual_s[attempt] > 0.0:
                continue
            task = book.tasks[ledger.task[attempt]]
            log_slowdown = math.log(actual_s[attempt] / task.expected_s)
            log_slowdown -= float(decision.log_prior[decision.choice])
            decision.log_slowdown = min(max(log_slowdown, _LOG_BOUNDS[0]), _LOG_BOUNDS[1])
        took_s = ends_s[[book.id_of[key] for key in cycle.keys]] - cycle.time_s
        cycle.blocked = is_blocked(took_s, simulation.now_s - cycle.time_s, cycle.bar_s)
