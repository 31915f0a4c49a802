"""The webhook's paths over HTTP: limits, deadlines, and that no fault of ours stops anybody."""

import asyncio
import io
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from structlog.testing import capture_logs

from stowplan.kube.plan import PlanOptions
from stowplan.serve.webhook.admission import Admission, Result, Verdict
from stowplan.serve.webhook.application import (
    DEFECT_SHOWN_S,
    LONGEST_BODY_BYTES,
    MUTATE_PATH,
    VALIDATE_PATH,
    AdmissionApplication,
)
from stowplan.serve.webhook.metrics import WebhookMetrics
from stowplan.serve.webhook.review import AdmissionRequest
from stowplan.serve.webhook.settings import WebhookConfig
from tests.unit.argo.cases import container, workflow
from tests.unit.webhook.reviews import patch_of, response_of, review, until

RIGHT = workflow(container("leaf"))
WRONG = workflow(container("leaf", daemon="yes"))


class Webhook:
    """A running webhook, and what it counted."""

    def __init__(self, admission: Admission, monotonic: Callable[[], float], **settings: Any) -> None:  # noqa: ANN401 (whatever the settings take)
        self.metrics = WebhookMetrics()
        self.application = AdmissionApplication(
            admission, self.metrics, WebhookConfig(**settings), monotonic=monotonic
        )
        self.client: TestClient[web.Request, web.Application] = TestClient(
            TestServer(self.application.application())
        )

    async def ask(self, path: str, raw: object, query: str = "") -> dict[str, Any]:
        answer = await self.client.post(path + query, data=review(raw))
        assert answer.status == 200
        assert answer.content_type == "application/json"
        return response_of(await answer.read())

    def in_flight(self) -> float | None:
        return self.metrics.registry.get_sample_value("stowplan_webhook_requests_in_flight")

    def counted(self) -> dict[tuple[str, str, str], float]:
        return {
            (sample.labels["webhook"], sample.labels["kind"], sample.labels["result"]): sample.value
            for metric in self.metrics.registry.collect()
            for sample in metric.samples
            if sample.name == "stowplan_webhook_requests_total"
        }


@asynccontextmanager
async def running(
    admission: Admission | None = None,
    *,
    monotonic: Callable[[], float] | None = None,
    **settings: Any,  # noqa: ANN401 (the same)
) -> AsyncGenerator[Webhook]:
    loop = asyncio.get_running_loop()
    webhook = Webhook(admission or Admission(PlanOptions()), monotonic or loop.time, **settings)
    async with webhook.client:
        yield webhook
    webhook.application.close()


class Slow(Admission):
    """Plans when it is told to."""

    def __init__(self) -> None:
        super().__init__(PlanOptions())
        self.go = threading.Event()
        self.begun = threading.Semaphore(0)

    def mutate(self, request: AdmissionRequest) -> Verdict:
        self.begun.release()
        self.go.wait(60.0)
        return super().mutate(request)


class Faulty(Admission):
    """Has a defect for as long as it is told so."""

    def __init__(self) -> None:
        super().__init__(PlanOptions())
        self.fault: BaseException | None = None

    def mutate(self, request: AdmissionRequest) -> Verdict:
        if self.fault is not None:
            raise self.fault
        return super().mutate(request)

    validate = mutate


def test_both_paths_answer_and_count() -> None:
    async def story() -> None:
        async with running() as webhook:
            assert patch_of(await webhook.ask(MUTATE_PATH, RIGHT))
            assert (await webhook.ask(VALIDATE_PATH, RIGHT))["allowed"] is True
            refused = await webhook.ask(VALIDATE_PATH, WRONG)
            assert (refused["allowed"], refused["status"]["code"]) == (False, 422)
            assert webhook.counted() == {
                ("mutate", "Workflow", "planned"): 1,
                ("validate", "Workflow", "valid"): 1,
                ("validate", "Workflow", "refused"): 1,
            }
            await webhook.ask(MUTATE_PATH, {"apiVersion": "v1", "kind": "Anything-that-a-client-names"})
            assert webhook.counted()["mutate", "other", "ignored"] == 1

    asyncio.run(story())


@pytest.mark.parametrize("fault", [KeyError("x"), RuntimeError("x"), MemoryError()], ids=repr)
def test_a_defect_of_ours_admits_is_told_and_passes(fault: Exception) -> None:
    async def story() -> None:
        now_s = [1000.0]
        admission = Faulty()
        async with running(admission, monotonic=lambda: now_s[0]) as webhook:
            admission.fault = fault
            for path in (MUTATE_PATH, VALIDATE_PATH):
                with capture_logs() as logged:
                    response = await webhook.ask(path, RIGHT)
                assert (response["allowed"], patch_of(response)) == (True, [])
                assert "a defect of the webhook" in response["warnings"][0]
                assert [entry["event"] for entry in logged] == ["admission failed", "admission answered"]
            assert webhook.counted() == {
                ("mutate", "Workflow", "failed"): 1,
                ("validate", "Workflow", "failed"): 1,
            }
            assert type(fault).__name__ in webhook.application.defect
            admission.fault = None
            assert patch_of(await webhook.ask(MUTATE_PATH, RIGHT))
            assert webhook.application.defect
            now_s[0] += DEFECT_SHOWN_S
            assert webhook.application.defect == ""

    asyncio.run(story())


def test_what_takes_too_long_is_admitted_as_it_is() -> None:
    async def story() -> None:
        admission = Slow()
        async with running(admission, deadline_s=0.01, workers=1) as webhook:
            response = await webhook.ask(MUTATE_PATH, RIGHT)
            assert (response["allowed"], patch_of(response)) == (True, [])
            assert response["warnings"] == ["stowplan: not planned: it took longer than 0.01 s"]
            # The thread is still at it, so nobody else's turn comes either; nobody waits for it.
            assert "longer" in (await webhook.ask(VALIDATE_PATH, RIGHT))["warnings"][0]
            admission.go.set()

            async def is_planned() -> bool:
                return bool(patch_of(await webhook.ask(MUTATE_PATH, RIGHT)))

            await until(is_planned)
            counted = webhook.counted()
            assert counted["validate", "Workflow", "late"] == 1
            assert counted["mutate", "Workflow", "late"] >= 1

    asyncio.run(story())


def test_the_api_server_s_patience_is_respected() -> None:
    async def story() -> None:
        admission = Slow()
        async with running(admission, deadline_s=60.0) as webhook:
            for query, shown in (("?timeout=1s", "0.5 s"), ("?timeout=10s&x=y", "9.5 s")):
                if shown == "9.5 s":
                    admission.go.set()
                    assert patch_of(await webhook.ask(MUTATE_PATH, RIGHT, query))
                else:
                    assert shown in (await webhook.ask(MUTATE_PATH, RIGHT, query))["warnings"][0]

    asyncio.run(story())


def test_when_too_many_wait_others_are_admitted_at_once() -> None:
    async def story() -> None:
        admission = Slow()
        async with running(admission, workers=1, waiting=3, deadline_s=60.0) as webhook:
            first = [asyncio.create_task(webhook.ask(MUTATE_PATH, RIGHT)) for _ in range(3)]

            async def do_wait() -> bool:
                return webhook.in_flight() == 3

            await until(do_wait)
            response = await webhook.ask(MUTATE_PATH, RIGHT)
            assert (response["allowed"], patch_of(response)) == (True, [])
            assert response["warnings"] == ["stowplan: not planned: 3 requests wait"]
            admission.go.set()
            assert all(patch_of(response) for response in await asyncio.gather(*first))
            assert webhook.counted() == {
                ("mutate", "Workflow", "busy"): 1,
                ("mutate", "Workflow", "planned"): 3,
            }

    asyncio.run(story())


def test_a_slow_workflow_does_not_stop_the_others() -> None:
    async def story() -> None:
        admission = Slow()
        async with running(admission, workers=2, deadline_s=60.0) as webhook:
            slow = asyncio.create_task(webhook.ask(MUTATE_PATH, RIGHT))
            assert await asyncio.to_thread(admission.begun.acquire, timeout=30.0)
            assert (await webhook.ask(VALIDATE_PATH, RIGHT))["allowed"] is True
            assert not slow.done()
            admission.go.set()
            assert patch_of(await slow)

    asyncio.run(story())


def test_what_is_too_long_or_no_review_is_an_error_of_http() -> None:
    async def story() -> None:
        async with running() as webhook:
            just = review(RIGHT)
            just += b" " * (LONGEST_BODY_BYTES - len(just))
            for body, status in ((just, 200), (just + b" ", 413), (b"{}", 400), (b"", 400)):
                answer = await webhook.client.post(MUTATE_PATH, data=io.BytesIO(body))
                assert answer.status == status
            assert (
                "send a AdmissionReview" in await (await webhook.client.post(MUTATE_PATH, data=b"{}")).text()
            )
            assert (await webhook.client.get(MUTATE_PATH)).status == 405
            assert (await webhook.client.post("/elsewhere")).status == 404
            assert webhook.counted() == {
                ("mutate", "Workflow", "planned"): 1,
                ("mutate", "", "large"): 1,
                ("mutate", "", "bad"): 3,
            }

    asyncio.run(story())


def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    async def story() -> None:
        async with running(body_timeout_s=0.05) as webhook:

            async def drip() -> AsyncGenerator[bytes]:
                yield b'{"kind":'
                await asyncio.sleep(60.0)
                yield b"}"

            # Either the answer comes while the body is still sent, or the connection is closed.
            try:
                async with asyncio.timeout(30.0):
                    answer = await webhook.client.post(VALIDATE_PATH, data=drip())
                    assert answer.status == 408
            except aiohttp.ClientError:
                pass
            assert webhook.counted() == {("validate", "", "slow"): 1}

    asyncio.run(story())


def test_warnings_can_be_turned_off() -> None:
    async def story() -> None:
        admission = Faulty()
        admission.fault = KeyError("x")
        async with running(admission, warnings=0) as webhook:
            assert set(await webhook.ask(MUTATE_PATH, RIGHT)) == {"uid", "allowed"}

    asyncio.run(story())


def test_results_are_words_of_the_metric() -> None:
    assert {result.value for result in Result} == {
        *("planned", "unchanged", "shadow", "valid", "refused", "malformed"),
        *("ignored", "unreadable", "late", "busy", "failed"),
    }
