"""The webhook as a service: listens by https, follows templates and history, renews its certificate."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import Final

import structlog
from prometheus_client import CollectorRegistry

from stowplan.errors import InvalidInput
from stowplan.kube.api.client import ApiClient
from stowplan.kube.api.reflection import ReflectorState
from stowplan.serve.health import Checks
from stowplan.serve.http import HttpFace, listening, make_app
from stowplan.serve.rights import Right
from stowplan.serve.scheduler.interface import Mode
from stowplan.serve.sections import HistoryConfig, HttpConfig
from stowplan.serve.tls import ServingCertificate
from stowplan.serve.together import Together
from stowplan.serve.vitals import Vitals
from stowplan.serve.webhook.admission import Admission
from stowplan.serve.webhook.application import AdmissionApplication
from stowplan.serve.webhook.controller import FollowedController
from stowplan.serve.webhook.expectations import Expectations
from stowplan.serve.webhook.metrics import WebhookMetrics
from stowplan.serve.webhook.settings import ControllerConfig, WebhookConfig
from stowplan.serve.webhook.templates import WatchedTemplates

__all__ = ["REGISTRATION_RIGHTS", "RIGHTS", "WebhookServer", "controller_rights"]

_log = structlog.get_logger(__name__)

SETTLING_S: Final = 0.1

RIGHTS: Final = (
    Right("argoproj.io", "workflowtemplates", ("get", "list", "watch")),
    Right("argoproj.io", "clusterworkflowtemplates", ("get", "list", "watch")),
)
"""What it needs in all namespaces."""


def controller_rights(config: WebhookConfig) -> tuple[Right, ...]:
    """Return what it needs in the namespace of Argo's controller, to read its ConfigMap."""
    namespace = config.controller.config_map.partition("/")[0]
    return (Right("", "configmaps", ("get", "list", "watch"), namespace),) if namespace else ()


REGISTRATION_RIGHTS: Final = tuple(
    Right("admissionregistration.k8s.io", kind, ("create", "get", "patch"))
    for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
)
"""What whoever registers it needs; not the webhook itself."""


class WebhookServer:
    """Admission of workflows. Any number of instances may run side by side: none keeps anything.

    Attributes:
        metrics: what it counts.
        checks: whether it is alive and ready.
        port: where it listens; 0 before it does.
    """

    def __init__(  # noqa: PLR0913 - all but three have a default that fits
        self,
        config: WebhookConfig,
        client: ApiClient,
        *,
        mode: Mode,
        scheduler_name: str = "stowplan",
        history: HistoryConfig | None = None,
        http: HttpConfig | None = None,
        registry: CollectorRegistry | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """Make the service.

        Args:
            config: its own settings.
            client: where templates are.
            mode: how the scheduler acts on pods; in shadow mode nothing is patched.
            scheduler_name: the scheduler's name, in binder mode.
            history: where expected durations come from.
            http: where health and metrics are served; None: by somebody else.
            registry: of the metrics; a new one by default.
            wall: the time in seconds since the epoch.

        Raises:
            InvalidInput: a setting cannot be used, or no certificate is named.
            InvalidFile: the certificate cannot be used.
        """
        if config.certificate is None or config.key is None:
            raise InvalidInput(
                "webhook.certificate and webhook.key: name both files; the API server calls https only"
            )
        self._config = config
        self._http = http
        self._mode = mode
        history = history or HistoryConfig()
        self.metrics = WebhookMetrics(registry)
        self._certificate = ServingCertificate(
            config.certificate,
            config.key,
            reload_s=config.reload_s,
            on_change=self.metrics.expires,
            wall=wall,
        )
        self._templates = WatchedTemplates(client)
        self._expectations = Expectations(history.url, refit_s=history.refit_s, wall=wall)
        admission = Admission(
            config.plan_options(mode, scheduler_name),
            source=self._templates,
            history=lambda: self._expectations.history,
            refuse=config.refuse,
            most_warnings=config.warnings,
            is_shadow=mode is Mode.SHADOW,
        )
        self._admission = AdmissionApplication(admission, self.metrics, config)

        def take_over(controller: ControllerConfig) -> None:
            admission.options = config.plan_options(mode, scheduler_name, controller)
            self._controller_says = controller

        self._controller_says = config.controller
        self._controller = FollowedController(client, config.controller, take_over)
        self._is_draining = False
        self.port = 0
        self.checks = Checks()
        self.checks.ready("listening", lambda: "" if self.port else "does not listen yet")
        self.checks.ready("settled", self._why_unsettled)
        self.checks.ready("draining", lambda: "is being ended" if self._is_draining else "")
        vitals = Vitals(self.metrics)
        vitals.watch_many(self._components)
        self._parts = {
            "templates": self._templates,
            "controller": self._controller,
            "history": self._expectations,
            "certificate": self._certificate,
            "vitals": vitals,
        }

    async def run(self) -> None:
        """Serve until cancelled; requests that are being answered then are finished.

        Raises:
            InvalidInput: the address cannot be listened on.
        """
        config = self._config
        async with AsyncExitStack() as stack:
            stack.callback(self._admission.close)
            if self._http is not None:
                face = HttpFace(checks=self.checks, registry=self.metrics.registry, status=self.status)
                await stack.enter_async_context(listening(make_app(face), self._http.host, self._http.port))
            together = await stack.enter_async_context(Together())
            self.checks.alive("parts", together.ended)
            for name, part in self._parts.items():
                together.start(name, part.run())
            # Nobody is answered by who does not know what the controller allows and what templates there are.
            while self._why_unsettled() and not together.ended():  # noqa: ASYNC110 - a question, which tells nobody
                await asyncio.sleep(SETTLING_S)
            app = self._admission.application()
            self.port = await stack.enter_async_context(
                listening(app, config.host, config.port, self._certificate)
            )
            _log.info("webhook listens", host=config.host, port=self.port, mode=self._mode.value)
            try:
                await together.until(asyncio.Event())
            finally:
                self.port = 0

    async def drain(self) -> None:
        """Say that no more requests are wanted, and serve on until everybody will have heard of it."""
        self._is_draining = True
        await asyncio.sleep(self._config.drain_s)

    def _components(self) -> Mapping[str, str]:
        """Return what each component suffers from; empty where all is well."""
        return {
            "admission": self._admission.defect,
            "certificate": self._certificate.error,
            "controller": self._controller.error,
            "history": self._expectations.error,
            "templates": "; ".join(
                f"{kind}: {health.error}"
                for kind, health in self._templates.health.items()
                if health.state is ReflectorState.WAITING
            ),
        }

    def status(self) -> Mapping[str, object]:
        """Return what it does now, as plain data."""
        return {
            "mode": self._mode.value,
            "port": self.port,
            "degraded": {component: why for component, why in self._components().items() if why},
            "classes": self._expectations.classes,
            "controller": self._controller_says.model_dump(mode="json"),
            "templates": {
                kind: {"state": health.state.value, "unusable": dict(health.unusable)}
                for kind, health in self._templates.health.items()
            },
        }

    def _why_unsettled(self) -> str:
        waits = {
            kind: health.error for kind, health in self._templates.health.items() if not health.is_settled
        }
        if not self._controller.is_settled:
            waits["ConfigMap"] = self._controller.error
        return "; ".join(f"{kind} not read yet{': ' if why else ''}{why}" for kind, why in waits.items())
