"""What happens between the end of a task on a machine and the scheduler's next look at the queue.

Ends are heard of at once, or when the node's report arrives, or when a cut-off node is back; a task that was
lost is tried again after its back-off; tasks that became ready are submitted when the workflow engine has got
round to it. The latencies are those of `SimulationOptions`; at their defaults all of this happens at the
instant of the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stowplan.core.domain import PendingTask
from stowplan.simulate.backoff import SchedulerBackoff
from stowplan.simulate.book import EndStatus, TaskBook
from stowplan.simulate.floor import Floor
from stowplan.simulate.kernel import EventKind, KernelEvents
from stowplan.simulate.ledger import AttemptStatus
from stowplan.simulate.options import SimulationOptions
from stowplan.simulate.pending import PendingQueue
from stowplan.simulate.site import Site
from stowplan.simulate.timeline import Timeline

__all__ = ["ControlPlane"]

_DONE = AttemptStatus.DONE
_STATUS_OF = {
    int(EventKind.FINISHED): AttemptStatus.DONE,
    int(EventKind.OOM_KILLED): AttemptStatus.OOM_KILLED,
    int(EventKind.EVICTED): AttemptStatus.EVICTED,
}
_End = tuple[int, float, AttemptStatus]
"""An attempt, when it ended, and how."""


class ControlPlane:
    """Keeps the book of tasks, the queue and the cluster state up with what the machines do.

    Attributes:
        wants_cycle: something changed that a scheduling cycle should look at.
        backoff: which pending tasks kube-scheduler would look at again.
    """

    def __init__(
        self,
        *,
        site: Site,
        book: TaskBook,
        floor: Floor,
        pending: PendingQueue,
        timeline: Timeline,
        options: SimulationOptions,
    ) -> None:
        """Begin with nothing under way."""
        self.wants_cycle = False
        self.backoff = SchedulerBackoff(options.scheduler_backoff_s, options.scheduler_max_backoff_s)
        self._site = site
        self._book = book
        self._floor = floor
        self._pending = pending
        self._timeline = timeline
        self._options = options
        self._unheard: dict[int, list[_End]] = {}  # node → ends that nobody heard of yet
        self._backing_off: set[int] = set()  # ids of lost tasks that are not pending yet
        self._submitting: dict[str, PendingTask] = {}  # ready, but not yet submitted by the workflow engine

    @property
    def has_tasks_under_way(self) -> bool:
        """Whether tasks will become pending without anything else happening."""
        return bool(self._backing_off or self._submitting)

    @property
    def unheard_attempts(self) -> set[int]:
        """Attempts that ended on their machine, but for the control plane still run."""
        return {attempt for ends in self._unheard.values() for attempt, _, _ in ends}

    @property
    def keys_under_way(self) -> set[str]:
        """Keys of tasks that are neither pending nor running, but will be pending."""
        return {self._book.keys[task_id] for task_id in self._backing_off} | self._submitting.keys()

    def take_in(self, events: KernelEvents) -> list[int]:
        """Take in what ended; return the kernel ids of what was none of our tasks."""
        foreign: list[int] = []
        conditions = self._site.conditions
        reports_late = self._options.status_report_s > 0.0
        for kind, kernel_id, time_s in zip(
            events.kind.tolist(), events.task.tolist(), events.time_s.tolist(), strict=True
        ):
            status = _STATUS_OF.get(kind)
            if status is None:
                continue
            attempt = self._floor.attempt_of.pop(kernel_id, -1)
            if attempt < 0:
                foreign.append(kernel_id)
                continue
            node = self._floor.ledger.node[attempt]
            if conditions[node].is_mute:
                self._unheard.setdefault(node, []).append((attempt, time_s, status))
            elif reports_late:
                self._report_later(node, (attempt, time_s, status))
            else:
                self._end(attempt, time_s, time_s, status)
        return foreign

    def queue(self, tasks: list[PendingTask]) -> None:
        """Have tasks pending."""
        if tasks:
            self._pending.add(tasks)
            self.wants_cycle = True

    # ---- what disturbances ask ------------------------------------------------------------------

    def lose_pods(self, node: int, time_s: float) -> None:
        """Give up every pod bound to the node; each is tried again or fails."""
        ended = {attempt for attempt, _, _ in self._unheard.pop(node, ())}
        for attempt in self._floor.attempts_on(node):
            if self._floor.ledger.status[attempt] != AttemptStatus.RUNNING:
                continue  # its gang was lost with another of its tasks
            if attempt not in ended:
                self._floor.stop(attempt)
            self._end(attempt, time_s, time_s, AttemptStatus.NODE_LOST)

    def hear_from(self, node: int, time_s: float) -> None:
        """Take in what ended on the node while nobody heard of it."""
        for attempt, ended_s, status in self._unheard.pop(node, ()):
            self._end(attempt, ended_s, time_s, status)

    def node_changed(self) -> None:
        """Have the scheduler look again."""
        self.wants_cycle = True
        self.backoff.note_room()

    # ---- from an end to the queue ---------------------------------------------------------------

    def _report_later(self, node: int, end: _End) -> None:
        """Hear of an end when the node's report arrives, unless it is heard of, or the node lost, before."""
        self._unheard.setdefault(node, []).append(end)

        def hear(time_s: float) -> None:
            unheard = self._unheard.get(node, [])
            if end in unheard and not self._site.conditions[node].is_mute:
                unheard.remove(end)
                self._end(end[0], end[1], time_s, end[2])

        self._timeline.plan(end[1] + self._options.status_report_s, hear)

    def _end(self, attempt: int, ended_s: float, heard_s: float, status: AttemptStatus) -> None:
        """End an attempt at `ended_s` of which the control plane hears at `heard_s`."""
        book = self._book
        others = () if status is _DONE else self._floor.gangs.others(attempt)
        task_id = self._floor.end(attempt, ended_s, status)
        self.wants_cycle = True
        self.backoff.note_room()
        if status is _DONE:
            self._submit(book.done(task_id, heard_s), heard_s)
        elif book.attempts[task_id] > self._options.max_retries:
            book.failed(task_id, heard_s, EndStatus.OPEN)
        else:
            book.retry(task_id)
            back_off_s = self._options.retry_backoff_s * 2.0 ** (book.attempts[task_id] - 1)
            if back_off_s == 0.0:
                self.queue([book.pending_again(task_id, heard_s)])
            else:
                self._backing_off.add(task_id)
                self._timeline.plan(heard_s + back_off_s, lambda time_s: self._queue_again(task_id, time_s))
        self._lose_gang(others, heard_s)

    def _lose_gang(self, attempts: Sequence[int], time_s: float) -> None:
        """Take what is left of a gang that lost a task off its machines: it begins again as a whole."""
        for attempt in attempts:
            if attempt in self._floor.gangs and attempt not in self.unheard_attempts:
                self._floor.stop(attempt)
                self._end(attempt, time_s, time_s, AttemptStatus.NODE_LOST)

    def _queue_again(self, task_id: int, time_s: float) -> None:
        self._backing_off.discard(task_id)
        self.queue([self._book.pending_again(task_id, time_s)])

    def _submit(self, tasks: list[PendingTask], now_s: float) -> None:
        """Have the workflow engine submit tasks that became ready."""
        if self._options.submission_s == 0.0 or not tasks:
            self.queue(tasks)
            return
        at_s = now_s + self._options.submission_s
        later = [replace(task, ready_s=at_s) for task in tasks]
        self._submitting.update((task.key, task) for task in later)

        def submit(_: float) -> None:
            self.queue([task for task in later if self._submitting.pop(task.key, None) is not None])

        self._timeline.plan(at_s, submit)
