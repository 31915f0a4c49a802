"""What was answered of pods that wait for their binding, and the decision that the binding makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from stowplan.kube.live.pod import LivePod
from stowplan.observe.history.records import Decision, DecisionMode

__all__ = ["Answer", "Answers", "Candidate", "decision_of"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node that the pod could go to: the policy's score, and the level that was answered."""

    node_name: str
    score: float
    level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What kube-scheduler was told of one pod.

    Attributes:
        key, uid: of the pod.
        answered_s: when, in seconds since the epoch.
        took_s: how long it took in seconds.
        best: the nodes that the policy likes best, the best first; empty when the answer was neutral.
        candidates: how many of the nodes had a score.
        expected_s, contributions: the duration foretold on the best node, and the parts of its score.
        refused: nodes of the cluster per filter that could not take the pod, as Stowplan saw it.
    """

    key: str
    uid: str
    answered_s: float
    took_s: float
    best: tuple[Candidate, ...] = ()
    candidates: int = 0
    expected_s: float | None = None
    contributions: Mapping[str, float] = field(default_factory=dict[str, float])
    refused: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def is_preference(self) -> bool:
        """Whether it preferred some nodes to others."""
        return bool(self.best)

    def is_best(self, node_name: str) -> bool:
        """Tell whether no node had a higher level than this."""
        return any(one.node_name == node_name and one.level == self.best[0].level for one in self.best)


class Answers:
    """The latest answer for each pod, as long as its binding is worth waiting for."""

    def __init__(self, *, most: int = 4096) -> None:
        """Keep so many; the oldest goes first."""
        self._most = most
        self._of_uid: dict[str, Answer] = {}

    def __len__(self) -> int:
        """Return how many are kept."""
        return len(self._of_uid)

    def keep(self, answer: Answer) -> None:
        """Keep an answer in place of an earlier one for the same pod."""
        self._of_uid.pop(answer.uid, None)
        if len(self._of_uid) >= self._most:
            del self._of_uid[next(iter(self._of_uid))]
        self._of_uid[answer.uid] = answer

    def take(self, uid: str) -> Answer | None:
        """Return the answer for a pod, and keep it no longer."""
        return self._of_uid.pop(uid, None)


def decision_of(answer: Answer, pod: LivePod, policy: str, policy_version: str) -> Decision:
    """Return the decision that kube-scheduler took with our scores, now that `pod` has a node.

    The expected duration is only known for the node that Stowplan thought best. The margin is negative when
    kube-scheduler took another; it is None when that was not among the best at all.
    """
    chosen = next((one for one in answer.best if one.node_name == pod.node_name), None)
    other = next((one for one in answer.best if one.node_name != pod.node_name), None)
    is_first = chosen is not None and chosen is answer.best[0]
    return Decision(
        decision_id=f"extender/{pod.uid}",
        decided_s=answer.answered_s,
        policy=policy,
        policy_version=policy_version,
        mode=DecisionMode.LIVE,
        pod_uid=pod.uid,
        namespace=pod.namespace,
        pod=pod.name,
        node=pod.node_name,
        candidates=answer.candidates,
        refused=dict(answer.refused),
        expected_s=answer.expected_s if is_first else None,
        expected_source="policy" if is_first else None,
        runner_up=other.node_name if other is not None else None,
        margin=chosen.score - other.score if chosen is not None and other is not None else None,
        explanation={
            "outcome": "placed",
            "reason": _in_words(answer, chosen, pod.node_name),
            "decided_by": "kube-scheduler",
            "no_record": "extender",
            "score": chosen.score if chosen is not None else None,
            "contributions": [list(part) for part in answer.contributions.items()] if is_first else [],
            "best": answer.best[0].node_name if answer.best else None,
            "followed": answer.is_best(pod.node_name),
            "levels": {one.node_name: one.level for one in answer.best if one.level},
            "took_ms": round(answer.took_s * 1000, 3),
        },
    )


def _in_words(answer: Answer, chosen: Candidate | None, node_name: str) -> str:
    if answer.is_best(node_name):
        return f"kube-scheduler took the best of {answer.candidates} nodes by the extender's scores"
    level = "no level" if chosen is None else f"level {chosen.level}"
    best = answer.best[0].node_name if answer.best else "no node"
    return f"kube-scheduler took {node_name}, which had {level} of 10 by the extender; it preferred {best}"
