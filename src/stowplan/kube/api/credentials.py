"""Who we are, at each request: tokens and certificates that are read again as they are replaced.

A kubelet replaces a pod's token well before it expires; reading the file at most once a minute is what
Kubernetes' own clients do. A plugin's answer is kept until it expires. When the server no longer takes what
it was shown, all of it is read anew, once for however many requests were refused with it.
Source: kubernetes.io/docs/reference/access-authn-authz/authentication (client-go credential plugins).
"""

import asyncio
import base64
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from stowplan.kube.api.access import Access
from stowplan.kube.api.errors import InvalidAccess
from stowplan.kube.api.plugin import HandedOut, ask
from stowplan.kube.api.tls import tls_context

__all__ = ["Credentials", "Shown"]

TOKEN_FILE_PERIOD_S = 60.0
EXPIRY_SLACK_S = 30.0
EXPIRY_SLACK_SHARE = 0.1  # of an answer's life, for answers that live for less than five minutes


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """What the server is shown at a request.

    Attributes:
        headers: Pairs of name and value; a name may come several times.
        tls: The context, with the user's certificate in it.
    """

    headers: tuple[tuple[str, str], ...]
    tls: ssl.SSLContext


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
        self._lock = asyncio.Lock()
        self._shown: Shown | None = None
        self._valid_until_s = 0.0  # monotonic
        self._handed_out: HandedOut | None = None
        self._renew_wall_s = float("inf")
        self._context: ssl.SSLContext | None = None
        self._certificate: tuple[str | None, str | None] = (access.certificate_pem, access.key_pem)

    async def current(self) -> Shown:
        """What to show now.

        Raises:
            InvalidAccess: A file cannot be read or used, or the plugin failed.
        """
        async with self._lock:
            if (
                self._shown is None
                or self._monotonic() >= self._valid_until_s
                or self._wall() >= self._renew_wall_s
            ):
                self._shown = await self._make()
            return self._shown

    def forget(self, shown: Shown) -> None:
        """Read everything anew before the next request: the server no longer takes what it was shown."""
        if shown is not self._shown:
            return  # another request that was refused has seen to it
        self._shown = None
        self._handed_out = None
        access = self._access
        if access.certificate_file is not None and access.key_file is not None:
            self._certificate = (_text(access.certificate_file), _text(access.key_file))
            self._context = None

    async def _make(self) -> Shown:
        access = self._access
        token = access.token
        certificate, key = self._certificate
        self._valid_until_s = float("inf")
        if access.token_file is not None:
            token = _text(access.token_file).strip()
            self._valid_until_s = self._monotonic() + TOKEN_FILE_PERIOD_S
        if access.plugin is not None:
            if self._handed_out is None or self._wall() >= self._renew_wall_s:
                self._handed_out = await ask(access.plugin)
                self._context = None
                left_s = self._handed_out.expires_s - self._wall()
                self._renew_wall_s = self._handed_out.expires_s - min(
                    EXPIRY_SLACK_S, EXPIRY_SLACK_SHARE * max(left_s, 0.0)
                )
            token = self._handed_out.token or token
            if self._handed_out.certificate_pem is not None:
                certificate, key = self._handed_out.certificate_pem, self._handed_out.key_pem
        if self._context is None:
            self._context = tls_context(access, certificate, key)
        return Shown((*_authorization(token, access.basic), *access.impersonation), self._context)


def _authorization(token: str | None, basic: tuple[str, str] | None) -> tuple[tuple[str, str], ...]:
    if token:
        return (("Authorization", f"Bearer {token}"),)
    if basic is not None:
        pair = base64.b64encode(":".join(basic).encode()).decode()
        return (("Authorization", f"Basic {pair}"),)
    return ()


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidAccess(f"{path} cannot be read: {error}") from error
