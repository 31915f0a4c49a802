"""Events about what was decided, for `kubectl describe`: never in the way of deciding.

An event is put into a queue of limited length and sent by a task of its own. What is said again about the
same object becomes a series: one event whose count grows, sent at most every `refresh_s`. An object that is
talked about too much is talked about less (a token bucket, as Kubernetes' own recorder has). What is lost on
the way is counted, by the reason why. While there is more urgent work for the API server, events trickle:
each costs it as much as a binding does. None waits long for that.
Source: kubernetes client-go tools/events (series), tools/record (spam filter), and
pkg/apis/core/validation/events.go (lengths, in bytes), 1.37.
"""

import asyncio
import enum
import math
import random
import time as clock
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from stowplan.kube.api import times
from stowplan.kube.api.backoff import Backoff
from stowplan.kube.api.client import ApiClient, Patch, PatchKind
from stowplan.kube.api.errors import Conflict, KubernetesError, NotFound
from stowplan.kube.api.resources import EVENTS, Resource

__all__ = ["Event", "EventRecorder", "EventType", "RecorderHealth", "RecorderSettings", "Regarding"]

NOTE_BYTES = 1024
NAME_CHARACTERS = 253
DEFAULT_NAMESPACE = "default"  # of events about objects without a namespace

Json = dict[str, Any]
K = TypeVar("K")
V = TypeVar("V")


class EventType(enum.StrEnum):
    """How an event is meant."""

    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True, slots=True)
class Regarding:
    """The object that an event is about.

    Attributes:
        resource: Its kind.
        name: Its name.
        uid: Its uid.
        namespace: Its namespace; empty for kinds without.
    """

    resource: Resource
    name: str
    uid: str
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that is worth telling.

    Attributes:
        regarding: What it is about.
        type: How it is meant.
        reason: One word in upper camel case, such as `FailedScheduling`; at most 128 bytes.
        action: What was being done, such as `Scheduling`; at most 128 bytes.
        note: A sentence; cut at 1,024 bytes.
    """

    regarding: Regarding
    type: EventType
    reason: str
    action: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecorderSettings:
    """Limits of a recorder; times in seconds.

    Attributes:
        queue_events: Events that may wait to be sent.
        burst_events: Events about one object that are sent however fast they come.
        refill_s: Then one more in so many seconds.
        series_s: What is said again within so many seconds continues a series.
        refresh_s: A series is sent at most so often.
        objects: Objects and series that are remembered.
        tries: How often an event is sent before it is given up.
        trickle_s: While more urgent work is under way, one event in so many seconds.
        longest_wait_s: An event that has waited for so long is as urgent as any work.
        at_once: Events that are being sent at the same time. One after the other, a busy API server takes 50
            per second: the queue fills, and its end is lost.
    """

    queue_events: int = 10_000
    burst_events: int = 25
    refill_s: float = 300.0
    series_s: float = 360.0
    refresh_s: float = 30.0
    objects: int = 4096
    tries: int = 5
    trickle_s: float = 0.05
    longest_wait_s: float = 30.0
    at_once: int = 8


@dataclass(frozen=True, slots=True)
class RecorderHealth:
    """How a recorder fares.

    Attributes:
        waiting: Events in the queue.
        sent: Events that were created.
        series: Updates of series that were sent.
        dropped: Events that were lost, by reason: `queue full`, `too many about one object`, or the name of
            the error with which sending failed for the last time.
        error: What failed last, in words.
    """

    waiting: int
    sent: int
    series: int
    dropped: Mapping[str, int]
    error: str


@dataclass(slots=True)
class _Series:
    """What was said once and may be said again."""

    event: Event
    name: str
    first_s: float  # wall time in seconds since the epoch
    last_s: float
    seen_s: float  # the same moment by the monotonic clock
    count: int = 1
    sent_count: int = 0
    sent_s: float = -math.inf  # monotonic
    is_waiting: bool = False  # whether it is in the queue …
    queued_s: float = -math.inf  # … and since when, monotonic
    is_being_sent: bool = False  # what is said meanwhile is told with the next count


class EventRecorder:
    """Sends events in the background.

    Args:
        client: Where.
        controller: Who says it, such as `stowplan-scheduler`.
        instance: Which instance of it, such as the pod's name.
        settings: Limits.
        gives_way: Whether there is more urgent work for the API server now.
        generator: Where the lengths of pauses come from.
        monotonic: A clock in seconds.
        wall: A clock in seconds since the epoch.
    """

    def __init__(  # noqa: PLR0913 - five of them have a default that fits
        self,
        client: ApiClient,
        controller: str,
        instance: str,
        *,
        settings: RecorderSettings | None = None,
        gives_way: Callable[[], bool] = lambda: False,
        generator: random.Random | None = None,
        monotonic: Callable[[], float] = clock.monotonic,
        wall: Callable[[], float] = clock.time,
    ) -> None:
        self._gives_way = gives_way
        self._client = client
        self._controller = controller
        self._instance = instance
        self._settings = settings or RecorderSettings()
        self._generator = generator or random.Random()  # noqa: S311 - spreads pauses, guards nothing
        self._monotonic = monotonic
        self._wall = wall
        self._queue: deque[_Series] = deque()
        self._wake = asyncio.Event()
        self._sending = asyncio.Lock()  # whoever holds it takes from the queue
        self._series: OrderedDict[tuple[str, ...], _Series] = OrderedDict()
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # tokens, and when there were
        self._sent = self._updates = 0
        self._dropped: Counter[str] = Counter()
        self._error = ""

    @property
    def health(self) -> RecorderHealth:
        """How it fares now."""
        return RecorderHealth(len(self._queue), self._sent, self._updates, dict(self._dropped), self._error)

    def record(self, event: Event) -> None:
        """Take note of an event; returns at once, and never fails."""
        now_s, wall_s = self._monotonic(), self._wall()
        about = event.regarding
        key = (about.uid, about.namespace, about.name, event.type, event.reason, event.action, event.note)
        series = self._series.get(key)
        if series is not None and now_s - series.seen_s < self._settings.series_s:
            self._series.move_to_end(key)
            series.count += 1
            series.last_s, series.seen_s = wall_s, now_s
            if now_s - series.sent_s >= self._settings.refresh_s:
                self._enqueue(series)
            return
        if not self._has_token(about.uid or about.name, now_s):
            self._dropped["too many about one object"] += 1
            return
        name = f"{about.name[: NAME_CHARACTERS - 17]}.{int(wall_s * 1e9):016x}"
        series = _Series(event, name, wall_s, wall_s, now_s)
        if self._enqueue(series):
            _remember(self._series, key, series, self._settings.objects)

    async def run(self) -> None:
        """Send what comes, until cancelled."""
        while True:
            self._wake.clear()
            async with self._sending:
                await self._send_waiting()
            try:
                async with asyncio.timeout(self._settings.refresh_s):
                    await self._wake.wait()
            except TimeoutError:  # a series that is not continued has counts that were not sent
                self._enqueue_counts(self._monotonic() - self._settings.refresh_s)

    async def flush(self) -> None:
        """Send all that waits and all counts: at the end of a process, so that its last words are heard."""
        async with self._sending:  # `run` may be at it: what it sends is heard before this returns
            self._enqueue_counts(self._monotonic())
            await self._send_waiting()

    async def _send_waiting(self) -> None:
        free = asyncio.Semaphore(self._settings.at_once)
        async with asyncio.TaskGroup() as group:
            while self._queue:
                if self._gives_way() and not self._is_overdue(self._queue[0]):
                    await asyncio.sleep(self._settings.trickle_s)
                await free.acquire()
                series = self._queue.popleft()
                series.is_waiting, series.is_being_sent = False, True
                group.create_task(self._deliver_one(series, free))

    async def _deliver_one(self, series: _Series, free: asyncio.Semaphore) -> None:
        try:
            await self._deliver(series)
        except asyncio.CancelledError:  # it keeps its name: sent twice it is one event
            series.is_waiting = True
            self._queue.appendleft(series)
            raise
        finally:
            series.is_being_sent = False
            free.release()

    def _is_overdue(self, series: _Series) -> bool:
        return self._monotonic() - series.queued_s >= self._settings.longest_wait_s

    def _enqueue_counts(self, sent_before_s: float) -> None:
        for series in self._series.values():
            if series.count > series.sent_count and series.sent_s <= sent_before_s:
                self._enqueue(series)

    def _enqueue(self, series: _Series) -> bool:
        if series.is_waiting or series.is_being_sent:
            return True
        if len(self._queue) >= self._settings.queue_events:
            self._dropped["queue full"] += 1
            return False
        series.is_waiting = True
        series.queued_s = self._monotonic()
        self._queue.append(series)
        self._wake.set()
        return True

    def _has_token(self, about: str, now_s: float) -> bool:
        settings = self._settings
        tokens, at_s = self._buckets.get(about, (float(settings.burst_events), now_s))
        tokens = min(float(settings.burst_events), tokens + (now_s - at_s) / settings.refill_s)
        has_token = tokens >= 1.0
        _remember(self._buckets, about, (tokens - has_token, now_s), settings.objects)
        return has_token

    async def _deliver(self, series: _Series) -> None:
        pauses = Backoff(0.2, 5.0, self._generator)
        for left in reversed(range(self._settings.tries)):
            try:
                await self._send(series)
            except KubernetesError as error:
                self._error = str(error)
                if not error.is_transient or left == 0:
                    self._dropped[type(error).__name__] += 1
                    return
                await asyncio.sleep(pauses.pause_s())
            else:
                return

    async def _send(self, series: _Series) -> None:
        count = series.count
        namespace = series.event.regarding.namespace or DEFAULT_NAMESPACE
        if series.sent_count:
            told = {"count": count, "lastObservedTime": times.micro_time(series.last_s)}
            patch = Patch(PatchKind.MERGE, {"series": told})
            try:
                await self._client.patch(EVENTS, series.name, patch, namespace)
                self._updates += 1
            except NotFound:  # events live for an hour
                series.name = f"{series.name[: NAME_CHARACTERS - 9]}.{count:08x}"
                series.sent_count = 0
        if not series.sent_count:
            try:
                await self._client.create(EVENTS, self._body(series, namespace), namespace)
            except Conflict as error:
                if error.reason != "AlreadyExists":
                    raise  # else an earlier try, whose answer was lost, did it
            self._sent += 1
        series.sent_count, series.sent_s = count, self._monotonic()

    def _body(self, series: _Series, namespace: str) -> Json:
        event = series.event
        about = event.regarding
        regarding = {
            "apiVersion": about.resource.api_version,
            "kind": about.resource.kind,
            "name": about.name,
            "namespace": about.namespace,
            "uid": about.uid,
        }
        body: Json = {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": series.name, "namespace": namespace},
            "eventTime": times.micro_time(series.first_s),
            "reportingController": self._controller,
            "reportingInstance": self._instance,
            "action": event.action,
            "reason": event.reason,
            "regarding": {name: value for name, value in regarding.items() if value},
            "note": _cut(event.note),
            "type": event.type.value,
        }
        if series.count > 1:
            body["series"] = {
                "count": series.count,
                "lastObservedTime": times.micro_time(series.last_s),
            }
        return body


def _remember(table: OrderedDict[K, V], key: K, value: V, most: int) -> None:
    """Put in an entry as the newest, and forget the oldest when there are too many."""
    table[key] = value
    table.move_to_end(key)
    if len(table) > most:
        table.popitem(last=False)


def _cut(note: str) -> str:
    """A note of at most as many bytes as the API takes, with a sign where it was cut."""
    encoded = note.encode(errors="replace")
    if len(encoded) <= NOTE_BYTES:
        return encoded.decode()
    sign = "…"
    return encoded[: NOTE_BYTES - len(sign.encode())].decode(errors="ignore") + sign
