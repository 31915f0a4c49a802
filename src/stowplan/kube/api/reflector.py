"""A copy of all objects of one kind that stays in step with the API server, whatever breaks on the way.

List all, then watch from the list's resource version. A watch that ends is resumed from the last version
seen. When the server no longer has that version (410), everything is listed again and compared with the copy,
so that objects which vanished meanwhile are reported as deleted: a watch alone would never say so. The
receiver sees each object's changes in order, and sees none twice: an object whose resource version it has
seen is passed over.

Versions only grow. A server whose versions went back was restored from a backup: what it says is listed anew
and reported whole, for a number may now stand for something else. Such a server takes a watch from a version
that it has not come to, and says nothing of what happens until it has (tried with 1.37), so before a watch is
resumed the server is asked where it is. What stays unseen is a server that has already passed our version
again; Kubernetes asks whoever restores to add to the versions then.

What is going on is a state that can be read at any time (`Reflector.health`); nothing is retried in silence.
Source of the protocol: kubernetes.io/docs/reference/using-api/api-concepts (watches, bookmarks, chunked
lists).
"""

import asyncio
import random
import time
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

import msgspec

from stowplan.errors import StowplanError
from stowplan.kube.api.backoff import Backoff
from stowplan.kube.api.client import ApiClient
from stowplan.kube.api.errors import Expired, KubernetesError, NotFound, Refused, ServerFailed, Unreadable
from stowplan.kube.api.reflection import Health, Identity, Receiver, ReflectorState, Settings
from stowplan.kube.api.resources import Resource
from stowplan.kube.api.wire import DEEPEST_LEVEL, Page, WatchEvent, is_cut

__all__ = ["Reflector"]

FROM_THE_FUTURE = "Too large resource version"  # the server has not come to that version, or no longer
EVENTS_AT_A_TIME = 100  # then whatever else waits on the loop has its turn

T = TypeVar("T")


class _Identified(msgspec.Struct):
    metadata: Identity


_IDENTITIES = msgspec.json.Decoder(_Identified)


class Reflector(Generic[T]):
    """Keeps a receiver in step with all objects of one kind.

    Args:
        client: Where the objects are.
        resource: Their kind.
        decode: From an object's JSON to what the receiver wants of it.
        receiver: Who is told.
        namespace: None watches all namespaces.
        query: `labelSelector`, `fieldSelector`, …
        settings: How patient it is.
        generator: Where the lengths of pauses come from.
        monotonic: A clock in seconds.
    """

    def __init__(  # noqa: PLR0913 - five of them have a default that fits
        self,
        client: ApiClient,
        resource: Resource,
        decode: Callable[[bytes | msgspec.Raw], T],
        receiver: Receiver[T],
        *,
        namespace: str | None = None,
        query: Mapping[str, str] | None = None,
        settings: Settings | None = None,
        generator: random.Random | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.resource = resource
        self._client = client
        self._decode = decode
        self._receiver = receiver
        self._namespace = namespace
        self._query = dict(query or {})
        self._settings = settings or Settings()
        self._generator = generator or random.Random()  # noqa: S311 - spreads pauses, guards nothing
        self._monotonic = monotonic
        first_s, longest_s = self._settings.first_pause_s, self._settings.longest_pause_s
        self._pauses = Backoff(first_s, longest_s, self._generator)
        self._absences = Backoff(first_s, self._settings.absent_pause_s, self._generator)
        self._repeats = Backoff(first_s, longest_s, self._generator)
        self._is_repeated = False  # whether the watch before did no good either
        self._known: dict[str, Identity] = {}
        self._unusable: dict[str, str] = {}
        self._version = ""
        self._is_restored = False  # versions went back: none that is known means anything
        self._has_progressed = False
        self._state = ReflectorState.LISTING
        self._error = ""
        self._is_synced = False
        self._since_s = self._heard_s = monotonic()
        self._lists = self._watches = self._events = 0
        self._failures: dict[str, int] = {}

    @property
    def health(self) -> Health:
        """How it fares now."""
        return Health(
            self._state,
            self._is_synced,
            self._error,
            self._since_s,
            self._heard_s,
            self._lists,
            self._watches,
            self._events,
            dict(self._failures),
            dict(self._unusable),
        )

    async def run(self) -> None:
        """Stay in step until cancelled; what fails is tried again, and can be seen in the health."""
        while True:
            self._has_progressed = False
            failure: KubernetesError | None = None
            try:
                if not self._version:
                    await self._list()
                    self._absences.reset()
                else:
                    await self._check_history()
                await self._watch()
            except KubernetesError as error:
                failure = error
                self._failures[type(error).__name__] = self._failures.get(type(error).__name__, 0) + 1
            await asyncio.sleep(self._next(failure))

    def _next(self, failure: KubernetesError | None) -> float:
        """Where to go on after a watch that ended or failed; the pause before that, in seconds."""
        if self._has_progressed:
            self._pauses.reset()
            self._repeats.reset()
            self._is_repeated = False
        if isinstance(failure, NotFound):
            self._absent(failure)
            return self._absences.pause_s()
        if isinstance(failure, ServerFailed) and FROM_THE_FUTURE in str(failure):
            self._is_restored = True
        # What was not understood would come again if the watch were resumed.
        must_list = self._is_restored or isinstance(failure, Expired | Unreadable)
        if must_list:
            self._version = ""
        if failure is not None and not isinstance(failure, Expired):
            self._enter(ReflectorState.WAITING, str(failure))
            if not must_list:
                return self._pauses.pause_s(_asked_s(failure))
        # At once, however long the pauses were before; but what did no good last time may do none for ever.
        pause_s = self._repeats.pause_s() if self._is_repeated else 0.0
        self._is_repeated = not self._has_progressed
        return pause_s

    async def _list(self) -> None:
        if self._state is ReflectorState.WATCHING:
            self._enter(ReflectorState.LISTING)
        seen: set[str] = set()
        token = ""
        while True:
            page = await self._page(token)
            self._enter(ReflectorState.LISTING)  # only now: a try that fails changes nothing
            self._heard_s = self._monotonic()
            for raw in page.items:
                identity = self._identity(raw)
                seen.add(identity.key)
                self._set(identity, raw, was_cut=page.is_cut and is_cut(raw))
            token = page.continue_token
            if not token:
                break
            await asyncio.sleep(0)  # a long list must not keep the scheduler from its work
        for key in [key for key in (*self._known, *self._unusable) if key not in seen]:
            self._delete(key)
        self._version = page.resource_version
        self._is_restored = False
        self._lists += 1
        self._is_synced = True
        self._receiver.synced()

    async def _check_history(self) -> None:
        """Make sure that the server has come to the version from which the watch is to go on.

        Raises:
            Unreadable: It has not: it was restored.
        """
        page = await self._client.page(self.resource, self._namespace, query=self._query, page_items=1)
        self._compare(page.resource_version)

    def _compare(self, version: str) -> None:
        if _number(version) < _number(self._version):
            self._is_restored = True
            raise Unreadable(
                f"{self.resource} are at version {version} after {self._version}: the server was restored "
                "from a backup; all is listed anew"
            )

    async def _page(self, token: str) -> Page:
        """A page; one in the middle is asked for again, lest a long list over a bad line never ends."""
        settings = self._settings
        pauses = Backoff(settings.first_pause_s, settings.longest_pause_s, self._generator)
        tries = settings.page_tries if token else 1
        while True:
            tries -= 1
            try:
                return await self._client.page(
                    self.resource,
                    self._namespace,
                    query=self._query,
                    page_items=settings.page_items,
                    continue_token=token,
                )
            except KubernetesError as error:
                if not error.is_transient or tries == 0:
                    raise
                self._error = str(error)
                await asyncio.sleep(pauses.pause_s(_asked_s(error)))

    async def _watch(self) -> None:
        settings = self._settings
        self._watches += 1
        watch_s = settings.watch_s * (1.0 + 0.5 * self._generator.random())
        watch = self._client.watch(
            self.resource,
            self._namespace,
            resource_version=self._version,
            query=self._query,
            silence_s=settings.silence_s,
            server_timeout_s=max(1, int(watch_s)),
        )
        begin_s = self._monotonic()
        try:
            async with watch as events:
                self._enter(ReflectorState.WATCHING)
                begin_s = self._heard_s = self._monotonic()
                number = 0
                async for event in events:
                    self._heard_s = self._monotonic()
                    self._take(event)
                    self._has_progressed = True
                    number += 1
                    if number % EVENTS_AT_A_TIME == 0:
                        await asyncio.sleep(0)
        finally:
            if self._monotonic() - begin_s >= settings.lively_s:
                self._has_progressed = True

    def _take(self, event: WatchEvent) -> None:
        if event.type == "BOOKMARK":
            identity, version = None, _bookmark(event.object)
        else:
            identity = self._identity(event.object)
            version = identity.resource_version
        self._compare(version)
        if identity is not None:
            if event.type == "DELETED":
                self._delete(identity.key)
            else:
                self._set(identity, event.object, was_cut=event.is_cut and is_cut(event.object))
        self._version = version

    def _set(self, identity: Identity, raw: msgspec.Raw, *, was_cut: bool) -> None:
        """Report an object unless this version of it was reported."""
        key = identity.key
        known = self._known.get(key)
        if known is not None and known.uid != identity.uid:  # deleted and made again, unseen
            self._delete(key)
        elif (
            known is not None
            and known.resource_version == identity.resource_version
            and not self._is_restored
        ):
            return
        try:
            item = self._read(raw, was_cut=was_cut)
        except Exception as error:  # noqa: BLE001 - whatever a reader trips over in one object, others go on
            # Nor may its last version stay as if it were now.
            self._delete(key)
            self._unusable[key] = _why(error)
            return
        self._unusable.pop(key, None)
        self._known[key] = identity
        self._events += 1
        self._receiver.set(identity, item)

    def _read(self, raw: msgspec.Raw, *, was_cut: bool) -> T:
        if was_cut:
            raise Unreadable(f"it is nested deeper than {DEEPEST_LEVEL} levels")
        return self._decode(raw)

    def _delete(self, key: str) -> None:
        self._unusable.pop(key, None)
        identity = self._known.pop(key, None)
        if identity is not None:
            self._events += 1
            self._receiver.delete(identity)

    def _identity(self, raw: msgspec.Raw) -> Identity:
        try:
            return _IDENTITIES.decode(raw).metadata
        except msgspec.DecodeError as error:
            raise Unreadable(f"an object among {self.resource} has no usable metadata: {error}") from error

    def _enter(self, state: ReflectorState, error: str = "") -> None:
        if state is not self._state:
            self._state = state
            self._since_s = self._monotonic()
        self._error = error

    def _absent(self, error: NotFound) -> None:
        """The server does not know the kind, so it has no objects; one that just starts may err in that."""
        self._enter(ReflectorState.ABSENT, str(error))
        self._version = ""
        if self._monotonic() - self._since_s >= self._settings.gone_s:
            for key in [*self._known, *self._unusable]:
                self._delete(key)
            self._is_synced = False


class _BookmarkMeta(msgspec.Struct):
    resource_version: str = msgspec.field(name="resourceVersion")


class _Bookmark(msgspec.Struct):
    metadata: _BookmarkMeta


_BOOKMARKS = msgspec.json.Decoder(_Bookmark)


def _bookmark(raw: msgspec.Raw) -> str:
    try:
        return _BOOKMARKS.decode(raw).metadata.resource_version
    except msgspec.DecodeError as error:
        raise Unreadable(f"a bookmark has no resource version: {error}") from error


def _asked_s(error: KubernetesError) -> float:
    """The pause that the server asks for, in seconds."""
    return (error.retry_after_s or 0.0) if isinstance(error, Refused) else 0.0


def _number(version: str) -> int:
    """A resource version as the number that it is since Kubernetes 1.35 and was in fact before."""
    return int(version) if version.isdecimal() else 0


def _why(error: Exception) -> str:
    """Why an object cannot be used; what a reader did not foresee is told with its kind."""
    if isinstance(error, msgspec.DecodeError | StowplanError):
        return str(error)
    return f"{type(error).__name__}: {error}"
