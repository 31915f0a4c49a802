"""What is answered to an object: its plan as a patch, or what is wrong with it. Pure, and never in the way.

`mutate` writes the plan on whatever `stowplan plan` covers, and lets everything else pass as it is; what is
malformed passes too, with a warning, for to refuse is `validate`'s. `validate` refuses what is definitely
malformed: judged by the object alone, since a template that it refers to may be there by the time it runs, or
be newer than what is known of it; such doubts are warnings.

On UPDATE (of templates; a workflow's updates are its controller's) only what the change made wrong is a
reason to refuse: whoever mends one field, or takes a finalizer off, is not held up by another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Literal

from stowplan.kube.argo import (
    ArgoObject,
    MalformedWorkflow,
    Problem,
    TemplateSource,
    check_object,
    is_argo_object,
    open_object,
)
from stowplan.kube.argo.objects import Json, as_mapping
from stowplan.kube.plan import History, Plan, PlanOptions, plan_object
from stowplan.serve.webhook.review import AdmissionRequest, Answer, NotReadable, Refusal, object_of

__all__ = ["Admission", "Result", "Verdict"]

LONGEST_WARNING: Final = 120  # characters; the API server cuts at 256, and all together at 4,096
CAUSES: Final = 50
REVIEWED: Final = {
    "CREATE": frozenset({"Workflow", "WorkflowTemplate", "ClusterWorkflowTemplate", "CronWorkflow"}),
    "UPDATE": frozenset({"WorkflowTemplate", "ClusterWorkflowTemplate", "CronWorkflow"}),
}
"""Kinds by operation; `registration` asks for these."""


class Result(StrEnum):
    """What became of a request; the label of the metric."""

    PLANNED = "planned"
    """A patch was answered."""
    UNCHANGED = "unchanged"
    """There was nothing to write: it is planned, or may not be."""
    SHADOW = "shadow"
    """There would have been a patch, or a refusal; in shadow mode nothing is changed or refused."""
    VALID = "valid"
    """Nothing is wrong with it."""
    REFUSED = "refused"
    """It is malformed, and was refused."""
    MALFORMED = "malformed"
    """It is malformed, and was let pass: refusing is for the other path, or it was so before."""
    IGNORED = "ignored"
    """Another kind or operation: the webhook is registered for more than it covers."""
    UNREADABLE = "unreadable"
    """The object could not be read."""
    LATE = "late"
    """It was let pass because its turn did not come in time, or it took too long."""
    BUSY = "busy"
    """It was let pass because too many others waited."""
    FAILED = "failed"
    """A defect of ours; it was let pass."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """An answer, and what to count it as; `plan` where one was made."""

    result: Result
    answer: Answer = field(default_factory=Answer)
    plan: Plan | None = None


class Admission:
    """Judges objects. Safe to use from several threads, as far as `source` and `history` are.

    Attributes:
        options: what may be written; may be replaced at any time, whole.
    """

    def __init__(
        self,
        options: PlanOptions,
        *,
        source: TemplateSource | None = None,
        history: Callable[[], History] = History,
        refuse: Literal["rules", "types"] = "rules",
        most_warnings: int = 4,
        is_shadow: bool = False,
    ) -> None:
        """Plan by `options`.

        Args:
            options: what may be written.
            source: the templates that workflows refer to.
            history: what earlier runs tell now.
            refuse: whether breaches of Argo's rules are refused, or only wrong types.
            most_warnings: whoever submits is told at most so many things.
            is_shadow: plan and check, but change and refuse nothing.
        """
        self.options = options
        self._source = source
        self._history = history
        self._refuses_rules = refuse == "rules"
        self._most_warnings = most_warnings
        self._is_shadow = is_shadow

    def mutate(self, request: AdmissionRequest) -> Verdict:
        """Return the plan of an object as a patch; never refuses."""
        try:
            return self._planned(request)
        except NotReadable as error:
            return self._unreadable(f"not planned: {error}")
        except RecursionError:
            return self._unreadable("not planned: the object is nested too deep")

    def validate(self, request: AdmissionRequest) -> Verdict:
        """Return whether an object is admitted; refused is only what is malformed for certain."""
        try:
            return self._checked(request)
        except NotReadable as error:
            return self._unreadable(f"not checked: {error}")
        except RecursionError:
            return self._unreadable("not checked: the object is nested too deep")

    def _unreadable(self, sentence: str) -> Verdict:
        return Verdict(Result.UNREADABLE, Answer(warnings=self._told([sentence])))

    def _planned(self, request: AdmissionRequest) -> Verdict:
        raw = _reviewed(request)
        if raw is None:
            return Verdict(Result.IGNORED)
        try:
            plan = plan_object(raw, self.options, source=self._source, history=self._history())
        except MalformedWorkflow as error:
            warnings = self._told(f"not planned: {problem}" for problem in error.problems)
            return Verdict(Result.MALFORMED, Answer(warnings=warnings))
        if self._is_shadow:
            return Verdict(Result.SHADOW if plan.operations else Result.UNCHANGED, plan=plan)
        warnings = self._told([*plan.notes, *map(str, plan.kept)])
        result = Result.PLANNED if plan.operations else Result.UNCHANGED
        return Verdict(result, Answer(plan.patch(), warnings), plan)

    def _checked(self, request: AdmissionRequest) -> Verdict:
        raw = _reviewed(request)
        if raw is None:
            return Verdict(Result.IGNORED)
        before = object_of(request.old_object)
        faults = self._faults(raw)
        # Checked only where it matters: most objects are well.
        old = self._faults(before).certain if faults.certain and before is not None else ()
        known = {_key(item) for item in old}
        new = tuple(item for item in faults.certain if _key(item) not in known)
        if self._is_shadow:
            return Verdict(Result.SHADOW if new else Result.VALID)
        if new:
            return Verdict(Result.REFUSED, Answer(refusal=_refusal(faults.owner, new)))
        told = [*(f"as before, {item}" for item in faults.certain), *map(str, faults.doubts)]
        result = Result.MALFORMED if faults.certain else Result.VALID
        return Verdict(result, Answer(warnings=self._told(told)))

    def _faults(self, raw: Json) -> _Faults:
        try:
            own = open_object(raw)
        except MalformedWorkflow as error:
            return _Faults(error.owner, error.problems)
        alone, lacks = self._breaches(own, None)
        certain = alone if self._refuses_rules else ()
        known = {_key(item) for item in certain}
        # Where it refers to nothing, more cannot be known.
        more, _ = self._breaches(own, self._source) if lacks else ((), ())
        doubts = {_key(item): item for item in (*alone, *more)}
        return _Faults(own.title, certain, [item for key, item in doubts.items() if key not in known])

    def _breaches(
        self, own: ArgoObject, source: TemplateSource | None
    ) -> tuple[tuple[Problem, ...], tuple[Problem, ...]]:
        """Return the breaches of Argo's rules, and the templates that are not there, which may yet come."""
        try:
            check_object(own, source, self.options.settings)
        except MalformedWorkflow as error:
            lacks = tuple(problem for problem in error.problems if problem.is_lack)
            return tuple(problem for problem in error.problems if not problem.is_lack), lacks
        return (), ()

    def _told(self, sentences: Iterable[str]) -> tuple[str, ...]:
        """Return warnings of a length and number that people read."""
        lines = list(dict.fromkeys(_cut(f"stowplan: {sentence}") for sentence in sentences))
        most = self._most_warnings
        if len(lines) <= most or not most:
            return tuple(lines[:most])
        more = f"stowplan: {len(lines) - most + 1} notes more; `stowplan plan` tells all"
        return (*lines[: most - 1], more)


@dataclass(frozen=True, slots=True)
class _Faults:
    """What an object is called, what is wrong with it for certain, and what may be."""

    owner: str
    certain: Sequence[Problem]
    doubts: Sequence[Problem] = ()


def _reviewed(request: AdmissionRequest) -> Json | None:
    """Return the object of a question if it is one that is reviewed; its namespace is set.

    Raises:
        NotReadable: it cannot be read.
    """
    if request.sub_resource or request.kind.kind not in REVIEWED.get(request.operation, ()):
        return None
    raw = object_of(request.object)
    if raw is None or not is_argo_object(raw):
        return None
    metadata = raw.get("metadata")
    if isinstance(metadata, dict) and request.namespace and not as_mapping(raw["metadata"]).get("namespace"):
        return {**raw, "metadata": {**as_mapping(raw["metadata"]), "namespace": request.namespace}}
    return raw


def _key(problem: Problem) -> tuple[str, str, str]:
    return problem.path, problem.value, problem.mend


def _refusal(owner: str, problems: tuple[Problem, ...]) -> Refusal:
    causes = tuple((problem.path, f"is {problem.value}; {problem.mend}") for problem in problems[:CAUSES])
    return Refusal(str(MalformedWorkflow(owner, problems)), causes)


def _cut(sentence: str) -> str:
    # The API server drops a warning with a control character in it; a key of a workflow may have one.
    text = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in " ".join(sentence.split()))
    return text if len(text) <= LONGEST_WARNING else text[: LONGEST_WARNING - 1] + "…"
