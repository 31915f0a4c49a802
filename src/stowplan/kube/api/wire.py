"""What comes over the wire: pages of lists, lines of watches, answers that refuse; bytes in, structs out.

Only the frame is decoded here; an object stays JSON until somebody knows what of it is wanted.

Whoever may write an object can nest it thousands of levels deep where its schema is open (a Workflow's is).
A decoder that recurses gives up on that, and on the whole list or line that it stands in. Such a frame is
decoded once more with everything below `DEEPEST_LEVEL` cut away: its name can be read, and a mark tells that
it is not whole.
"""

import os
import re
from collections.abc import AsyncIterator
from typing import TypeVar

import aiohttp
import msgspec

from stowplan.kube.api.errors import KubernetesError, Unreachable, Unreadable, refused

__all__ = ["DEEPEST_LEVEL", "Page", "WatchEvent", "events_of", "is_cut", "page_of", "refusal", "words"]

LONGEST_LINE_BYTES = 16 << 20  # an object is at most 1.5 MiB in etcd, and its managed fields come on top
DEEPEST_LEVEL = 200  # objects of the API have some twenty levels

_CUT = b'"\xe2\x80\xa6nested too deep\xe2\x80\xa6"'
_TOKENS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[{\]}]')

T = TypeVar("T")


class _ListMeta(msgspec.Struct):
    resource_version: str = msgspec.field(default="", name="resourceVersion")
    continue_token: str = msgspec.field(default="", name="continue")


class _List(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class _Status(msgspec.Struct):
    message: str = ""
    reason: str = ""
    code: int = 0


class Page(msgspec.Struct, frozen=True):
    """A part of a list.

    Attributes:
        items: Objects, each as JSON; kind and apiVersion are not in them. They share the memory of the whole
            page: copy what is kept.
        resource_version: What to watch from once all pages are read.
        continue_token: What asks for the next page; empty on the last one.
        is_cut: Whether something in it was nested so deep that it was cut away; `is_cut` tells where.
    """

    items: list[msgspec.Raw]
    resource_version: str
    continue_token: str
    is_cut: bool = False


class WatchEvent(msgspec.Struct, frozen=True):
    """One line of a watch.

    Attributes:
        type: `ADDED`, `MODIFIED`, `DELETED` or `BOOKMARK`.
        object: The object as JSON.
        is_cut: Whether something was nested so deep that it was cut away.
    """

    type: str
    object: msgspec.Raw
    is_cut: bool = False


_LISTS = msgspec.json.Decoder(_List)
_EVENTS = msgspec.json.Decoder(WatchEvent)
_STATUSES = msgspec.json.Decoder(_Status)


def page_of(what: str, body: bytes) -> Page:
    """Decode the answer to a list.

    Args:
        what: What was asked, for the message.
        body: The answer.

    Raises:
        Unreadable: It is no list of objects.
    """
    found, was_cut = _decode(_LISTS, body, f"{what}: the answer is no list of objects")
    meta = found.metadata
    return Page(found.items or [], meta.resource_version, meta.continue_token, was_cut)


async def events_of(what: str, stream: aiohttp.StreamReader) -> AsyncIterator[WatchEvent]:
    """Split a watch into its events, until the server ends it; half a line at the end is none.

    Raises:
        Unreachable: The connection broke or fell silent.
        Unreadable: A line is no event.
        Refused: The server ended the watch with an error, such as Expired.
    """
    rest = bytearray()
    while True:
        try:
            chunk = await stream.readany()
        except (aiohttp.ClientError, TimeoutError, OSError, RuntimeError) as error:
            # aiohttp has a RuntimeError for a connection that was closed before it was asked.
            raise Unreachable(f"{what}: {words(error)}") from error
        if not chunk:
            return
        rest += chunk
        if b"\n" not in chunk:
            if len(rest) > LONGEST_LINE_BYTES:
                raise Unreadable(f"{what}: a line is longer than {LONGEST_LINE_BYTES} bytes")
            continue
        *lines, last = bytes(rest).split(b"\n")
        rest = bytearray(last)
        for line in lines:
            if line:
                yield _event(what, line)


def is_cut(item: msgspec.Raw) -> bool:
    """Whether something was cut away from an object of a frame that something was cut away from."""
    return _CUT in bytes(item)


def _event(what: str, line: bytes) -> WatchEvent:
    event, was_cut = _decode(_EVENTS, line, f"{what}: a line is no event")
    if event.type == "ERROR":
        status, _ = _decode(_STATUSES, bytes(event.object), f"{what}: an error is no status")
        raise refused(what, status.code or 500, status.reason, status.message)
    return WatchEvent(event.type, event.object, is_cut=True) if was_cut else event


def refusal(what: str, answer: aiohttp.ClientResponse, body: bytes) -> KubernetesError:
    """The error of an answer that is not a success."""
    if answer.status < 400:
        where = answer.headers.get("Location", "nowhere")
        return Unreadable(f"{what}: sent on to {where} ({answer.status}); an API server does not do that")
    try:
        status = _STATUSES.decode(body)
    except (msgspec.DecodeError, RecursionError):
        text = " ".join(body[:300].decode(errors="replace").split())
        status = _Status(text or answer.reason or "no message")
    after = answer.headers.get("Retry-After", "")
    retry_after_s = float(after) if after.isdecimal() else None
    return refused(what, answer.status, status.reason, status.message, retry_after_s)


def words(error: Exception) -> str:
    """What a failed connection says, on one line."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        reason = getattr(error.certificate_error, "verify_message", "") or error.certificate_error
        return f"its certificate is not trusted: {reason}; check certificate-authority and tls-server-name"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, aiohttp.ClientConnectorError):
        number = error.os_error.errno
        return f"no connection: {os.strerror(number) if number and number > 0 else error.os_error}"
    if isinstance(error, aiohttp.ClientPayloadError | aiohttp.ServerDisconnectedError | ConnectionResetError):
        return "the connection was cut before the answer was complete"
    return " ".join(str(error).split()) or type(error).__name__


def _decode(decoder: "msgspec.json.Decoder[T]", data: bytes, what: str) -> tuple[T, bool]:
    try:
        try:
            return decoder.decode(data), False
        except RecursionError:
            return decoder.decode(_pruned(data)), True
    except msgspec.DecodeError as error:
        raise Unreadable(f"{what}: {error}") from error


def _pruned(data: bytes) -> bytes:
    """The same JSON with a mark for everything that lies below the deepest level."""
    kept: list[bytes] = []
    level = begin = 0
    for token in _TOKENS.finditer(data):
        sign = token[0]
        if sign in {b"{", b"["}:
            level += 1
            if level == DEEPEST_LEVEL:
                kept += (data[begin : token.start()], _CUT)
        elif sign in {b"}", b"]"}:
            if level == DEEPEST_LEVEL:
                begin = token.end()
            level -= 1
    kept.append(data[begin:])
    return b"".join(kept)
