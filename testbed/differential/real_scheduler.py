"""The real kube-scheduler's verdict on a case: its own process, a real API server, and our extender.

What keeps the answer true to the case:

* The scheduler is started when all objects are there, and begins to schedule when its caches hold them all:
  no verdict comes from a cache that lags behind.
* Pods are looked at one at a time (the others are held by a gate), and none is ever bound: the extender
  refuses every binding, and kube-scheduler has forgotten its assumption when it writes the pod's condition.
* A pod that was judged is deleted, so that it cannot be tried again while another is looked at. One that is
  nominated for a node is then made anew, as it counts for the others.
* No controllers run; preemption (PostFilter) and the writes before a binding (PreBind) are switched off.
  Every other plugin is as it is by default.

Source: `pkg/scheduler/schedule_one.go`, `backend/queue/` of k8s.io/kubernetes 1.37.2.
"""

from __future__ import annotations

import contextlib
import enum
import shutil
from collections import deque
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Self

from lightkube import ApiError

from testbed import api, control_plane, keeper, network, prerequisites, sweep
from testbed.daemons import Daemon, Daemons
from testbed.differential.extender import NOT_BOUND, RecordingExtender
from testbed.differential.real_objects import DISABLED_ADMISSION, PendingPod, RealObjects
from testbed.differential.real_room import RoomMade
from testbed.differential.real_scores import FLAGS, ScoreLog
from testbed.errors import ComponentFailed
from testbed.site import claim
from testbed.spec import ClusterSpec, Json
from testbed.waiting import wait_for

__all__ = ["Outcome", "RealAnswer", "RealScheduler", "RealVerdict"]

SCHEDULER: Final = "kube-scheduler"
SECONDS_FOR_A_VERDICT: Final = 30.0
NEVER_RETRY_S: Final = 3600
UNSCHEDULABLE: Final = "Unschedulable"
"""The reason in a pod's condition when its nodes were looked at and it found none."""
GAVE_UP: Final = "SchedulerError"
"""The reason when kube-scheduler could not come to an end: with us also when a binding was refused."""


class Outcome(enum.Enum):
    """What became of a pod that kube-scheduler was given."""

    CHOSEN = "a node was chosen"
    UNSCHEDULABLE = "no node was found"
    GAVE_UP = "the cycle ended with an error"
    NEVER_QUEUED = "it was kept out of the queue"
    CRASHED = "kube-scheduler crashed"


@dataclass(frozen=True, slots=True)
class RealVerdict:
    """What kube-scheduler said of one pod.

    Attributes:
        outcome: What became of it.
        feasible: The nodes that passed all filters; empty when none did, or the pod was never looked at.
        chosen: The node that it was to be bound to.
        message: kube-scheduler's words, as in the pod's condition PodScheduled, or its last ones in the log.
        totals: The scores of the feasible nodes, of which the highest is chosen; empty with fewer than two.
        nominated: The node that the pod is nominated for, where that is feasible: it would have been taken,
            had the extender not sent kube-scheduler on. `chosen` is what it takes of all.
    """

    outcome: Outcome
    feasible: frozenset[str]
    chosen: str | None
    message: str
    totals: Mapping[str, int] = field(default_factory=dict[str, int])
    nominated: str | None = None


@dataclass(frozen=True, slots=True)
class RealAnswer:
    """The verdicts on a case.

    Attributes:
        verdicts: By `namespace/name` of the pending pods.
        objects: The case's objects as the API server held them, defaults and all, in the case's order.
    """

    verdicts: dict[str, RealVerdict]
    objects: tuple[Json, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """The case was not judged: the API server does not take one of its objects."""

    message: str


class RealScheduler(contextlib.AbstractContextManager["RealScheduler"]):
    """A control plane of its own without controllers, and kube-scheduler; use it as a context manager."""

    def __enter__(self) -> Self:
        """Bring it up.

        Raises:
            MissingPrerequisite: The machine lacks something.
            ComponentFailed: A part did not come up.
        """
        prerequisites.check(ClusterSpec())
        sweep.sweep_orphans()
        self._site = claim(owned=True)
        daemons = Daemons(self._site)
        with contextlib.ExitStack() as undo:
            undo.callback(keeper.watch(self._site).dismiss)
            undo.callback(daemons.reap)
            undo.callback(sweep.sweep, self._site)
            network.make_hub(self._site)
            self._plane = control_plane.start(
                self._site,
                daemons,
                has_controllers=False,
                api_server_flags=(
                    f"--disable-admission-plugins={','.join(DISABLED_ADMISSION)}",
                    "--delete-collection-workers=4",
                ),
            )
            client = undo.enter_context(api.connect(self._site.kubeconfig))
            self._objects = RealObjects(client)
            listening = network.listen(self._site.hub, "127.0.0.1")
            self._extender = undo.enter_context(RecordingExtender(listening))
            self._undo = undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Take everything away."""
        self._undo.close()

    def keep_logs(self, folder: Path) -> None:
        """Copy the logs of all components to `folder/NAME`, NAME being the cluster's."""
        shutil.copytree(self._site.folder / "logs", folder / self._site.name, dirs_exist_ok=True)

    def judge(self, objects: Sequence[Json]) -> RealAnswer | Refused:
        """Give kube-scheduler the pending pods of a case one by one.

        Args:
            objects: Plain manifests, as of `generator.generate`.

        Raises:
            ComponentFailed: A part ended, or gave no answer in time.
        """
        try:
            try:
                self._objects.make(objects)
            except ApiError as refused:
                return Refused(str(refused.status.message))
            held = self._objects.read_back()
            verdicts = self._judge_all()
        finally:
            self._objects.remove()
        return RealAnswer({key: verdicts[key] for key in sorted(verdicts)}, tuple(held))

    @contextlib.contextmanager
    def holding(self, objects: Sequence[Json]) -> Generator[RealObjects]:
        """Have the API server hold a case's objects for the time of a block; all pending pods are held back.

        Raises:
            ApiError: It does not take one of them.
        """
        try:
            self._objects.make(objects)
            yield self._objects
        finally:
            self._objects.remove()

    def make_room(self, objects: Sequence[Json], key: str) -> RoomMade:
        """Give kube-scheduler one pending pod of a case, which fits on no node, and see what it preempts.

        The victims are deleted before it says that the pod is unschedulable: for that a feature gate is off,
        which moves these requests into the background and changes nothing of what is chosen.

        Args:
            objects: Plain manifests, as of `generator.generate`.
            key: `namespace/name` of the pod.

        Raises:
            ApiError: The API server does not take an object.
            ComponentFailed: A part ended, or gave no answer in time.
        """
        with self.holding(objects) as held:
            pod = held.pending[key]
            patient = {"podInitialBackoffSeconds": NEVER_RETRY_S, "podMaxBackoffSeconds": NEVER_RETRY_S}
            self._plane.start_scheduler(
                patient, SCHEDULER, ("--feature-gates=SchedulerAsyncPreemption=false",)
            )
            try:
                held.release(pod)
                wait_for(
                    f"kube-scheduler to refuse pod {key}",
                    lambda: held.condition(pod)[0] == UNSCHEDULABLE,
                    SECONDS_FOR_A_VERDICT,
                )
                return held.room_made(pod)
            finally:
                self._plane.daemons.running[SCHEDULER].kill()
                self._plane.daemons.forget(SCHEDULER)

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        return self._site.kubeconfig

    def _judge_all(self) -> dict[str, RealVerdict]:
        waiting = deque(
            sorted(
                self._objects.pending.values(),
                key=lambda pod: (pod.may_never_be_queued, bool(pod.nominated_node), pod.key),
            )
        )
        verdicts: dict[str, RealVerdict] = {}
        while waiting:
            with self._scheduling() as scores:
                has_crashed = False
                while waiting and not has_crashed:
                    pod = waiting.popleft()
                    verdict = replace(self._judge(pod), totals=scores.totals(pod.key))
                    has_crashed = verdict.outcome is Outcome.CRASHED
                    verdicts[pod.key] = verdict
                    self._objects.take_away(pod)
                    if pod.nominated_node and waiting:
                        self._objects.hold_again(pod)
        return verdicts

    def _judge(self, pod: PendingPod) -> RealVerdict:
        self._objects.release(pod)
        if not pod.may_never_be_queued:
            return self._wait_for_verdict(pod)
        self._pass_by(pod.namespace)
        return self._verdict(pod) or RealVerdict(Outcome.NEVER_QUEUED, frozenset(), None, "")

    @contextlib.contextmanager
    def _scheduling(self) -> Generator[ScoreLog]:
        """Run kube-scheduler, which takes the cluster as it is when it starts; yields what it writes."""
        scores = ScoreLog(self._site.log(SCHEDULER))
        self._plane.start_scheduler(_configuration(self._extender.configuration), SCHEDULER, FLAGS)
        try:
            yield scores
        finally:
            self._plane.daemons.running[SCHEDULER].kill()
            self._plane.daemons.forget(SCHEDULER)

    def _pass_by(self, namespace: str) -> None:
        """Return when kube-scheduler has looked at every pod that is in its queue now."""
        last = self._objects.make_last(namespace)
        self._wait_for_verdict(last)
        self._objects.take_away(last)

    def _wait_for_verdict(self, pod: PendingPod) -> RealVerdict:
        scheduler = self._plane.daemons.running[SCHEDULER]

        def look() -> RealVerdict | None:
            if scheduler.process.poll() is not None:
                return self._crashed(pod, scheduler)
            self._plane.daemons.check()
            return self._verdict(pod)

        return wait_for(f"verdict of kube-scheduler on pod {pod.key}", look, SECONDS_FOR_A_VERDICT)

    def _verdict(self, pod: PendingPod) -> RealVerdict | None:
        """What kube-scheduler has said of a pod; None: nothing yet, or not the last word."""
        reason, message = self._objects.condition(pod)
        if reason not in (UNSCHEDULABLE, GAVE_UP):
            return None
        told = self._extender.recorded(pod.uid)
        if reason == UNSCHEDULABLE:
            outcome = Outcome.UNSCHEDULABLE
        else:
            outcome = Outcome.CHOSEN if NOT_BOUND in message else Outcome.GAVE_UP
        if (outcome is Outcome.CHOSEN) != (told.chosen is not None):
            raise ComponentFailed(
                f"kube-scheduler says of pod {pod.key} {message!r}, and told its extender {told.chosen!r}"
            )
        nominated = pod.nominated_node if told.fits_where_nominated else None
        return RealVerdict(outcome, told.feasible or frozenset(), told.chosen, message, nominated=nominated)

    def _crashed(self, pod: PendingPod, scheduler: Daemon) -> RealVerdict:
        """The verdict on the pod over which kube-scheduler crashed, which it does when a plugin panics."""
        try:
            scheduler.check()
        except ComponentFailed as ended:
            message = str(ended)
        else:
            message = ""
        told = self._extender.recorded(pod.uid)
        return RealVerdict(Outcome.CRASHED, told.feasible or frozenset(), told.chosen, message)


def _configuration(extender: Json) -> Json:
    """Fields of its configuration: all nodes are looked at, nothing is written, nothing is tried twice."""
    off = {"disabled": [{"name": "*"}]}
    return {
        "percentageOfNodesToScore": 100,
        "podInitialBackoffSeconds": NEVER_RETRY_S,
        "podMaxBackoffSeconds": NEVER_RETRY_S,
        "extenders": [extender],
        "profiles": [{"schedulerName": "default-scheduler", "plugins": {"postFilter": off, "preBind": off}}],
    }
