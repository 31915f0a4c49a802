"""Requests to one API server: objects in and out as bytes, errors as their own tree.

Bodies stay bytes: each caller decodes what it needs and no more, which is what makes thousands of events a
second possible (research: a typed partial decode costs a twentieth of a whole one). One session keeps
connections open; a watch holds one of them.

A redirect is never followed: an API server sends none, and a binding that a proxy sends on would arrive
elsewhere as a GET and look as if it had succeeded.
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
from stowplan.kube.api.errors import Unauthorized, Unreachable
from stowplan.kube.api.resources import Resource
from stowplan.kube.api.wire import Page, WatchEvent, events_of, page_of, refusal, words

__all__ = ["ApiClient", "Patch", "PatchKind"]

CONNECT_TIMEOUT_S = 5.0
REQUEST_TIMEOUT_S = 30.0
IDLE_S = 60.0  # bursts come again, and a connection costs both sides milliseconds; servers end it after 90
PAGE_ITEMS = 500
READ_BYTES = 1 << 18  # what is read at once is worked off at once: more would keep others waiting
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


@dataclass(frozen=True, slots=True)
class _Request:
    """What is sent, and how it is called in messages."""

    method: str
    path: str
    what: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes | None = None


class ApiClient:
    """Requests to one API server; an asynchronous context manager.

    Args:
        access: The cluster and the user.
        request_timeout_s: Longest wait for an answer, in seconds; for a watch, until it begins.

    Every method raises a KubernetesError: Unreachable when no answer came, a kind of Refused when the server
    answered with an error, Unreadable when the answer is not what the API promises.
    """

    def __init__(self, access: Access, *, request_timeout_s: float = REQUEST_TIMEOUT_S) -> None:
        self.access = access
        self._credentials = Credentials(access)
        self._request_timeout_s = request_timeout_s
        self._timeout = aiohttp.ClientTimeout(total=request_timeout_s, sock_connect=CONNECT_TIMEOUT_S)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        headers = {"User-Agent": f"stowplan/{__version__}", "Accept": "application/json"}
        if self.access.is_uncompressed:
            headers["Accept-Encoding"] = "identity"
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0,  # whoever asks bounds it
                keepalive_timeout=IDLE_S,
                socket_factory=_socket,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=headers,
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

    async def page(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        query: Mapping[str, str] | None = None,
        page_items: int = PAGE_ITEMS,
        continue_token: str = "",
    ) -> Page:
        """A part of the list of all objects of a kind; all parts show them as they were at one moment.

        No resource version is asked for: the first page is then as new as can be had, whichever of several
        API servers answers, so that a list never goes back behind what a watch has told.

        Args:
            resource: The kind of object.
            namespace: None asks for all namespaces.
            query: `labelSelector`, `fieldSelector`, …
            page_items: Objects per page.
            continue_token: Of the page before; empty asks for the first one.

        Raises:
            Expired: The list took longer than the server keeps old versions; begin again.
        """
        asked = {"limit": str(page_items)} | dict(query or {})
        if continue_token:
            asked["continue"] = continue_token
        what = f"list {resource}"
        return page_of(what, await self.request("GET", resource.path(namespace), what=what, query=asked))

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

        The block is entered when the server has answered; what goes wrong later is raised by the iterator.

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
        asked = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(server_timeout_s),
        } | dict(query or {})
        what = f"watch {resource}"
        # Events must come one by one: a proxy in between that compresses collects them first.
        uncompressed = {"Accept-Encoding": "identity"}
        request = _Request("GET", resource.path(namespace), what, asked, uncompressed)
        limits = aiohttp.ClientTimeout(sock_connect=CONNECT_TIMEOUT_S, sock_read=silence_s)
        answer = await self._answer(request, limits)
        try:
            yield events_of(what, answer.content)
        finally:
            # At once, whatever is on the way: TLS would wait for a good-bye of a server that still sends.
            connection = answer.connection
            if connection is not None and connection.transport is not None:
                connection.transport.abort()
            answer.close()

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

        Args:
            method: HTTP method.
            path: Path on the server.
            what: What is asked, for messages.
            body: Object or JSON bytes.
            query: Parameters.
            content_type: Of the body.
        """
        encoded = msgspec.json.encode(body) if isinstance(body, dict | list) else body
        headers = {} if encoded is None else {"Content-Type": content_type}
        request = _Request(method, path, what, query or {}, headers, encoded)
        async with await self._answer(request, self._timeout) as answer:
            try:
                return await answer.read()
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                raise self._unreachable(request, error) from error

    async def _answer(self, request: _Request, limits: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        """Send a request and return the successful answer, whose body is still to be read.

        When the server does not know who asks, credentials are read anew and the request is sent once more.
        """
        try:
            return await self._once(request, limits)
        except Unauthorized:
            return await self._once(request, limits)

    async def _once(self, request: _Request, limits: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        if self._session is None:
            raise RuntimeError("the client is used outside of `async with`")
        shown = await self._credentials.current()
        try:
            async with asyncio.timeout(self._request_timeout_s):
                answer = await self._session.request(
                    request.method,
                    self.access.server + request.path,
                    params=dict(request.query),
                    data=request.body,
                    headers=[*shown.headers, *request.headers.items()],
                    timeout=limits,
                    ssl=shown.tls,
                    server_hostname=self.access.tls_server_name,
                    proxy=self.access.proxy,
                    allow_redirects=False,
                )
                if answer.status < 300:
                    return answer
                async with answer:
                    refused = refusal(request.what, answer, await answer.read())
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._unreachable(request, error) from error
        if isinstance(refused, Unauthorized):
            self._credentials.forget(shown)
        raise refused

    def _unreachable(self, request: _Request, error: Exception) -> Unreachable:
        return Unreachable(f"{request.what} at {self.access.server}: {words(error)}")


def _socket(address: tuple[Any, ...]) -> socket.socket:
    """A socket whose dead peer is noticed in half a minute: a watch may have nothing to send for longer."""
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in KEEPALIVE:
        made.setsockopt(socket.IPPROTO_TCP, option, value)
    return made
