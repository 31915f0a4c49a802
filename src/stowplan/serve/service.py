"""The parts of one scheduler process and how they hang together; `app` begins and ends them."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import Final

import numpy as np
import structlog
from aiohttp import web

from stowplan import __version__
from stowplan.core.constraints import RuleTable
from stowplan.core.domain import ClusterState
from stowplan.core.engine import Engine
from stowplan.core.record import Setup
from stowplan.errors import InternalError, InvalidInput
from stowplan.kube.api.binder import Binder
from stowplan.kube.api.client import ApiClient
from stowplan.kube.api.lease import Election, LeaseSettings, identity_of
from stowplan.kube.api.recorder import EventRecorder
from stowplan.kube.api.reflection import Health, ReflectorState
from stowplan.kube.api.status import StatusWriter
from stowplan.kube.live.feed import ClusterFeed
from stowplan.observe.history import Decision, DecisionMode
from stowplan.serve.config import Config
from stowplan.serve.extender.app import extender_app
from stowplan.serve.extender.extender import Extender, Surroundings
from stowplan.serve.extender.metrics import ExtenderMetrics
from stowplan.serve.extender.settings import ExtenderSettings
from stowplan.serve.health import Checks
from stowplan.serve.keeping import KeptHistory
from stowplan.serve.metrics import SchedulerMetrics
from stowplan.serve.parts import make_engine, make_policies, rules_with_pool, selection, setup_of
from stowplan.serve.preemption.interface import PreemptorSettings
from stowplan.serve.preemption.preemptor import Preemptor
from stowplan.serve.record.answers import pod_answer, workflow_answer
from stowplan.serve.record.recorder import DecisionRecorder
from stowplan.serve.rights import RightsCheck, lease_rights, rights_of
from stowplan.serve.scheduler.bind import BinderActuator
from stowplan.serve.scheduler.gate import GateActuator, Placement
from stowplan.serve.scheduler.interface import Actuator, Mode, ShadowComparison
from stowplan.serve.scheduler.loop import Scheduler
from stowplan.serve.scheduler.settings import SchedulerSettings
from stowplan.serve.scheduler.shadow import ShadowActuator, as_decision
from stowplan.serve.scheduler.volumes import VolumeClaimer
from stowplan.serve.tls import ServingCertificate
from stowplan.serve.together import Together
from stowplan.serve.vitals import Vitals
from stowplan.serve.workflows.book import WorkflowBook
from stowplan.serve.workflows.settings import BookSettings

__all__ = ["SchedulerService"]

_CONTROLLER: Final = "stowplan-scheduler"
_LAST_WORDS_S: Final = 5.0
_FEW_UNDER_WAY: Final = 8

_LOG = structlog.get_logger(__name__)


class SchedulerService:
    """All parts of a scheduler process.

    Attributes:
        identity: the name of this instance, which no other has.
        metrics, checks, vitals, history, rights: what tells how it fares.
        feed: the live cluster.
        scheduler: decides while this instance leads.
        extender: answers kube-scheduler; None in other modes.
        certificate: what the extender is served with; None without TLS.
        election: None if this instance need not be elected.
    """

    def __init__(self, config: Config, rules: RuleTable, client: ApiClient) -> None:
        """Make all parts; nothing runs yet.

        Raises:
            InvalidInput: the configuration, or a file of the extender's certificate, cannot be used.
        """
        self._config = config
        self._client = client
        self._began_s = time.monotonic()
        mode = config.scheduler.mode
        self.identity = identity_of(socket.gethostname())
        self.metrics = SchedulerMetrics(profile=config.scheduler.name)
        self.checks = Checks()
        self.vitals = Vitals(self.metrics)
        self.history = KeptHistory(config.history)
        lease = config.lease
        preempts = config.preemption.enable
        asked = rights_of(mode, preempts=preempts) + (lease_rights(lease.namespace) if lease.enable else ())
        self.rights = RightsCheck(client, asked)
        self.feed = ClusterFeed(client, ClusterState())
        self.election = _election(config, client, self.identity)
        self.book = WorkflowBook(
            client,
            self.feed,
            history=self.history if config.history.url else None,
            history_url=config.history.url,
            registry=self.metrics.registry,
            settings=BookSettings(refit_s=config.history.refit_s),
        )
        self._events = EventRecorder(client, _CONTROLLER, self.identity, gives_way=self._is_busy)
        statuses = StatusWriter(client)
        setup = setup_of(config.scheduler, rules)
        engine = make_engine(config.scheduler, self.feed.state, setup)
        self._recorder = self._make_recorder(engine, setup) if config.history.url else None
        is_loud = mode is not Mode.SHADOW
        self.scheduler = Scheduler(
            feed=self.feed,
            engine=engine,
            tasks=self.book,
            actuator=self._actuator(engine),
            selects=selection(config.scheduler),
            statuses=statuses if is_loud else None,
            events=self._events if is_loud else None,
            decisions=self._recorder,
            preemptor=self._preemptor(engine, statuses) if mode is Mode.BINDER and preempts else None,
            metrics=self.metrics,
            settings=SchedulerSettings(
                bindings=config.scheduler.bindings,
                placements_per_cycle=config.scheduler.placements_per_cycle,
            ),
            is_leader=self._is_leader,
        )
        self.extender = self._make_extender(rules) if mode is Mode.EXTENDER else None
        self.certificate = self._make_certificate() if mode is Mode.EXTENDER else None
        self._watch_vitals()

    # ---- parts ----

    def _actuator(self, engine: Engine) -> Actuator:
        config = self._config.scheduler
        match config.mode:
            case Mode.BINDER:
                volumes = VolumeClaimer(self._client, self.feed)
                return BinderActuator(Binder(self._client), volumes, at_once=config.bindings)
            case Mode.SHADOW:
                return ShadowActuator(
                    self.feed,
                    engine,
                    self.book,
                    self._keep_comparison,
                )
            case Mode.GATE | Mode.EXTENDER:
                # Where kube-scheduler asks for scores, the place needs not be written on the pod.
                placement = Placement.NONE if config.mode is Mode.EXTENDER else Placement(config.placement)
                return GateActuator(self._client, self.feed, placement=placement, at_once=config.bindings)

    def _preemptor(self, engine: Engine, statuses: StatusWriter) -> Preemptor:
        return Preemptor(
            cluster=self.feed,
            filters_of=engine.filters_of,
            client=self._client,
            statuses=statuses,
            events=self._events,
            metrics=self.metrics,
            settings=PreemptorSettings.of(self._config.preemption),
        )

    def _make_recorder(self, engine: Engine, setup: Setup) -> DecisionRecorder:
        is_shadow = self._config.scheduler.mode is Mode.SHADOW
        return DecisionRecorder(
            engine=engine,
            setup=setup,
            writer=self.history,
            mode=DecisionMode.SHADOW if is_shadow else DecisionMode.LIVE,
            wall=time.time,
            expect=self.book.expected_on,
        )

    def _make_extender(self, rules: RuleTable) -> Extender:
        config = self._config
        self._extender_metrics = ExtenderMetrics(self.metrics.registry)
        self._extender_settings = ExtenderSettings(
            budget_s=config.extender.budget_ms / 1000, in_flight_s=config.extender.in_flight_s
        )
        extender = Extender(
            self.feed,
            make_policies(config.scheduler)[0],
            Surroundings(
                tasks=self.book,
                read=self.feed.peek,
                metrics=self._extender_metrics,
                monotonic=time.monotonic,
                wall=time.time,
                rng=np.random.Generator(np.random.PCG64(config.scheduler.seed)),
                on_decision=self._keep_decision if config.history.url else None,
                policy_version=__version__,
            ),
            rules=rules_with_pool(config.scheduler, rules),
            settings=self._extender_settings,
        )
        self.feed.listen(extender.listener)
        return extender

    def _keep_comparison(self, comparison: ShadowComparison) -> None:
        self.history.put(as_decision(comparison, __version__))

    def _keep_decision(self, decision: Decision) -> None:
        self.history.put(decision)

    def extender_app(self) -> web.Application:
        """Return what answers kube-scheduler.

        Raises:
            InternalError: this mode has no extender.
        """
        if self.extender is None:
            raise InternalError(f"mode {self._config.scheduler.mode} has no extender")
        return extender_app(self.extender, self._extender_metrics, self._extender_settings.largest_body_bytes)

    def _make_certificate(self) -> ServingCertificate | None:
        config = self._config.extender
        if config.certificate is None and config.key is None:
            if config.client_authority is not None:
                raise InvalidInput(
                    f"extender.client_authority is {str(config.client_authority)!r}, but without TLS every "
                    "client is let in; name extender.certificate and extender.key too"
                )
            return None
        if config.certificate is None or config.key is None:
            raise InvalidInput("extender.certificate and extender.key belong together; name both or neither")
        return ServingCertificate(
            config.certificate,
            config.key,
            config.client_authority,
            reload_s=config.reload_s,
            on_change=self._extender_metrics.certificate_expiry(),
        )

    def _is_busy(self) -> bool:
        """Whether the API server is better asked to bind pods than to take events."""
        return self.scheduler.under_way > _FEW_UNDER_WAY

    def _is_leader(self) -> bool:
        return self.election is None or self.election.is_leader

    # ---- running ----

    def begin(self, together: Together) -> None:
        """Begin what runs whether or not this instance leads."""
        if self._recorder is not None:
            self._recorder.start()
        together.start("history", self.history.run())
        together.start("events", self._events.run())
        together.start("feed", self.feed.run())
        together.start("workflows", self.book.run())
        together.start("rights", self.rights.run())
        together.start("vitals", self.vitals.run())
        if self.certificate is not None:
            together.start("certificate", self.certificate.run())

    async def lead(self) -> None:
        """Work as the leader until cancelled."""
        _LOG.info("leads", identity=self.identity)
        try:
            await self.scheduler.run()
        finally:
            _LOG.info("leads no longer", identity=self.identity)

    async def finish(self) -> None:
        """Say and write down what is still to be."""
        if self._recorder is not None:
            await asyncio.to_thread(self._recorder.stop, _LAST_WORDS_S)
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORDS_S):
                await self._events.flush()

    def _watch_vitals(self) -> None:
        watch = self.vitals.watch
        self.vitals.watch_many(lambda: _troubles(self.feed.health))
        self.vitals.watch_many(lambda: _troubles(self.book.health))
        self.vitals.watch_many(lambda: self.book.degraded)
        self.vitals.watch_many(lambda: self.scheduler.status.degraded)
        watch("history", lambda: self.history.why_degraded)
        watch("records", self._why_no_records)
        watch("events", lambda: self._events.health.error)
        watch("rights", lambda: self.rights.why)
        if self.election is not None:
            election = self.election
            watch("lease", lambda: election.health.error)
        if self.extender is not None:
            extender = self.extender
            watch("extender", lambda: extender.degraded)
        if self.certificate is not None:
            certificate = self.certificate
            watch("certificate", lambda: certificate.error)
        self.metrics.leader(self._is_leader)
        self.metrics.cache(self._count)
        ready = self.checks.ready
        ready("feed", lambda: _unsettled(self.feed.health))
        ready("rights", lambda: self.rights.why)
        ready("draining", lambda: "is being ended" if self.scheduler.status.is_draining else "")

    def _why_no_records(self) -> str:
        if self._recorder is None or not self._recorder.state.is_degraded:
            return ""
        return f"decisions are kept without a record to replay: {dict(self._recorder.state.without_record)}"

    def _count(self, kind: str) -> int:
        if kind == "nodes":
            return self.feed.state.node_count
        return len(self.feed.pods) if kind == "pods" else self.scheduler.under_way

    # ---- what can be asked ----

    def status(self) -> Mapping[str, object]:
        """Return what it does now, as plain values."""
        config = self._config.scheduler
        found: dict[str, object] = {
            "version": __version__,
            "mode": config.mode.value,
            "policy": config.policy,
            "identity": self.identity,
            "leads": self._is_leader(),
            "up_s": round(time.monotonic() - self._began_s, 1),
            "cluster": {"nodes": self.feed.state.node_count, "pods": len(self.feed.pods)},
            "scheduler": asdict(self.scheduler.status),
            "kinds": {
                kind: {"state": health.state.value, "events": health.events, "unusable": len(health.unusable)}
                for kind, health in self.feed.health.items()
            },
            "workflows": dict(self.book.status),
            "history": dict(self.history.status),
            "degraded": dict(self.metrics.degradations),
        }
        if self.election is not None:
            health = self.election.health
            found["lease"] = {"holder": health.holder, "transitions": health.transitions}
        if self.extender is not None:
            found["extender"] = dict(self.extender.status)
        return found

    async def explain_pod(self, namespace: str, name: str) -> Mapping[str, object] | None:
        """Return why a pod is where it is; None: nothing is known of it.

        Raises:
            HistoryError: the history cannot be read.
        """
        live = self.feed.pods.get(f"{namespace}/{name}")
        return await asyncio.to_thread(pod_answer, self.history.store, namespace, name, live=live)

    async def explain_workflow(self, namespace: str, name: str) -> Mapping[str, object] | None:
        """Return how far a workflow is, and what it waits for; None: nothing is known of it.

        Raises:
            HistoryError: the history cannot be read.
        """
        live = self.book.explain_workflow(namespace, name)
        return await asyncio.to_thread(workflow_answer, self.history.store, namespace, name, live=live)


def _election(config: Config, client: ApiClient, identity: str) -> Election | None:
    lease = config.lease
    if not lease.enable:
        return None
    try:
        settings = LeaseSettings(duration_s=lease.duration_s, renew_s=lease.renew_s, retry_s=lease.retry_s)
    except ValueError as error:
        raise InvalidInput(f"lease: {error}") from None
    return Election(client, lease.namespace, lease.name, identity, settings=settings)


def _troubles(health: Mapping[str, Health]) -> dict[str, str]:
    """Return what is wrong with the copies of objects, by kind."""
    return {
        f"watch of {kind}": one.error
        for kind, one in health.items()
        if one.state is ReflectorState.WAITING and one.error
    }


def _unsettled(health: Mapping[str, Health]) -> str:
    waiting = [
        f"{kind}{': ' + one.error if one.error else ''}" for kind, one in health.items() if not one.is_settled
    ]
    return f"not listed yet: {'; '.join(waiting)}" if waiting else ""
