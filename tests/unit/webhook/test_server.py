"""The service: it answers once it knows the cluster, tells what is wrong, and ends in order."""

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from stowplan.errors import InvalidInput
from stowplan.kube.api.client import ApiClient
from stowplan.serve.scheduler.interface import Mode
from stowplan.serve.sections import HistoryConfig
from stowplan.serve.webhook.application import MUTATE_PATH
from stowplan.serve.webhook.server import RIGHTS, WebhookServer, controller_rights
from stowplan.serve.webhook.settings import ControllerConfig, WebhookConfig
from testbed.certificates import Authority
from tests.unit.argo.cases import container, workflow
from tests.unit.kube_api.server import FakeServer, status
from tests.unit.webhook.reviews import patch_of, response_of, review, until


@pytest.fixture
def config(tmp_path: Path) -> WebhookConfig:
    pair = Authority(tmp_path / "keys").issue("webhook", "webhook", addresses=["127.0.0.1"])
    return WebhookConfig(
        port=0,
        certificate=pair.certificate,
        key=pair.key,
        drain_s=0.0,
        controller=ControllerConfig(config_map="n/argo"),
    )


@asynccontextmanager
async def serving(
    config: WebhookConfig,
    server: FakeServer,
    *,
    mode: Mode = Mode.BINDER,
    **fields: Any,  # noqa: ANN401 (whatever it takes)
) -> AsyncGenerator[WebhookServer]:
    async with ApiClient(server.access) as client:
        webhook = WebhookServer(config, client, mode=mode, **fields)
        running = asyncio.create_task(webhook.run())
        try:
            yield webhook
        finally:
            running.cancel()
            await asyncio.wait({running})
            assert running.cancelled()


async def listens(webhook: WebhookServer) -> None:
    async def look() -> bool:
        return webhook.port != 0

    await until(look)


async def planned(webhook: WebhookServer, config: WebhookConfig) -> list[Any]:
    assert config.certificate is not None
    trust = ssl.create_default_context(cafile=config.certificate.with_name("ca.crt"))
    url = f"https://127.0.0.1:{webhook.port}{MUTATE_PATH}"
    body = review(workflow(container("leaf")))
    async with aiohttp.ClientSession() as session, session.post(url, data=body, ssl=trust) as answer:
        return patch_of(response_of(await answer.read()))


def test_it_answers_once_it_knows_the_cluster(config: WebhookConfig) -> None:
    async def story() -> None:
        async with FakeServer() as server:
            go = asyncio.Event()

            async def hold(_: object) -> None:
                await go.wait()

            server.script.extend([hold] * 3)
            async with serving(config, server) as webhook:

                async def has_asked() -> bool:
                    return len(server.requests) == 3

                await until(has_asked)
                assert webhook.port == 0
                unready = webhook.checks.readiness()
                assert unready["listening"] == "does not listen yet"
                for kind in ("WorkflowTemplate", "ClusterWorkflowTemplate", "ConfigMap"):
                    assert f"{kind} not read yet" in unready["settled"]
                go.set()
                await listens(webhook)
                assert await planned(webhook, config)
                assert not any(webhook.checks.readiness().values())
                assert not any(webhook.checks.liveness().values())
                state = webhook.status()
                assert (state["mode"], state["port"]) == ("binder", webhook.port)
                assert "there is no ConfigMap n/argo" in str(state["degraded"])
                await webhook.drain()
                assert webhook.checks.readiness()["draining"] == "is being ended"
            assert webhook.port == 0

    asyncio.run(story())


def test_strict_referencing_in_the_controller_s_map_is_respected(config: WebhookConfig) -> None:
    async def story() -> None:
        async with FakeServer() as server:
            await server.put("argo", data={"workflowRestrictions": "templateReferencing: Strict"}, spec={})
            async with serving(config, server) as webhook:
                await listens(webhook)
                # A workflow that does not refer to a template; the controller would not run it anyway.
                assert await planned(webhook, config) == []
                await server.put("argo", data={}, spec={})

                async def is_planned() -> bool:
                    return bool(await planned(webhook, config))

                await until(is_planned)

    asyncio.run(story())


def test_a_right_that_is_missing_is_named(config: WebhookConfig) -> None:
    async def story() -> None:
        async with FakeServer() as server:
            server.script.extend(status(403, "Forbidden", "it is forbidden") for _ in range(500))
            async with serving(config, server) as webhook:

                async def is_told() -> bool:
                    return webhook.checks.readiness()["settled"].count("grant the verb") == 3

                await until(is_told)
                assert webhook.port == 0

    asyncio.run(story())


def test_a_history_that_cannot_be_read_is_told_and_stops_nothing(
    config: WebhookConfig, tmp_path: Path
) -> None:
    history = HistoryConfig(url=f"sqlite:///{tmp_path / 'nowhere' / 'history.db'}")

    async def story() -> None:
        async with FakeServer() as server, serving(config, server, history=history) as webhook:
            await listens(webhook)
            assert await planned(webhook, config)

            async def is_told() -> bool:
                gauge = "stowplan_webhook_degraded"
                value = webhook.metrics.registry.get_sample_value(gauge, {"component": "history"})
                return value == 1.0 and "nowhere" in str(webhook.status()["degraded"])

            await until(is_told)

    asyncio.run(story())


def test_in_shadow_mode_nothing_is_patched(config: WebhookConfig) -> None:
    async def story() -> None:
        async with FakeServer() as server, serving(config, server, mode=Mode.SHADOW) as webhook:
            await listens(webhook)
            assert await planned(webhook, config) == []

    asyncio.run(story())


def test_an_address_that_is_taken_is_told_in_one_line(config: WebhookConfig) -> None:
    async def story() -> None:
        async with FakeServer() as server, ApiClient(server.access) as client:
            with socket.create_server(("127.0.0.1", 0)) as taken:
                port = taken.getsockname()[1]
                webhook = WebhookServer(config.model_copy(update={"port": port}), client, mode=Mode.BINDER)
                with pytest.raises(InvalidInput, match=f"cannot listen on 127.0.0.1:{port}"):
                    await webhook.run()

    asyncio.run(story())


def test_without_a_certificate_it_does_not_begin(config: WebhookConfig) -> None:
    async def story() -> None:
        async with FakeServer() as server, ApiClient(server.access) as client:
            with pytest.raises(InvalidInput, match=r"webhook.certificate and webhook.key: name both files"):
                WebhookServer(config.model_copy(update={"key": None}), client, mode=Mode.BINDER)

    asyncio.run(story())


def test_its_rights_are_to_read() -> None:
    config = WebhookConfig()
    for right in (*RIGHTS, *controller_rights(config)):
        assert set(right.verbs) == {"get", "list", "watch"}
    assert [right.namespace for right in controller_rights(config)] == ["argo"]
    none = WebhookConfig(controller=ControllerConfig(config_map=""))
    assert controller_rights(none) == ()
