"""What a reflector tells, whom it tells it, and how it can be seen to fare."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from sys import intern
from typing import Protocol, TypeVar

import msgspec

__all__ = ["Health", "Identity", "Receiver", "ReflectorState", "Settings"]

T_contra = TypeVar("T_contra", contravariant=True)


class Identity(msgspec.Struct, frozen=True, gc=False):
    """What tells an object, and a version of it, from all others.

    Whoever keeps many objects keeps these texts several times over, so they are shared.
    """

    name: str
    uid: str
    resource_version: str = msgspec.field(name="resourceVersion")
    namespace: str = ""

    def __post_init__(self) -> None:
        """Share the texts that every version of the object has."""
        msgspec.structs.force_setattr(self, "uid", intern(self.uid))
        msgspec.structs.force_setattr(self, "namespace", intern(self.namespace))

    @property
    def key(self) -> str:
        """Namespace and name, as kubectl writes them; the name alone where there is no namespace."""
        return intern(f"{self.namespace}/{self.name}") if self.namespace else self.name


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

    @property
    def is_settled(self) -> bool:
        """Whether nothing is outstanding: all was reported, or the server has no such kind of object."""
        return self.is_synced or self.state is ReflectorState.ABSENT


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How patient a reflector is; all in seconds.

    Attributes:
        first_pause_s: Before the first new try.
        longest_pause_s: Between tries, however often they fail.
        absent_pause_s: Between tries for a kind that the server does not know.
        gone_s: A kind that the server has not known for so long has no objects any more.
        lively_s: A watch that lasted so long did some good, even if nothing happened.
        silence_s: A watch that says nothing for so long is dead; a server sends a bookmark every minute, the
            first one after two (seen with 1.37: after 120.4 s, then 59.5 s later).
        watch_s: The server ends a watch after so long, and half as long again at most.
        page_items: Objects per page of a list.
        page_tries: How often a page is asked for before the whole list is begun again.
    """

    first_pause_s: float = 0.2
    longest_pause_s: float = 3.0
    absent_pause_s: float = 30.0
    gone_s: float = 10.0
    lively_s: float = 5.0
    silence_s: float = 150.0
    watch_s: float = 300.0
    page_items: int = 500
    page_tries: int = 4
