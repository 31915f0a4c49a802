"""A copy of all objects of one kind that stays in step with the API server, whatever breaks on the way.

List all, then watch from the list's resource version. A watch that ends is resumed from the last version
seen. When the server no longer has that version (410), everything is listed again and compared with the copy,
so that objects which vanished meanwhile are reported as deleted: a watch alone would never say so. The
receiver sees each object's changes in order, and sees none twice: an object whose resource version it has
seen is passed over.

What is going on is a state that can be read at any time (`Reflector.health`); nothing is retried in silence.
Source of the protocol: kubernetes.io/docs/reference/using-api/api-concepts (watches, bookmarks, chunked
lists).
"""

import asyncio
import enum
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import msgspec

from stowplan.errors import InvalidInput
from stowplan.kube.api.backoff import Backoff
from stowplan.kube.api.client import ApiClient
from stowplan.kube.api.errors import Expired, KubernetesError, NotFound, Refused, Unreadable
from stowplan.kube.api.resources import Resource

__all__ = ["Health", "Identity", "Receiver", "Reflector", "ReflectorState", "Settings"]

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


class Identity(msgspec.Struct, frozen=True, gc=False):
    """What tells an object, and a version of it, from all others."""

    name: str
    uid: str
    resource_version: str = msgspec.field(name="resourceVersion")
    namespace: str = ""

    @property
    def key(self) -> str:
        """Namespace and name, as kubectl writes them; the name alone where there is no namespace."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class _Identified(msgspec.Struct):
    metadata: Identity


_IDENTITIES = msgspec.json.Decoder(_Identified)


class Receiver(Protocol[T_contra]):
    """Who is told what happens to the objects of a kind. Called in order, never from two places at once."""

    def set(self, identity: Identity, item: T_contra) -> None:
        """The object is new, or changed."""
        ...

    def delete(self, identity: Identity) -> None:
        """The object is gone; the identity is the last that was seen."""
        ...

    def synced(self) -> None:
        """All objects that existed at one moment have been reported; again after each new list."""
        ...


class ReflectorState(enum.Enum):
    """What a reflector does now."""

    LISTING = "listing"
    WATCHING = "watching"
    WAITING = "waiting"  # something failed; the health says what, and it is tried again
    ABSENT = "absent"  # the server does not know this kind: its definition is not installed


@dataclass(frozen=True, slots=True)
class Health:
    """How a reflector fares.

    Attributes:
        state: What it does now.
        is_synced: Whether everything was reported at least once.
        error: What failed last, in words; empty while all is well.
        since_s: Monotonic time since when it is in this state.
        heard_s: Monotonic time when the server was last heard of.
        lists: Lists that were completed.
        watches: Watches that were begun.
        events: Changes that were reported.
        failures: Requests that failed, by the name of the error.
        unusable: Objects that could not be read, by key, and why; to the receiver they do not exist.
    """

    state: ReflectorState
    is_synced: bool
    error: str
    since_s: float
    heard_s: float
    lists: int
    watches: int
    events: int
    failures: Mapping[str, int]
    unusable: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How patient a reflector is; all in seconds.

    Attributes:
        first_pause_s: Before the first new try.
        longest_pause_s: Between tries, however often they fail.
        absent_pause_s: Before asking again for a kind that the server does not know.
        silence_s: A watch that says nothing for so long is dead; the server sends a bookmark every minute.
        watch_s: The server ends a watch after so long, and half as long again at most.
        page_items: Objects per page of a list.
    """

    first_pause_s: float = 0.2
    longest_pause_s: float = 3.0
    absent_pause_s: float = 30.0
    silence_s: float = 150.0
    watch_s: float = 300.0
    page_items: int = 500


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
        self._known: dict[str, Identity] = {}
        self._unusable: dict[str, str] = {}
        self._version = ""
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
        settings = self._settings
        backoff = Backoff(settings.first_pause_s, settings.longest_pause_s, self._generator)
        while True:
            heard_s = self._heard_s
            try:
                if not self._version:
                    await self._list()
                await self._watch()
            except Expired as error:
                self._count(error)
                self._version = ""  # list again, at once the first time
                if self._heard_s == heard_s:
                    await asyncio.sleep(backoff.pause_s())
            except NotFound as error:
                self._count(error)
                self._enter(ReflectorState.ABSENT, str(error))
                self._version = ""
                await asyncio.sleep(settings.absent_pause_s)
            except KubernetesError as error:
                self._count(error)
                self._enter(ReflectorState.WAITING, str(error))
                if self._heard_s > heard_s:
                    backoff.reset()
                asked_s = error.retry_after_s or 0.0 if isinstance(error, Refused) else 0.0
                await asyncio.sleep(backoff.pause_s(asked_s))
            else:
                if self._heard_s > heard_s:
                    backoff.reset()
                else:  # a watch that ended without a word: do not ask again at once for ever
                    await asyncio.sleep(backoff.pause_s())

    async def _list(self) -> None:
        self._enter(ReflectorState.LISTING)
        seen: set[str] = set()
        version = ""
        pages = self._client.pages(
            self.resource, self._namespace, query=self._query, page_items=self._settings.page_items
        )
        async for page in pages:
            self._heard_s = self._monotonic()
            for raw in page.items:
                identity = self._identity(raw)
                seen.add(identity.key)
                self._set(identity, raw)
            version = page.resource_version
            await asyncio.sleep(0)  # a long list must not keep the scheduler from its work
        for key in [key for key in (*self._known, *self._unusable) if key not in seen]:
            self._delete(key)
        self._version = version
        self._lists += 1
        self._is_synced = True
        self._receiver.synced()

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
        async with watch as events:
            self._enter(ReflectorState.WATCHING)
            self._heard_s = self._monotonic()
            async for event in events:
                self._heard_s = self._monotonic()
                if event.type == "BOOKMARK":
                    self._version = _bookmark(event.object)
                    continue
                identity = self._identity(event.object)
                if event.type == "DELETED":
                    self._delete(identity.key)
                else:
                    self._set(identity, event.object)
                self._version = identity.resource_version

    def _set(self, identity: Identity, raw: msgspec.Raw) -> None:
        """Report an object unless this version of it was reported."""
        key = identity.key
        known = self._known.get(key)
        if known is not None and known.uid != identity.uid:  # deleted and made again, unseen
            self._delete(key)
        elif known is not None and known.resource_version == identity.resource_version:
            return
        try:
            item = self._decode(raw)
        except (msgspec.DecodeError, InvalidInput) as error:
            # One object that cannot be used must not hold up all others, nor may its last version stay as if
            # it were now.
            self._delete(key)
            self._unusable[key] = str(error)
            return
        self._unusable.pop(key, None)
        self._known[key] = identity
        self._events += 1
        self._receiver.set(identity, item)

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

    def _count(self, error: KubernetesError) -> None:
        name = type(error).__name__
        self._failures[name] = self._failures.get(name, 0) + 1


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
