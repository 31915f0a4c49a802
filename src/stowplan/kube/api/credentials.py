"""Who we are, at each request: a token that is read again as it is replaced, or what a plugin hands out.

A kubelet replaces a pod's token well before it expires; reading the file at most once a minute is what
Kubernetes' own clients do. A plugin's answer is kept until it expires, and asked for anew when the server no
longer takes it.
Source: kubernetes.io/docs/reference/access-authn-authz/authentication (client-go credential plugins).
"""

import asyncio
import base64
import datetime as dt
import os
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from stowplan.kube.api.access import Access, ExecPlugin
from stowplan.kube.api.errors import InvalidAccess
from stowplan.kube.api.tls import tls_context

__all__ = ["Credentials"]

TOKEN_FILE_PERIOD_S = 60.0
EXPIRY_SLACK_S = 30.0
PLUGIN_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class _HandedOut:
    """What a plugin answered: a token, a certificate, or both."""

    token: str | None
    certificate_pem: str | None
    key_pem: str | None
    expires_s: float  # wall time in seconds since the epoch; infinite where it said nothing


class Credentials:
    """The headers and the TLS context of one user.

    Args:
        access: The cluster and the user.
        monotonic: A clock in seconds for how old the token is.
        wall: A clock in seconds since the epoch for when a plugin's answer expires.
    """

    def __init__(
        self,
        access: Access,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._access = access
        self._monotonic = monotonic
        self._wall = wall
        self._token: str | None = None
        self._token_read_s = -TOKEN_FILE_PERIOD_S
        self._handed_out: _HandedOut | None = None
        self._asking = asyncio.Lock()
        self._context: ssl.SSLContext | None = None

    async def headers(self) -> dict[str, str]:
        """The header Authorization, or nothing for a user with a certificate.

        Raises:
            InvalidAccess: The token file or the plugin failed.
        """
        access = self._access
        token = access.token
        if access.token_file is not None:
            token = self._file_token()
        if access.plugin is not None:
            token = (await self._plugin_answer(access.plugin)).token or token
        if token:
            return {"Authorization": f"Bearer {token}"}
        if access.basic is not None:
            pair = base64.b64encode(":".join(access.basic).encode()).decode()
            return {"Authorization": f"Basic {pair}"}
        return {}

    async def tls(self) -> ssl.SSLContext:
        """The TLS context; another one after a plugin handed out another certificate.

        Raises:
            InvalidAccess: A certificate or key cannot be used, or the plugin failed.
        """
        access = self._access
        if access.plugin is not None:
            answer = await self._plugin_answer(access.plugin)
            if answer.certificate_pem is not None:
                if self._context is None:
                    self._context = tls_context(access, answer.certificate_pem, answer.key_pem)
                return self._context
        if self._context is None:
            self._context = tls_context(access, access.certificate_pem, access.key_pem)
        return self._context

    def forget(self) -> None:
        """Take the token and the plugin's answer for expired; the server no longer takes them."""
        self._token_read_s = -TOKEN_FILE_PERIOD_S
        if self._handed_out is not None:
            self._handed_out = None
            self._context = None

    def _file_token(self) -> str:
        path = self._access.token_file
        now_s = self._monotonic()
        if path is not None and (self._token is None or now_s - self._token_read_s >= TOKEN_FILE_PERIOD_S):
            try:
                self._token = path.read_text(encoding="utf-8").strip()
            except OSError as error:
                raise InvalidAccess(f"the token {path} cannot be read: {error}") from error
            self._token_read_s = now_s
        return self._token or ""

    async def _plugin_answer(self, plugin: ExecPlugin) -> _HandedOut:
        async with self._asking:
            if self._handed_out is None or self._wall() > self._handed_out.expires_s - EXPIRY_SLACK_S:
                self._handed_out = await _ask(plugin)
                self._context = None
            return self._handed_out


async def _ask(plugin: ExecPlugin) -> _HandedOut:
    asked = {
        "apiVersion": plugin.api_version,
        "kind": "ExecCredential",
        "spec": {"interactive": False} | ({"cluster": plugin.cluster} if plugin.cluster else {}),
    }
    information = {"KUBERNETES_EXEC_INFO": msgspec.json.encode(asked).decode()}
    name = plugin.command[0]
    try:
        process = await asyncio.create_subprocess_exec(
            *plugin.command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=os.environ | dict(plugin.environment) | information,
        )
    except OSError as error:
        hint = f" ({' '.join(plugin.install_hint.split())})" if plugin.install_hint else ""
        raise InvalidAccess(f"the credential plugin {name} cannot be run: {error.strerror}{hint}") from error
    try:
        output, errors = await asyncio.wait_for(process.communicate(), PLUGIN_TIMEOUT_S)
    except TimeoutError as error:
        process.kill()
        await process.wait()
        raise InvalidAccess(
            f"the credential plugin {name} gave no answer in {PLUGIN_TIMEOUT_S:g} s"
        ) from error
    if process.returncode != 0:
        said = " ".join(errors.decode(errors="replace").split())[-300:]
        raise InvalidAccess(
            f"the credential plugin {name} failed with exit code {process.returncode}: {said}"
        )
    return _read(output, name)


def _read(output: bytes, name: str) -> _HandedOut:
    try:
        answer = cast("dict[str, Any]", msgspec.json.decode(output))
        status = cast("dict[str, str]", answer["status"])
        expires = status.get("expirationTimestamp")
        expires_s = dt.datetime.fromisoformat(expires).timestamp() if expires else float("inf")
    except (msgspec.DecodeError, KeyError, TypeError, ValueError) as error:
        raise InvalidAccess(
            f"the credential plugin {name} did not answer with an ExecCredential: {error}"
        ) from error
    token, certificate = status.get("token"), status.get("clientCertificateData")
    if not token and not certificate:
        raise InvalidAccess(f"the credential plugin {name} answered with neither a token nor a certificate")
    return _HandedOut(token, certificate, status.get("clientKeyData"), expires_s)
