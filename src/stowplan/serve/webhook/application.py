"""The webhook's paths: what the API server posts is judged in threads, within the time that it grants.

/mutate-workflow      the plan as a JSON patch; never refuses
/validate-workflow    refuses what is malformed

To read a workflow of thousands of tasks takes a second of a processor, and other requests must not wait for
that; so it is done in threads. Whoever's turn does not come in time, or meets a defect of ours, is admitted
unchanged, which is counted, logged and told as degraded: nobody's work stops because hints for its placement
cannot be written.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import structlog
from aiohttp import web

from stowplan.serve.webhook.admission import Admission, Result, Verdict
from stowplan.serve.webhook.metrics import WebhookMetrics
from stowplan.serve.webhook.review import AdmissionRequest, Answer, NotReadable, answer_body, read_review
from stowplan.serve.webhook.settings import WebhookConfig

__all__ = ["MUTATE_PATH", "VALIDATE_PATH", "AdmissionApplication"]

MUTATE_PATH: Final = "/mutate-workflow"
VALIDATE_PATH: Final = "/validate-workflow"
LONGEST_BODY_BYTES: Final = 3 << 20  # as the API server takes itself
SPARE_S: Final = 0.5  # of what the API server grants, for the way and the envelope
DEFECT_SHOWN_S: Final = 300.0  # so long a defect counts as degraded; the counter keeps it for ever

_log = structlog.get_logger(__name__)
_SECONDS: Final = re.compile(r"(\d+)s", re.ASCII)
_KINDS: Final = frozenset({"Workflow", "WorkflowTemplate", "ClusterWorkflowTemplate", "CronWorkflow"})

Judge = Callable[[AdmissionRequest], Verdict]


class AdmissionApplication:
    """Serves an `Admission`; `close` ends its threads."""

    def __init__(
        self,
        admission: Admission,
        metrics: WebhookMetrics,
        config: WebhookConfig,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Answer by `admission`, within the limits of `config`."""
        self._judges: dict[str, Judge] = {"mutate": admission.mutate, "validate": admission.validate}
        self._metrics = metrics
        self._config = config
        self._monotonic = monotonic
        self._threads = ThreadPoolExecutor(config.workers, thread_name_prefix="webhook")
        self._in_flight = 0
        self._defect = ""
        self._defect_s = 0.0
        metrics.in_flight(lambda: self._in_flight)

    @property
    def defect(self) -> str:
        """The newest defect of ours, while it is fresh; else empty."""
        is_fresh = self._monotonic() - self._defect_s < DEFECT_SHOWN_S
        return self._defect if is_fresh else ""

    def application(self) -> web.Application:
        """Return the paths as an application of aiohttp."""
        app = web.Application(client_max_size=LONGEST_BODY_BYTES)
        app.router.add_post(MUTATE_PATH, self._mutate)
        app.router.add_post(VALIDATE_PATH, self._validate)
        return app

    def close(self) -> None:
        """End the threads when they have finished what they do; what waits is dropped."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _mutate(self, request: web.Request) -> web.Response:
        return await self._answered("mutate", request)

    async def _validate(self, request: web.Request) -> web.Response:
        return await self._answered("validate", request)

    async def _answered(self, webhook: str, request: web.Request) -> web.Response:
        asked = await self._asked(webhook, request)
        began_s = self._monotonic()
        result, body = await self._judged(webhook, asked, self._patience_s(request))
        kind = asked.kind.kind if asked.kind.kind in _KINDS else "other"
        duration_s = self._monotonic() - began_s
        self._metrics.answered(webhook, kind, result.value, duration_s)
        _log.info(
            "admission answered",
            webhook=webhook,
            kind=asked.kind.kind,
            namespace=asked.namespace,
            name=asked.name,
            uid=asked.uid,
            operation=asked.operation,
            dry_run=bool(asked.dry_run),
            result=result.value,
            duration_s=round(duration_s, 4),
        )
        return web.Response(body=body, content_type="application/json")

    async def _asked(self, webhook: str, request: web.Request) -> AdmissionRequest:
        """Return the question in a request.

        Raises:
            HTTPException: it cannot be read; the API server goes by its failure policy then.
        """
        try:
            async with asyncio.timeout(self._config.body_timeout_s):
                body = await request.read()
            return read_review(body)
        except TimeoutError:
            self._metrics.unread(webhook, "slow")
            raise web.HTTPRequestTimeout(text="the request did not arrive in time\n") from None
        except web.HTTPRequestEntityTooLarge:
            self._metrics.unread(webhook, "large")
            raise
        except NotReadable as error:
            self._metrics.unread(webhook, "bad")
            raise web.HTTPBadRequest(text=f"{error}\n") from None

    async def _judged(self, webhook: str, asked: AdmissionRequest, patience_s: float) -> tuple[Result, bytes]:
        if self._in_flight >= self._config.waiting:
            return self._passed(webhook, asked, Result.BUSY, f"{self._in_flight} requests wait")
        self._in_flight += 1
        try:
            loop = asyncio.get_running_loop()
            async with asyncio.timeout(patience_s):
                return await loop.run_in_executor(self._threads, self._judge, webhook, asked)
        except TimeoutError:
            return self._passed(webhook, asked, Result.LATE, f"it took longer than {patience_s:g} s")
        except Exception as error:  # noqa: BLE001 - a defect of ours, whatever it is, must stop nobody
            _log.exception("admission failed", webhook=webhook, kind=asked.kind.kind, uid=asked.uid)
            self._defect = f"{webhook}: {type(error).__name__}: {error}"
            self._defect_s = self._monotonic()
            return self._passed(webhook, asked, Result.FAILED, "a defect of the webhook, see its log")
        finally:
            self._in_flight -= 1

    def _judge(self, webhook: str, asked: AdmissionRequest) -> tuple[Result, bytes]:
        verdict = self._judges[webhook](asked)
        return verdict.result, answer_body(asked, verdict.answer)

    def _passed(
        self, webhook: str, asked: AdmissionRequest, result: Result, why: str
    ) -> tuple[Result, bytes]:
        what = "planned" if webhook == "mutate" else "checked"
        warnings = (f"stowplan: not {what}: {why}",) if self._config.warnings else ()
        return result, answer_body(asked, Answer(warnings=warnings))

    def _patience_s(self, request: web.Request) -> float:
        """Return how long an answer may take: the API server says in the query how long it waits."""
        granted = _SECONDS.fullmatch(request.query.get("timeout", ""))
        mine_s = self._config.deadline_s
        return mine_s if granted is None else min(mine_s, max(SPARE_S, int(granted[1]) - SPARE_S))
