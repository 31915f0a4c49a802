"""Look-ahead: several policies plan a cycle, and the plan from which most good is foreseen is taken.

Candidates are examined in a fixed order, the configured policy first, as long as the budget lasts: each plan
is decoded in a what-if, and its consequences are foreseen. The configured policy wins ties, so by its own
foresight look-ahead is never worse than it. With the same number of plans examined it decides the same again.

Source of the idea: rollout (D. P. Bertsekas, J. N. Tsitsiklis, C. Wu, "Rollout Algorithms for Combinatorial
Optimization", Journal of Heuristics 3, 1997): one step is chosen freely, the rest follows a base rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from stowplan.core.lookahead.budget import Budget, Counted, MakeBudget
from stowplan.core.lookahead.foresight import Foresight
from stowplan.core.lookahead.rates import Rates
from stowplan.core.lookahead.what_if import decoded
from stowplan.core.physics.laws import PhysicsLaws
from stowplan.core.policy.interface import CycleView, Plan, Policy, Replayable, reads_nodes
from stowplan.errors import InvalidInput, StowplanError

__all__ = ["Examined", "LookAhead"]

_ALL = 1_000_000


@dataclass(frozen=True, slots=True)
class Examined:
    """What look-ahead found in a cycle.

    Attributes:
        plans: how many plans were examined.
        chosen: whose plan was taken.
        foreseen_s: the objective by policy, in the order in which they were examined.
        failed: why a policy's plan could not be examined, by policy.
    """

    plans: int
    chosen: str
    foreseen_s: dict[str, float]
    failed: dict[str, str]

    def as_plain(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "plans": self.plans,
            "chosen": self.chosen,
            "foreseen_s": self.foreseen_s,
            **({"failed": self.failed} if self.failed else {}),
        }


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A plan, with the generator and the policy's memory as they stood when it was made."""

    policy: Policy
    plan: Plan | None
    chance: Any
    memory: Sequence[int]


class LookAhead:
    """A policy that takes the best of what several policies plan."""

    def __init__(  # noqa: PLR0913  (each is one aspect of how far it looks)
        self,
        policy: Policy,
        alternatives: Sequence[Policy],
        *,
        budget: MakeBudget | None = None,
        horizon: int = 16,
        margin: float = 0.02,
        most_tasks: int = 400,
        laws: PhysicsLaws | None = None,
    ) -> None:
        """Look ahead for `policy`.

        Args:
            policy: whose plan is taken unless another's is better.
            alternatives: in the order in which they are examined.
            budget: made anew for each cycle; None: all candidates, whatever the time.
            horizon: so many ends of tasks are followed.
            margin: share of the objective by which another plan must be better than the policy's own: what
                is foreseen is not known more exactly.
            most_tasks: with more pods and pending tasks than this, a cycle is not examined at all.
            laws: constants of the contention law.

        Raises:
            InvalidInput: a policy remembers what cannot be put back, or two have one name.
        """
        self._policies = (policy, *alternatives)
        names = [each.name for each in self._policies]
        for each in self._policies:
            if not isinstance(each, Replayable) or each.memory is None:
                raise InvalidInput(
                    f"policy {each.name!r} remembers more than can be put back after a trial; "
                    "look ahead with others"
                )
            if names.count(each.name) > 1:
                raise InvalidInput(f"policy {each.name!r} is to be looked ahead with twice; name it once")
        if horizon < 1:
            raise InvalidInput(f"horizon is {horizon}; follow at least one end of a task")
        self.make_budget: MakeBudget = budget if budget is not None else lambda: Counted(_ALL)
        if not 0.0 <= margin < 1.0:
            raise InvalidInput(f"margin is {margin}; give a share from 0 to less than 1")
        self._horizon = horizon
        self._margin = margin
        self._most_tasks = most_tasks
        self._rates = Rates(laws or PhysicsLaws())
        self.examined: Examined = Examined(0, policy.name, {}, {})

    @property
    def name(self) -> str:
        """Name as users write it."""
        return "look-ahead"

    @property
    def memory(self) -> tuple[int, ...]:
        """What the policies remember, one after the other, each with its length before it."""
        return tuple(number for each in self._policies for number in (len(_memory(each)), *_memory(each)))

    def recall(self, memory: Sequence[int]) -> None:
        """Have the policies go on from there."""
        at = 0
        for each in self._policies:
            begin, at = at + 1, at + 1 + memory[at]
            cast("Replayable", each).recall(memory[begin:at])

    @property
    def reads_nodes(self) -> bool:
        """Whether one of the policies looks at readings."""
        return any(map(reads_nodes, self._policies))

    def plan(self, view: CycleView) -> Plan:
        """Return the best plan that was found in time."""
        budget = self.make_budget()
        first = self._policies[0]
        size = len(view.state.pods) + len(view.pending)
        if view.filters_of is None or not view.pending or size > self._most_tasks or budget.is_spent():
            self.examined = Examined(0, first.name, {}, {})
            return first.plan(view)
        return self._examine(view, budget)

    def _examine(self, view: CycleView, budget: Budget) -> Plan:
        bits = view.rng.bit_generator
        at_first: Any = bits.state
        memory = self.memory
        self._rates.start()
        foresight = Foresight(view, self._rates, self._horizon)
        foreseen_s: dict[str, float] = {}
        failed: dict[str, str] = {}
        best = _Candidate(self._policies[0], None, at_first, ())
        best_s = bound_s = np.inf
        for number, policy in enumerate(self._policies):
            if number and budget.is_spent():
                break
            bits.state = at_first
            candidate, found_s, error = self._try_out(view, policy, foresight, budget)
            if number == 0:
                if error is not None and candidate.plan is None:
                    raise error
                best = candidate
            elif error is not None:
                failed[policy.name] = str(error)
                continue
            if found_s is None:  # the time is over; or the policy's own plan fails, and the engine will see
                break
            foreseen_s[policy.name] = found_s
            if number == 0:
                best_s, bound_s = found_s, found_s * (1.0 - self._margin)
            elif found_s < min(best_s, bound_s):
                best, best_s = candidate, found_s
        self.recall(memory)
        cast("Replayable", best.policy).recall(best.memory)
        bits.state = best.chance
        self.examined = Examined(len(foreseen_s) + len(failed), best.policy.name, foreseen_s, failed)
        assert best.plan is not None  # noqa: S101  (the configured policy has one, or has raised)
        return best.plan

    def _try_out(
        self, view: CycleView, policy: Policy, foresight: Foresight, budget: Budget
    ) -> tuple[_Candidate, float | None, Exception | None]:
        """Return a policy's plan with what is foreseen of it (None: not in time), or why it has failed."""
        bits = view.rng.bit_generator
        try:
            plan = policy.plan(view)
        except StowplanError as error:
            return _Candidate(policy, None, bits.state, _memory(policy)), None, error
        candidate = _Candidate(policy, plan, bits.state, _memory(policy))
        found = None
        with decoded(view, plan, policy.name) as result:
            if result.error is None:
                found = foresight.foresee(result, np.asarray(plan.order).tolist(), budget.is_over)
        cast("Replayable", policy).recall(candidate.memory)
        return candidate, None if found is None else found.objective_s, result.error


def _memory(policy: Policy) -> tuple[int, ...]:
    return cast("Replayable", policy).memory or ()
