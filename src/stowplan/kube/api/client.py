"""Requests to one API server: objects in and out as bytes, errors as their own tree.

Bodies stay bytes: each caller decodes what it needs and no more, which is what makes thousands of events a
second possible (research: a typed partial decode costs a twentieth of a whole one). One session keeps
connections open; a watch holds one of them.
"""

import asyncio
import enum
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import aiohttp
import msgspec

from stowplan import __version__
from stowplan.kube.api.access import Access
from stowplan.kube.api.credentials import Credentials
from stowplan.kube.api.errors import InvalidAccess, Unauthorized, Unreachable, Unreadable, refused
from stowplan.kube.api.resources import Resource

__all__ = ["ApiClient", "Page", "Patch", "PatchKind", "WatchEvent"]

CONNECT_TIMEOUT_S = 5.0
REQUEST_TIMEOUT_S = 30.0
PAGE_ITEMS = 500
LONGEST_LINE_BYTES = 16 << 20  # an object is at most 1.5 MiB in etcd, and its managed fields come on top
READ_BYTES = 1 << 20
CONNECTIONS = 64
KEEPALIVE = (
    (socket.TCP_KEEPIDLE, 15),  # seconds of silence before the peer is asked
    (socket.TCP_KEEPINTVL, 5),  # seconds between questions
    (socket.TCP_KEEPCNT, 3),
    (socket.TCP_USER_TIMEOUT, 30_000),  # milliseconds until what was sent must have arrived
)

Json = dict[str, Any]


class PatchKind(enum.StrEnum):
    """How the body of a patch is to be understood."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"  # server-side apply; JSON is YAML


@dataclass(frozen=True, slots=True)
class Patch:
    """A change of an object.

    Attributes:
        kind: How the body is meant.
        body: The patch.
        field_manager: Who owns the fields; required for server-side apply.
        force: For server-side apply: take fields that another manager owns.
    """

    kind: PatchKind
    body: Json | list[Json] | bytes
    field_manager: str | None = None
    force: bool = False


class _ListMeta(msgspec.Struct):
    resource_version: str = msgspec.field(default="", name="resourceVersion")
    continue_token: str = msgspec.field(default="", name="continue")
    remaining_item_count: int | None = msgspec.field(default=None, name="remainingItemCount")


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
        items: Objects, each as JSON; kind and apiVersion are not in them.
        resource_version: What to watch from once all pages are read.
        is_last: Whether no page follows.
    """

    items: list[msgspec.Raw]
    resource_version: str
    is_last: bool


class WatchEvent(msgspec.Struct, frozen=True):
    """One line of a watch.

    Attributes:
        type: `ADDED`, `MODIFIED`, `DELETED` or `BOOKMARK`.
        object: The object as JSON.
    """

    type: str
    object: msgspec.Raw


_LISTS = msgspec.json.Decoder(_List)
_EVENTS = msgspec.json.Decoder(WatchEvent)
_STATUSES = msgspec.json.Decoder(_Status)


class ApiClient:
    """Requests to one API server; an asynchronous context manager.

    Args:
        access: The cluster and the user.
        request_timeout_s: Longest wait for an answer, in seconds; a watch has its own.

    Every method raises a KubernetesError: Unreachable when no answer came, a kind of Refused when the server
    answered with an error, Unreadable when the answer is not what the API promises.
    """

    def __init__(self, access: Access, *, request_timeout_s: float = REQUEST_TIMEOUT_S) -> None:
        self.access = access
        self._credentials = Credentials(access)
        self._timeout = aiohttp.ClientTimeout(total=request_timeout_s, sock_connect=CONNECT_TIMEOUT_S)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=CONNECTIONS, socket_factory=_socket),
            headers={"User-Agent": f"stowplan/{__version__}", "Accept": "application/json"},
            read_bufsize=READ_BYTES,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> bytes:
        """One object."""
        return await self.request("GET", resource.path(namespace, name), what=f"get {resource} {name}")

    async def create(
        self, resource: Resource, body: Json | bytes, namespace: str | None = None, *, dry_run: bool = False
    ) -> bytes:
        """Create an object and return it as it is kept."""
        return await self.request(
            "POST",
            resource.path(namespace),
            what=f"create {resource}",
            body=body,
            query={"dryRun": "All"} if dry_run else {},
        )

    async def post(
        self,
        resource: Resource,
        name: str,
        subresource: str,
        body: Json | bytes,
        namespace: str | None = None,
    ) -> bytes:
        """Post to a subresource of an object, such as `binding` or `eviction`."""
        path = resource.path(namespace, name, subresource)
        return await self.request("POST", path, what=f"create {resource}/{subresource} {name}", body=body)

    async def replace(
        self,
        resource: Resource,
        name: str,
        body: Json | bytes,
        namespace: str | None = None,
        subresource: str | None = None,
    ) -> bytes:
        """Replace an object; with a resourceVersion in the body, only if it is still that one."""
        path = resource.path(namespace, name, subresource)
        return await self.request("PUT", path, what=f"update {resource} {name}", body=body)

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Patch,
        namespace: str | None = None,
        subresource: str | None = None,
    ) -> bytes:
        """Change an object, or a subresource such as `status`, and return it as it is kept."""
        query = {"fieldManager": patch.field_manager} if patch.field_manager else {}
        if patch.force:
            query["force"] = "true"
        return await self.request(
            "PATCH",
            resource.path(namespace, name, subresource),
            what=f"patch {resource}{'/' + subresource if subresource else ''} {name}",
            body=patch.body,
            query=query,
            content_type=patch.kind.value,
        )

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        grace_s: int | None = None,
    ) -> bytes:
        """Delete an object; with a uid, only if it is still that one."""
        options: Json = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        return await self.request(
            "DELETE", resource.path(namespace, name), what=f"delete {resource} {name}", body=options
        )

    async def pages(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        query: Mapping[str, str] | None = None,
        page_items: int = PAGE_ITEMS,
    ) -> AsyncIterator[Page]:
        """All objects of a kind, page by page, as they were at one resource version.

        Args:
            resource: The kind of object.
            namespace: None asks for all namespaces.
            query: `labelSelector`, `fieldSelector`, …
            page_items: Objects per page.

        Raises:
            Expired: The list took longer than the server keeps old versions; begin again.
        """
        asked = {"limit": str(page_items)} | dict(query or {})
        while True:
            body = await self.request("GET", resource.path(namespace), what=f"list {resource}", query=asked)
            try:
                found = _LISTS.decode(body)
            except msgspec.DecodeError as error:
                raise Unreadable(f"list {resource}: the answer is no list of objects: {error}") from error
            token = found.metadata.continue_token
            yield Page(found.items or [], found.metadata.resource_version, is_last=not token)
            if not token:
                return
            asked["continue"] = token

    @asynccontextmanager
    async def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        resource_version: str,
        query: Mapping[str, str] | None = None,
        silence_s: float,
        server_timeout_s: int,
    ) -> AsyncGenerator[AsyncIterator[WatchEvent]]:
        """What happens to the objects of a kind after a resource version, until the server ends the watch.

        The block is entered when the server has answered; what goes wrong later is raised inside it.

        Args:
            resource: The kind of object.
            namespace: None asks for all namespaces.
            resource_version: Of the list or the event before.
            query: `labelSelector`, `fieldSelector`, …
            silence_s: A connection that is silent for so many seconds counts as dead.
            server_timeout_s: After so many seconds the server ends the watch by itself.

        Raises:
            Expired: The resource version is too old: list again.
        """
        what = f"watch {resource}"
        asked = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(server_timeout_s),
        } | dict(query or {})
        limits = aiohttp.ClientTimeout(sock_connect=CONNECT_TIMEOUT_S, sock_read=silence_s)
        try:
            async with await self._send("GET", resource.path(namespace), asked, limits=limits) as answer:
                if answer.status >= 400:
                    raise _refused(what, answer, await answer.read())
                yield _events(what, answer.content)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unreachable(f"{what}: {_words(error)}") from error

    async def request(
        self,
        method: str,
        path: str,
        *,
        what: str,
        body: Json | list[Json] | bytes | None = None,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> bytes:
        """Send a request and return the body of the answer.

        A token that the server no longer takes is read anew and the request is sent once more.

        Args:
            method: HTTP method.
            path: Path on the server.
            what: What is asked, for messages.
            body: Object or JSON bytes.
            query: Parameters.
            content_type: Of the body.
        """
        encoded = msgspec.json.encode(body) if isinstance(body, dict | list) else body
        try:
            return await self._once(method, path, what, encoded, query or {}, content_type)
        except Unauthorized:
            self._credentials.forget()
            return await self._once(method, path, what, encoded, query or {}, content_type)

    async def _once(
        self,
        method: str,
        path: str,
        what: str,
        body: bytes | None,
        query: Mapping[str, str],
        content_type: str,
    ) -> bytes:
        try:
            async with await self._send(
                method, path, query, limits=self._timeout, body=body, content_type=content_type
            ) as answer:
                content = await answer.read()
                if answer.status >= 400:
                    raise _refused(what, answer, content)
                return content
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unreachable(f"{what} at {self.access.server}: {_words(error)}") from error

    async def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        *,
        limits: aiohttp.ClientTimeout,
        body: bytes | None = None,
        content_type: str | None = None,
    ) -> aiohttp.ClientResponse:
        if self._session is None:
            raise RuntimeError("the client is used outside of `async with`")
        headers = await self._credentials.headers()
        if body is not None and content_type is not None:
            headers["Content-Type"] = content_type
        return await self._session.request(
            method,
            self.access.server + path,
            params=dict(query),
            data=body,
            headers=headers,
            timeout=limits,
            ssl=await self._credentials.tls(),
            server_hostname=self.access.tls_server_name,
        )


def _socket(address: tuple[Any, ...]) -> socket.socket:
    """A socket whose dead peer is noticed in half a minute: a watch may have nothing to send for longer."""
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in KEEPALIVE:
        made.setsockopt(socket.IPPROTO_TCP, option, value)
    return made


async def _lines(stream: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Split a stream into lines, whatever their length; a last one without an end was cut off."""
    rest = bytearray()
    async for chunk in stream.iter_any():
        if b"\n" not in chunk:
            rest += chunk
            if len(rest) > LONGEST_LINE_BYTES:
                raise Unreadable(f"a line of a watch is longer than {LONGEST_LINE_BYTES} bytes")
            continue
        *whole, last = (bytes(rest) + chunk).split(b"\n") if rest else chunk.split(b"\n")
        rest = bytearray(last)
        for line in whole:
            if line:
                yield line


async def _events(what: str, stream: aiohttp.StreamReader) -> AsyncIterator[WatchEvent]:
    async for line in _lines(stream):
        try:
            event = _EVENTS.decode(line)
            status = _STATUSES.decode(event.object) if event.type == "ERROR" else None
        except msgspec.DecodeError as error:
            raise Unreadable(f"{what}: a line is no event: {error}") from error
        if status is not None:
            raise refused(what, status.code or 500, status.reason, status.message)
        yield event


def _refused(what: str, answer: aiohttp.ClientResponse, body: bytes) -> Exception:
    try:
        status = _STATUSES.decode(body)
    except msgspec.DecodeError:
        status = _Status(
            " ".join(body[:300].decode(errors="replace").split()) or answer.reason or "no message"
        )
    after = answer.headers.get("Retry-After", "")
    retry_after_s = float(after) if after.isdigit() else None
    return refused(what, answer.status, status.reason, status.message, retry_after_s)


def _words(error: Exception) -> str:
    if isinstance(error, TimeoutError | asyncio.TimeoutError):
        return "no answer in time"
    if isinstance(error, InvalidAccess):
        return str(error)
    return " ".join(str(error).split()) or type(error).__name__
