"""The extender's HTTP face: one POST per verb, JSON both ways.

/filter /prioritize /preempt    answers; 400 with the field that is wrong, 413 when the body is too large

Answers carry their length: kube-scheduler stops reading at the end of the JSON, and Go keeps a connection
for the next request only when it has seen the end of the body. A question whose caller has hung up is not
answered: kube-scheduler has gone on without.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import structlog
from aiohttp import web

from stowplan.errors import InvalidInput
from stowplan.serve.extender.extender import Extender
from stowplan.serve.extender.metrics import ExtenderMetrics
from stowplan.serve.extender.wire import BadRequest

__all__ = ["extender_app", "server_tls"]

_GIVEN_UP = 499  # nobody reads it; nginx's number for a caller that hung up

_LOG = structlog.get_logger(__name__)


def extender_app(extender: Extender, metrics: ExtenderMetrics, largest_body_bytes: int) -> web.Application:
    """Return the application that answers with `extender`; larger bodies are refused."""
    app = web.Application(client_max_size=largest_body_bytes)
    for verb, answer in (
        ("filter", extender.filter),
        ("prioritize", extender.prioritize),
        ("preempt", extender.preempt),
    ):
        app.router.add_post(f"/{verb}", _answering(verb, answer, metrics))
    return app


def _answering(
    verb: str, answer: Callable[[bytes], bytes], metrics: ExtenderMetrics
) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handle(request: web.Request) -> web.Response:
        try:
            body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            metrics.bad_request(verb)
            _LOG.warning("request refused", verb=verb, reason="the body is too large")
            raise
        await asyncio.sleep(0)  # one look at the sockets: after a standstill many callers have given up
        if request.transport is None or request.transport.is_closing():
            metrics.abandoned(verb)
            return web.Response(status=_GIVEN_UP)
        began_s = time.perf_counter()
        try:
            content = answer(body)
        except BadRequest as error:
            metrics.bad_request(verb)
            _LOG.warning("request refused", verb=verb, reason=str(error))
            return web.json_response({"Error": str(error)}, status=400)
        metrics.answered(verb, time.perf_counter() - began_s)
        return web.Response(body=content, content_type="application/json")

    return handle


def server_tls(certificate: Path, key: Path, client_authority: Path | None = None) -> ssl.SSLContext:
    """Return the TLS context to serve with; with `client_authority` only its clients are let in.

    Raises:
        InvalidInput: a file cannot be used.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        # An encrypted key is refused; without a password here OpenSSL would ask for one on the terminal.
        context.load_cert_chain(certificate, key, password="")
    except (OSError, ssl.SSLError) as error:
        why = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
        raise InvalidInput(
            f"the extender cannot serve with certificate {certificate} and key {key}: {why}; name a PEM "
            "certificate and its unencrypted key"
        ) from None
    if client_authority is not None:
        try:
            context.load_verify_locations(client_authority)
        except (OSError, ssl.SSLError) as error:
            why = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
            raise InvalidInput(
                f"the client authority {client_authority} cannot be used: {why}; name a PEM file"
            ) from None
        context.verify_mode = ssl.CERT_REQUIRED
    return context
