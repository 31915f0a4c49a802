"""The extender: questions of kube-scheduler in, answers out, never an error that makes a pod wait.

It runs in the event loop that the state belongs to and answers within a callback, so that what it looks at
stands still. It changes nothing: where a pod goes is kube-scheduler's decision, which comes back by the
watch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import structlog
from numpy.typing import NDArray

from stowplan.core.constraints import NO_RULES, RuleTable
from stowplan.core.domain import BoundPod, ClusterState
from stowplan.core.policy import Policy
from stowplan.errors import InvalidObject
from stowplan.kube.live.listener import Listener
from stowplan.kube.live.pod import LivePod
from stowplan.observe.history.records import Decision
from stowplan.serve.extender import wire
from stowplan.serve.extender.answers import Answer, Candidate, decision_of
from stowplan.serve.extender.duty import Cause, Duty
from stowplan.serve.extender.followup import FollowUp
from stowplan.serve.extender.inflight import InFlight
from stowplan.serve.extender.levels import UNKNOWN
from stowplan.serve.extender.metrics import ExtenderMetrics
from stowplan.serve.extender.pods import AskedPods
from stowplan.serve.extender.refusals import refused_nodes
from stowplan.serve.extender.scoring import Scored, Scorer
from stowplan.serve.extender.settings import ExtenderSettings
from stowplan.serve.scheduler.interface import TaskBook

__all__ = ["Cluster", "Extender", "Surroundings"]

_LOG = structlog.get_logger(__name__)
_NOT_SETTLED = "the cluster is not wholly known yet"


class Cluster(Protocol):
    """The live cluster, as far as an extender looks at it; `kube.live`'s ClusterFeed is one."""

    @property
    def state(self) -> ClusterState:
        """The cluster as the watches tell it."""
        ...

    @property
    def pods(self) -> Mapping[str, LivePod]:
        """All pods by key."""
        ...

    @property
    def is_settled(self) -> bool:
        """Whether every kind was listed once."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What an extender needs besides the cluster and a policy.

    Attributes:
        tasks: tells what pods are in their workflows.
        read: makes a pod that the feed does not have (yet) from JSON; raises InvalidObject.
        metrics: counts.
        monotonic: seconds that only grow.
        wall: seconds since the epoch.
        rng: for policies that draw.
        on_answer: told of every pod that was scored, in the event loop; None: nobody is.
        on_decision: told of every scored pod that was then given a node; None: nobody is.
        policy_version: for the decisions.
    """

    tasks: TaskBook
    read: Callable[[bytes], LivePod]
    metrics: ExtenderMetrics
    monotonic: Callable[[], float]
    wall: Callable[[], float]
    rng: np.random.Generator
    on_answer: Callable[[LivePod, Answer], None] | None = None
    on_decision: Callable[[Decision], None] | None = None
    policy_version: str = ""


class Extender:
    """Answers for one kube-scheduler.

    Attributes:
        listener: to be told by the feed what changes.
    """

    def __init__(
        self,
        cluster: Cluster,
        policy: Policy,
        surroundings: Surroundings,
        *,
        rules: RuleTable = NO_RULES,
        settings: ExtenderSettings | None = None,
    ) -> None:
        """Answer from what `cluster` holds; `policy` belongs to this extender alone, for it keeps caches."""
        self._cluster = cluster
        self._rules = rules
        self._settings = settings or ExtenderSettings()
        self._around = surroundings
        self._metrics = surroundings.metrics
        self._monotonic = surroundings.monotonic
        self._pods = AskedPods(cluster.pods, surroundings.read)
        self._scorer = Scorer(policy, surroundings.tasks, rules, surroundings.rng, surroundings.monotonic)
        self._in_flight = InFlight(cluster.state, lifetime_s=self._settings.in_flight_s)
        self._duty = Duty(self._settings)
        self._followup = FollowUp(
            self._settings,
            self._metrics,
            monotonic=self._monotonic,
            choices=self._choices,
            on_bound=self._bound,
            on_gone=lambda pod: self._in_flight.forget(pod.key),
        )
        self._answers = self._followup.answers
        self.listener: Listener = self._followup
        self._metrics.in_flight(lambda: self._in_flight.count)

    @property
    def degraded(self) -> str:
        """What is wrong, in words; empty: nothing."""
        if not self._cluster.is_settled:
            return _NOT_SETTLED
        return self._duty.why or self._followup.why

    @property
    def status(self) -> Mapping[str, object]:
        """How it is doing, as plain values."""
        return {
            "policy": self._scorer.policy.name,
            "degraded": self.degraded,
            "resting": self._duty.rests(self._monotonic()),
            "in_flight": self._in_flight.count,
            "awaiting_binding": len(self._answers),
            "asked_s_ago": self._followup.silent_s,
            "bound_unasked": self._followup.unasked,
            "rules": len(self._rules.rules),
        }

    # ---- questions ----

    def filter(self, body: bytes) -> bytes:
        """Answer Filter: all nodes but those that the rule table refuses.

        Raises:
            BadRequest: the body is not what Filter is sent with.
        """
        question = wire.read_question(body)
        self._followup.was_asked()
        refused = self._refused(question.head, question.pod, question.node_names)
        self._metrics.refused(len(refused))
        return wire.filter_answer(question, refused)

    def prioritize(self, body: bytes) -> bytes:
        """Answer Prioritize: the levels of the nodes, by the policy's scores; none when it is of no help.

        Raises:
            BadRequest: the body is not what Prioritize is sent with.
        """
        began_s = self._monotonic()
        question = wire.read_question(body)
        self._followup.was_asked()
        levels = self._levels(question, began_s)
        if isinstance(levels, Cause):
            self._metrics.neutral(levels)
            self._keep_neutral(question.head, began_s)
            return wire.prioritize_answer({})
        return wire.prioritize_answer(levels)

    def preempt(self, body: bytes) -> bytes:
        """Answer the preempt verb: the victims stay as they are, nodes that the rules refuse go.

        Otherwise kube-scheduler would end pods on a node that Filter then refuses.

        Raises:
            BadRequest: the body is not what the verb is sent with.
        """
        preemption = wire.read_preemption(body)
        self._followup.was_asked()
        refused = self._refused(preemption.head, preemption.pod, list(preemption.victims))
        return wire.preempt_answer(preemption, refused)

    # ---- rules ----

    def _refused(self, head: wire.PodHead, pod: bytes, node_names: Sequence[str]) -> Mapping[str, str]:
        if not self._rules.rules:
            return {}
        if not self._cluster.is_settled:
            self._metrics.neutral(Cause.NOT_SETTLED)
            return {}
        live = self._read(head, pod)
        if live is None:
            self._metrics.neutral(Cause.POD_UNREADABLE)
            return {}
        return refused_nodes(self._rules, self._cluster.state, live.shape, node_names)

    def _read(self, head: wire.PodHead, pod: bytes) -> LivePod | None:
        try:
            return self._pods.of(head, pod)
        except (InvalidObject, RecursionError) as error:
            _LOG.warning("pod cannot be read", pod=head.key, reason=str(error) or type(error).__name__)
            return None

    # ---- scores ----

    def _levels(self, question: wire.Question, began_s: float) -> Mapping[str, int] | Cause:
        """Return the levels above 0 of nodes asked about, or why there are none."""
        if not self._cluster.is_settled:
            return Cause.NOT_SETTLED
        if self._duty.rests(began_s):
            return Cause.RESTING
        pod = self._read(question.head, question.pod)
        if pod is None:
            return Cause.POD_UNREADABLE
        try:
            self._in_flight.catch_up(began_s)
            self._in_flight.forget(pod.key)
            state, epoch = self._in_flight.state, self._in_flight.epoch
            scored = self._scorer.score(state, epoch, pod, question.node_names, began_s)
            answer = self._answer(pod, scored, began_s)
        except Exception as error:  # noqa: BLE001  (whatever a policy raises, the pod must not wait for it)
            self._failed(question.head.key, error)
            return Cause.SCORING_FAILED
        if answer.took_s > self._settings.budget_s:
            took_ms, budget_ms = 1000 * answer.took_s, 1000 * self._settings.budget_s
            why = f"an answer took {took_ms:.0f} ms, which is over its budget of {budget_ms:g} ms"
            self._duty.failed(why, self._monotonic())
            return Cause.OVER_BUDGET
        self._duty.succeeded()
        if scored.levels is None:
            return Cause.NO_PREFERENCE
        self._answers.keep(answer)
        if self._around.on_answer is not None:
            self._around.on_answer(pod, answer)
        self._in_flight.foresee(BoundPod(pod.key, pod.shape, uid=pod.uid), answer.best[0].node_name, began_s)
        return _by_name(scored.levels, scored.node_names, question.node_names)

    def _answer(self, pod: LivePod, scored: Scored, began_s: float) -> Answer:
        best: tuple[Candidate, ...] = ()
        expected_s: float | None = None
        contributions: Mapping[str, float] = {}
        refused: Mapping[str, int] = {}
        if scored.levels is not None:
            places: list[int] = scored.best.tolist()
            scores: list[float] = scored.scores[places].tolist()
            levels: list[int] = scored.levels[places].tolist()
            names = [scored.node_names[at] for at in places]
            best = tuple(map(Candidate, names, scores, levels))
            if self._around.on_answer is not None or self._around.on_decision is not None:
                row = int(scored.rows[scored.best[0]])
                expected_s = scored.plan.expected_duration_s(scored.index, row)
                contributions = scored.plan.contributions(scored.index, row)
                refused = scored.filters.counts()
        return Answer(
            key=pod.key,
            uid=pod.uid,
            answered_s=self._around.wall(),
            took_s=self._monotonic() - began_s,
            best=best,
            candidates=int(np.count_nonzero(scored.scores > -np.inf)),
            expected_s=expected_s,
            contributions=contributions,
            refused=refused,
        )

    def _failed(self, key: str, error: Exception) -> None:
        why = f"scoring by policy {self._scorer.policy.name} failed: {type(error).__name__}: {error}"
        if why != self._duty.why:  # the same failure is told once, and counted every time
            _LOG.warning("scoring failed", pod=key, exc_info=error)
        self._duty.failed(why, self._monotonic())

    def _keep_neutral(self, head: wire.PodHead, began_s: float) -> None:
        self._answers.keep(
            Answer(
                key=head.key,
                uid=head.metadata.uid,
                answered_s=self._around.wall(),
                took_s=self._monotonic() - began_s,
            )
        )

    # ---- what became of it ----

    def _choices(self, pod: LivePod) -> int:
        self._in_flight.catch_up(self._monotonic())
        return int(np.count_nonzero(self._scorer.filters_of(self._in_flight.state, pod.shape).feasible))

    def _bound(self, pod: LivePod, answer: Answer) -> None:
        if self._around.on_decision is not None:
            name = self._scorer.policy.name
            self._around.on_decision(decision_of(answer, pod, name, self._around.policy_version))


def _by_name(levels: NDArray[np.int64], known: Sequence[str], asked: Sequence[str]) -> dict[str, int]:
    """Return the levels above 0 of nodes that were asked about; `levels` are those of the `known` ones."""
    places = np.flatnonzero(levels)
    names = [known[at] for at in places.tolist()]
    level_of: dict[str, int] = dict(zip(names, levels[places].tolist(), strict=True))
    if len(known) < len(asked):
        are_known = set(known)
        level_of |= {name: UNKNOWN for name in asked if name not in are_known}
    return level_of
