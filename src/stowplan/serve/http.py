"""The HTTP face of a service: health, metrics, status and explanations, read only.

/healthz /readyz      200 `ok`, or 503 with the checks that fail; `?verbose` lists all
/metrics              Prometheus (text or OpenMetrics, as asked for)
/v1/status            what the service does now, JSON
/v1/pods/NS/NAME      why a pod is where it is, JSON
/v1/workflows/NS/NAME how far a workflow is and what it waits for, JSON
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import msgspec
from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from stowplan.errors import InvalidInput
from stowplan.serve.health import Checks
from stowplan.serve.tls import ServingCertificate

__all__ = ["Explain", "HttpFace", "listening", "make_app"]

Explain = Callable[[str, str], Awaitable[Mapping[str, object] | None]]
"""From namespace and name to plain data; None: not known."""


@dataclass(frozen=True, kw_only=True)
class HttpFace:
    """What is served; what is None answers 404."""

    checks: Checks
    registry: CollectorRegistry
    status: Callable[[], Mapping[str, object]] | None = None
    pod: Explain | None = None
    workflow: Explain | None = None


def _json_answer(value: object, status: int = 200) -> web.Response:
    """Return an answer with `value` as JSON."""
    body = msgspec.json.format(msgspec.json.encode(value), indent=2)
    return web.Response(body=body + b"\n", status=status, content_type="application/json")


def make_app(face: HttpFace) -> web.Application:
    """Return the application for `face`."""
    app = web.Application()
    checks = face.checks

    async def healthz(request: web.Request) -> web.Response:
        return _checked(request, checks.liveness())

    async def readyz(request: web.Request) -> web.Response:
        return _checked(request, {**checks.liveness(), **checks.readiness()})

    async def metrics(request: web.Request) -> web.Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode(face.registry), headers={"Content-Type": content_type})

    app.add_routes([web.get("/healthz", healthz), web.get("/readyz", readyz), web.get("/metrics", metrics)])
    if face.status is not None:
        app.router.add_get("/v1/status", _telling(face.status))
    for kind, explain in (("pods", face.pod), ("workflows", face.workflow)):
        if explain is not None:
            app.router.add_get(f"/v1/{kind}/{{namespace}}/{{name}}", _explaining(kind, explain))
    return app


def _telling(
    status: Callable[[], Mapping[str, object]],
) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(_: web.Request) -> web.Response:
        return _json_answer(status())

    return answer


def _explaining(kind: str, explain: Explain) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(request: web.Request) -> web.Response:
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        found = await explain(namespace, name)
        if found is None:
            return _json_answer({"error": f"nothing is known of {kind} {namespace}/{name}"}, status=404)
        return _json_answer(found)

    return answer


def _checked(request: web.Request, found: Mapping[str, str]) -> web.Response:
    failed = {name: why for name, why in found.items() if why}
    lines = [f"[-] {name}: {why}" for name, why in failed.items()]
    if "verbose" in request.query or failed:
        lines += [f"[+] {name}" for name in found if name not in failed]
    text = "\n".join(lines) or "ok"
    return web.Response(text=text + "\n", status=503 if failed else 200)


@asynccontextmanager
async def listening(
    app: web.Application, host: str, port: int, certificate: ServingCertificate | None = None
) -> AsyncGenerator[int]:
    """Serve `app` for the duration of a block; gives the port, which was chosen if it was 0.

    With a certificate it is served by https; whoever made that follows its renewals.

    Raises:
        InvalidInput: the address cannot be listened on.
    """
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=5.0)
    await runner.setup()
    try:
        tls = None if certificate is None else certificate.context
        site = web.TCPSite(runner, host, port, ssl_context=tls)
        try:
            await site.start()
        except OSError as error:
            why = error.strerror or str(error)
            raise InvalidInput(f"cannot listen on {host}:{port}: {why}; name another address") from None
        yield int(runner.addresses[0][1])
    finally:
        # Also when cancelled: what is being answered is finished first.
        await asyncio.shield(asyncio.ensure_future(runner.cleanup()))
