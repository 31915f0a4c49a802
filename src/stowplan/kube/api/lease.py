"""Leader election on a Lease: of several instances one leads, and another takes over when it dies.

Who holds the lease writes to it every 2 s. Who does not hold it watches it, and takes it when nothing was
written for 15 s: 15 s after the last renewal, not after the next look at it. Nobody compares wall clocks:
each instance measures on its own monotonic clock for how long it has seen no change, so that a clock that is
set can neither make two leaders nor unseat one.

Why there are never two: the holder counts itself leader for 10 s from the moment at which it *sent* its last
successful renewal. Others count 15 s from the moment at which they *saw* it, which is later. `is_leader`
looks at the clock at each call: an instance that was stopped for a minute finds that it does not lead before
it has asked anybody. The clock goes on while the machine sleeps. What cannot be excluded is an instance that
starts just after somebody deleted the lease by hand; one that saw a holder before waits for its 15 s all the
same.

The identity ends in random characters, drawn at each start, and a lease that carries our identity but was not
written by us counts as another's: two instances that were given the same name do not both lead.
Source: client-go tools/leaderelection, 1.37 (15 s, 10 s, 2 s).
"""

import asyncio
import random
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from stowplan.kube.api import times
from stowplan.kube.api.client import ApiClient
from stowplan.kube.api.errors import Conflict, KubernetesError, NotFound, Unreadable
from stowplan.kube.api.reflection import Identity
from stowplan.kube.api.reflector import Reflector
from stowplan.kube.api.resources import LEASES

__all__ = ["Election", "ElectionHealth", "LeaseSettings", "identity_of"]

JITTER = 0.2  # of the pause between tries, so that instances do not ask in step
STOPPING_S = 0.1  # what a leader's work gets to end in, within the time for which it may still lead

Json = dict[str, Any]


def monotonic_through_sleep() -> float:
    """Seconds on a clock that cannot be set and that goes on while the machine is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def identity_of(host: str) -> str:
    """A name for this instance that no other has."""
    return f"{host}_{secrets.token_hex(8)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseSettings:
    """Times of an election in seconds; what Kubernetes' own components use.

    Attributes:
        duration_s: Without a change for so long, a lease may be taken.
        renew_s: So long after its last successful renewal the holder stops leading.
        retry_s: Between renewals, and between looks at another's lease.
    """

    duration_s: float = 15.0
    renew_s: float = 10.0
    retry_s: float = 2.0

    def __post_init__(self) -> None:
        """Make sure that the holder always stops before another may begin.

        Raises:
            ValueError: The times are not in this order.
        """
        if not 0.0 < self.retry_s * (1.0 + JITTER) < self.renew_s < self.duration_s:
            raise ValueError(f"a lease needs retry < renew < duration, not {self}")


@dataclass(frozen=True, slots=True)
class ElectionHealth:
    """How an election stands, as one instance sees it.

    Attributes:
        is_leader: Whether this instance leads now.
        identity: Its name.
        holder: Who holds the lease; empty for nobody.
        transitions: How often the lease has changed hands.
        error: What failed last, in words; empty while all is well.
        terms: How often this instance became leader.
    """

    is_leader: bool
    identity: str
    holder: str
    transitions: int
    error: str
    terms: int


class _Spec(msgspec.Struct, frozen=True):
    holder: str | None = msgspec.field(default=None, name="holderIdentity")
    duration_s: int | None = msgspec.field(default=None, name="leaseDurationSeconds")
    acquired: str | None = msgspec.field(default=None, name="acquireTime")
    renewed: str | None = msgspec.field(default=None, name="renewTime")
    transitions: int | None = msgspec.field(default=None, name="leaseTransitions")


class _Lease(msgspec.Struct):
    metadata: Json
    spec: Json = {}
    read: _Spec = _Spec()  # the part of the spec that we know


class Election:
    """Takes part in the election of a leader.

    Args:
        client: Where the lease is.
        namespace: Its namespace.
        name: Its name.
        identity: This instance's name; see `identity_of`.
        settings: Times.
        generator: Spreads the moments at which instances ask.
        monotonic: A clock in seconds that cannot be set and does not stop while the machine sleeps.
        wall: A clock in seconds since the epoch, for what people read in the lease.
    """

    def __init__(  # noqa: PLR0913 - four of them have a default that fits
        self,
        client: ApiClient,
        namespace: str,
        name: str,
        identity: str,
        *,
        settings: LeaseSettings | None = None,
        generator: random.Random | None = None,
        monotonic: Callable[[], float] = monotonic_through_sleep,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._settings = settings or LeaseSettings()
        self._generator = generator or random.Random()  # noqa: S311 - spreads pauses, guards nothing
        self._monotonic = monotonic
        self._wall = wall
        self._leads_until_s = float("-inf")
        self._seen: _Spec | None = None  # what stood in the lease when it last changed …
        self._seen_s = float("-inf")  # … and when that was seen
        self._stamps: set[str] = set()  # renewTime of what we wrote last, and of what we tried to since
        self._changed = asyncio.Event()
        self._error = ""
        self._terms = 0

    @property
    def is_leader(self) -> bool:
        """Whether this instance leads at this very moment; to be asked before each act of a leader."""
        return self._monotonic() < self._leads_until_s

    @property
    def health(self) -> ElectionHealth:
        """How the election stands."""
        seen = self._seen or _Spec()
        return ElectionHealth(
            self.is_leader,
            self._identity,
            seen.holder or "",
            seen.transitions or 0,
            self._error,
            self._terms,
        )

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Take part until cancelled, or until the work of a leader ends by itself; then give the lease back.

        Args:
            lead: The work of a leader: begun when this instance becomes leader, cancelled when it no longer
                is, and begun anew next time. It must end promptly when cancelled. What it raises ends the
                election.
        """
        query = {"fieldSelector": f"metadata.name={self._name}"}
        reflector = Reflector(self._client, LEASES, _decode, self, namespace=self._namespace, query=query)
        watching = asyncio.create_task(reflector.run())
        try:
            while True:
                await self._wait_to_lead()
                self._terms += 1
                if await self._lead(lead):
                    return
        finally:
            watching.cancel()
            await asyncio.wait({watching})
            await self._release()

    def set(self, identity: Identity, item: _Lease) -> None:  # noqa: ARG002 - a Receiver's signature
        """Told by the reflector: the lease is as it says."""
        if not self.is_leader:  # who writes it knows better
            self._see(item.read)

    def delete(self, identity: Identity) -> None:
        """Told by the reflector: the lease was deleted. The next try sees to it."""

    def synced(self) -> None:
        """Told by the reflector: the lease, if there is one, was reported."""

    def _see(self, lease: _Spec) -> None:
        if lease != self._seen:
            self._seen, self._seen_s = lease, self._monotonic()
            self._changed.set()

    async def _wait_to_lead(self) -> None:
        while True:
            self._changed.clear()
            await self._try()
            if self.is_leader:
                return
            pause_s = self._pause_s()
            if self._is_held():
                pause_s = min(pause_s, self._held_until_s() - self._monotonic())
            try:
                async with asyncio.timeout(pause_s):
                    await self._changed.wait()
                    while self._is_held():  # by another, who renewed it
                        self._changed.clear()
                        await self._changed.wait()
            except TimeoutError:
                continue

    async def _lead(self, lead: Callable[[], Awaitable[None]]) -> bool:
        """Do a leader's work while leading; whether it ended by itself."""
        work = asyncio.ensure_future(lead())
        renewing = asyncio.create_task(self._renew())
        try:
            await asyncio.wait({work, renewing}, return_when=asyncio.FIRST_COMPLETED)
            has_ended = work.done()
        finally:
            for task in (work, renewing):
                task.cancel()
            await asyncio.wait({work, renewing})
            if not work.cancelled():
                work.result()  # raises what it raised, also while it was being cancelled
        if not has_ended:
            self._leads_until_s = float("-inf")  # the moment that is left was for the work to end in
        return has_ended

    async def _renew(self) -> None:
        """Renew while leading; returns when the work of a leader has to end."""
        while True:
            left_s = self._works_until_s() - self._monotonic()
            if left_s <= 0.0:
                return
            await asyncio.sleep(min(self._pause_s(), left_s))
            if self.is_leader:
                await self._try()

    async def _try(self) -> None:
        """Renew the lease, or take it if it is free, or note who has it."""
        sent_s = self._monotonic()
        limit_s = self._settings.renew_s / 2.0  # a connection that is dead must not use up all of the time
        if self.is_leader:
            limit_s = min(limit_s, max(0.0, self._works_until_s() - sent_s))
        try:
            async with asyncio.timeout(limit_s):
                wrote = await self._read_and_write()
        except (KubernetesError, TimeoutError) as error:
            self._error = str(error) or f"no answer about the lease {self._namespace}/{self._name} in time"
            return
        self._error = ""
        if wrote:
            self._leads_until_s = sent_s + self._settings.renew_s

    async def _read_and_write(self) -> bool:
        """Write our name into the lease if it is ours or free; whether it was written."""
        try:
            lease = _decode(await self._client.get(LEASES, self._name, self._namespace))
        except NotFound:
            if self._is_held() and not self._is_ours(self._seen):
                return False  # deleted by hand: its holder may not know yet
            return await self._create()
        found = lease.read
        self._see(found)
        is_ours = self._is_ours(found)
        if not is_ours and self._is_held():
            self._leads_until_s = float("-inf")  # at once, whatever was left
            return False
        now = times.micro_time(self._wall())
        wanted = _Spec(
            holder=self._identity,
            duration_s=int(self._settings.duration_s),
            acquired=found.acquired if is_ours else now,
            renewed=now,
            transitions=(found.transitions or 0) + (not is_ours),
        )
        spec = lease.spec | cast("Json", msgspec.to_builtins(wanted))
        return await self._write(wanted, _body(lease.metadata, spec), is_new=False)

    async def _create(self) -> bool:
        now = times.micro_time(self._wall())
        wanted = _Spec(self._identity, int(self._settings.duration_s), now, now, 0)
        metadata = {"name": self._name, "namespace": self._namespace}
        body = _body(metadata, cast("Json", msgspec.to_builtins(wanted)))
        return await self._write(wanted, body, is_new=True)

    async def _write(self, wanted: _Spec, body: Json, *, is_new: bool) -> bool:
        stamp = wanted.renewed or ""
        self._stamps.add(stamp)  # before it is sent: the answer may be lost
        try:
            if is_new:
                await self._client.create(LEASES, body, self._namespace)
            else:  # with the resource version: a change in between is a conflict
                await self._client.replace(LEASES, self._name, body, self._namespace)
        except Conflict:
            return False  # another was faster; the next look shows who
        self._stamps = {stamp}
        self._seen, self._seen_s = wanted, self._monotonic()
        return True

    async def _release(self) -> None:
        """Give the lease back, so that another can lead at once; if that fails, it runs out."""
        was_leader = self.is_leader
        self._leads_until_s = float("-inf")
        if not was_leader:
            return
        try:
            async with asyncio.timeout(self._settings.retry_s):
                lease = _decode(await self._client.get(LEASES, self._name, self._namespace))
                if not self._is_ours(lease.read):
                    return
                given_back = {
                    "holderIdentity": "",
                    "leaseDurationSeconds": 1,
                    "renewTime": times.micro_time(self._wall()),
                }
                body = _body(lease.metadata, lease.spec | given_back)
                await self._client.replace(LEASES, self._name, body, self._namespace)
        except (KubernetesError, TimeoutError) as error:
            self._error = f"the lease was not given back, and runs out: {error}"

    def _is_ours(self, lease: _Spec | None) -> bool:
        """Whether a lease stands as we wrote it: nobody else writes our name at our microsecond."""
        return lease is not None and lease.holder == self._identity and lease.renewed in self._stamps

    def _held_until_s(self) -> float:
        """Until when somebody may still take himself for the leader, as far as we have seen; monotonic."""
        if self._seen is None or not self._seen.holder:
            return float("-inf")
        return self._seen_s + max(float(self._seen.duration_s or 0), self._settings.duration_s)

    def _works_until_s(self) -> float:
        """When a leader's work has to end; monotonic, a moment before the time to lead is over."""
        return self._leads_until_s - min(STOPPING_S, self._settings.renew_s / 20.0)

    def _is_held(self) -> bool:
        return self._monotonic() < self._held_until_s()

    def _pause_s(self) -> float:
        return self._settings.retry_s * (1.0 + JITTER * self._generator.random())


def _body(metadata: Json, spec: Json) -> Json:
    return {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata, "spec": spec}


def _decode(body: bytes | msgspec.Raw) -> _Lease:
    try:
        lease = msgspec.json.decode(body, type=_Lease)
        lease.read = msgspec.convert(lease.spec, _Spec)
    except msgspec.DecodeError as error:
        raise Unreadable(f"get {LEASES}: the answer is no lease: {error}") from error
    return lease
