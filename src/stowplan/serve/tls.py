"""How the services are served by TLS: a certificate that is read again when its files change.

Whoever issues certificates renews them, and whoever signs those of clients too.

A context never changes once it is made: a new one takes over for connections that begin from then on (loading
a renewed pair into a live context would leave one of another key type beside it). Before it does, it is tried
in a handshake with itself, which finds a key of another certificate, an expired one and one that is not for
servers. What cannot be used is not taken over: what was served before stays, and `error` says why.

Source of the hand-over: docs.python.org/3/library/ssl, SSLContext.sni_callback and SSLSocket.context.
"""

from __future__ import annotations

import asyncio
import hashlib
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, cast

import structlog

from stowplan.errors import InvalidFile

__all__ = ["ServingCertificate"]

_log = structlog.get_logger(__name__)
_FLIGHTS: Final = 10  # a handshake takes four at most


class ServingCertificate:
    """A certificate and its key, in two files that may be replaced at any time; so may who signs for clients.

    Attributes:
        context: what to listen with.
    """

    def __init__(
        self,
        certificate: Path,
        key: Path,
        client_authority: Path | None = None,
        *,
        reload_s: float,
        on_change: Callable[[float], None],
        wall: Callable[[], float] = time.time,
    ) -> None:
        """Read the files.

        Args:
            certificate: PEM, with the authorities in between behind it.
            key: PEM, not encrypted.
            client_authority: PEM; only its clients are let in. None: everybody is.
            reload_s: how often the files are looked at.
            on_change: told when the pair that is used expires, seconds since the epoch.
            wall: the time in seconds since the epoch.

        Raises:
            InvalidFile: a file cannot be used, the two are no pair, or the certificate is not valid now.
        """
        self._certificate, self._key, self._client_authority = certificate, key, client_authority
        self._reload_s = reload_s
        self._on_change = on_change
        self._wall = wall
        self._fingerprint = self._read()
        self._current, self._expires_s = self._load()
        self._problem = ""
        # Whoever listens keeps this first context, which hands every connection over.
        self.context = self._current
        self.context.sni_callback = self._hand_over
        on_change(self._expires_s)

    @property
    def error(self) -> str:
        """What is wrong with the files or with what is served; empty while all is well."""
        if self._problem:
            return self._problem
        return f"{self._certificate} has expired; renew it" if self._wall() >= self._expires_s else ""

    async def run(self) -> None:
        """Look at the files again and again, until cancelled."""
        while True:
            await asyncio.sleep(self._reload_s)
            self.look()

    def look(self) -> None:
        """Take renewed files over, if there are any that can be used."""
        try:
            fingerprint = self._read()
            if fingerprint == self._fingerprint:
                self._problem = ""
                return
            self._current, self._expires_s = self._load()
        except InvalidFile as error:
            self._problem = str(error)
            return
        # Read before they were loaded: if the files change in between, the next look finds others.
        self._fingerprint = fingerprint
        self._problem = ""
        self._on_change(self._expires_s)
        _log.info("serving certificate replaced", expires_s=self._expires_s)

    def _read(self) -> bytes:
        digest = hashlib.sha256()
        for file in (self._certificate, self._key, self._client_authority):
            if file is None:
                continue
            try:
                digest.update(file.read_bytes() + b"\0")
            except OSError as error:
                raise InvalidFile(f"{file} cannot be read: {error.strerror or error}") from None
        return digest.digest()

    def _load(self) -> tuple[ssl.SSLContext, float]:
        context, expires_s = _tried(self._certificate, self._key)
        if self._client_authority is not None:
            _admit(context, self._client_authority)
        return context, expires_s

    def _hand_over(self, connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        del name, context
        connection.context = self._current


def _tried(certificate: Path, key: Path) -> tuple[ssl.SSLContext, float]:
    """Return a context with that pair, and when the certificate expires, in seconds since the epoch.

    Raises:
        InvalidFile: no connection could be made with it.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        # An encrypted key is refused; without a password here OpenSSL would ask for one on the terminal.
        context.load_cert_chain(certificate, key, password="")
        return context, _expiry_s(context, certificate)
    except ssl.SSLCertVerificationError as error:
        raise InvalidFile(f"{certificate} cannot be served: {error.verify_message}; renew it") from None
    except (ssl.SSLError, ValueError) as error:
        why = getattr(error, "reason", None) or "no certificate and key in PEM that belong together"
        raise InvalidFile(f"{certificate} with {key} cannot be used: {why}; write a pair in PEM") from None
    except OSError as error:
        raise InvalidFile(f"{certificate} or {key} cannot be read: {error.strerror or error}") from None


def _admit(context: ssl.SSLContext, authority: Path) -> None:
    """Let only clients in whom that authority signed.

    Raises:
        InvalidFile: it cannot be used.
    """
    try:
        context.load_verify_locations(authority)
    except (OSError, ssl.SSLError) as error:
        why = getattr(error, "reason", None) or error.strerror or error
        raise InvalidFile(
            f"the client authority {authority} cannot be used: {why}; name a PEM file"
        ) from None
    context.verify_mode = ssl.CERT_REQUIRED


def _expiry_s(context: ssl.SSLContext, certificate: Path) -> float:
    """Shake hands with ourselves, and return what the client's side was told of the certificate's end."""
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname = False  # only the caller knows by which name
    trusting.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    trusting.load_verify_locations(cadata=certificate.read_text(encoding="ascii"))
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        trusting.wrap_bio(to_client, to_server),
        context.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(_FLIGHTS):
        for side in tuple(sides):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    shown = sides[0].getpeercert() or {}
    return float(ssl.cert_time_to_seconds(cast("str", shown.get("notAfter", ""))))
