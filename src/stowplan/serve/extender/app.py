"""The extender's HTTP face: one POST per verb, JSON both ways.

/filter /prioritize /preempt    answers; 400 with the field that is wrong, 413 when the body is too large

Answers carry their length: kube-scheduler stops reading at the end of the JSON, and Go keeps a connection
for the next request only when it has seen the end of the body. A question whose caller has hung up is not
answered: kube-scheduler has gone on without.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import structlog
from aiohttp import web

from stowplan.serve.extender.extender import Extender
from stowplan.serve.extender.metrics import ExtenderMetrics
from stowplan.serve.extender.wire import BadRequest

__all__ = ["extender_app"]

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
