"""The processes: their parts made, begun in order and ended in order.

The parts of the scheduler's:

    feed, workflows     follow the API server from the first moment
    election            begins when the feed is settled: nobody leads who does not know the cluster
    scheduler           works while this instance leads; in extender mode it releases gated pods in order
    extender            answers kube-scheduler whether or not this instance leads

On SIGTERM or SIGINT no new cycle begins, what is under way is waited for, then the lease is given back.
"""

from __future__ import annotations

import asyncio
import signal
from contextlib import AsyncExitStack
from typing import Final

import structlog

from stowplan import __version__
from stowplan.core.constraints import RuleTable
from stowplan.kube.api.access import from_environment
from stowplan.kube.api.client import ApiClient
from stowplan.serve.config import Config
from stowplan.serve.http import HttpFace, listening, make_app
from stowplan.serve.logs import configure_logs
from stowplan.serve.memory import few_arenas, give_back, small_tls_buffers, spare_the_collector
from stowplan.serve.service import SchedulerService
from stowplan.serve.together import Together
from stowplan.serve.webhook.server import WebhookServer

__all__ = ["serve_scheduler", "serve_webhook"]

_SETTLING_S: Final = 0.1

_LOG = structlog.get_logger(__name__)


async def serve_scheduler(config: Config, rules: RuleTable) -> int:
    """Schedule until a signal ends it; return the exit code.

    Raises:
        InvalidInput: the configuration or the access to the cluster cannot be used.
    """
    kubernetes = config.kubernetes
    access = from_environment(kubernetes.kubeconfig, kubernetes.context)
    configure_logs(config.log.format, config.log.level, mode=config.scheduler.mode.value)
    stop = _stop_on_signals()
    small_tls_buffers()
    few_arenas()
    async with ApiClient(access, request_timeout_s=kubernetes.request_timeout_s) as client:
        service = SchedulerService(config, rules, client)
        _LOG.info("starts", version=__version__, server=access.server, identity=service.identity)
        await _run(service, config, stop)
    _LOG.info("ended")
    return 0


async def serve_webhook(config: Config) -> int:
    """Review workflows until a signal ends it; return the exit code.

    Raises:
        InvalidInput: the configuration, the certificate or the access to the cluster cannot be used.
    """
    kubernetes = config.kubernetes
    access = from_environment(kubernetes.kubeconfig, kubernetes.context)
    configure_logs(config.log.format, config.log.level, service="webhook")
    stop = _stop_on_signals()
    small_tls_buffers()
    few_arenas()
    async with ApiClient(access, request_timeout_s=kubernetes.request_timeout_s) as client:
        server = WebhookServer(
            config.webhook,
            client,
            mode=config.scheduler.mode,
            scheduler_name=config.scheduler.name,
            history=config.history,
            http=config.http,
        )
        _LOG.info("starts", version=__version__, server=access.server)
        async with Together() as together:
            server.checks.alive("tasks", together.ended)
            together.start("memory", give_back())
            together.start("webhook", server.run())
            await together.until(stop)
            await server.drain()
    _LOG.info("ended")
    return 0


def _stop_on_signals() -> asyncio.Event:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop


async def _run(service: SchedulerService, config: Config, stop: asyncio.Event) -> None:
    async with AsyncExitStack() as stack:
        face = HttpFace(
            checks=service.checks,
            registry=service.metrics.registry,
            status=service.status,
            pod=service.explain_pod,
            workflow=service.explain_workflow,
        )
        port = await stack.enter_async_context(listening(make_app(face), config.http.host, config.http.port))
        _LOG.info("listens", host=config.http.host, port=port)
        together = await stack.enter_async_context(Together())
        service.checks.alive("tasks", together.ended)
        # What only another configuration can mend ends the process before it has begun.
        await service.history.open()
        await service.rights.ask()
        service.begin(together)
        if service.extender is not None:
            extender = config.extender
            asked_at = await stack.enter_async_context(
                listening(service.extender_app(), extender.host, extender.port, service.certificate)
            )
            _LOG.info("extender listens", host=extender.host, port=asked_at)
        together.start("memory", give_back())
        together.start("leading", _lead(service))
        await together.until(stop)
        _LOG.info("drains", under_way=service.scheduler.under_way)
        left = await service.scheduler.drain(config.scheduler.drain_s)
        if left:
            _LOG.warning("placements whose outcome is not known", count=left)
        await service.finish()


async def _lead(service: SchedulerService) -> None:
    # A pod whose workflow has not been read would be taken for a task of its own, and ordered as one.
    while not (service.feed.is_settled and service.book.is_settled):  # noqa: ASYNC110 - states tell nobody
        await asyncio.sleep(_SETTLING_S)
    _LOG.info("knows the cluster", nodes=service.feed.state.node_count, pods=len(service.feed.pods))
    spare_the_collector()
    if service.election is None:
        await service.scheduler.run()
        return
    await service.election.run(service.lead)
