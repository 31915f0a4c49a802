"""An extender in a process of its own, so that a test can kill or stop it: `python FILE OPTIONS`, in JSON.

It follows the API server of the kubeconfig and listens on loopback, of whichever network namespace it is in.
"""

import asyncio
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from stowplan.core.constraints import NO_RULES, RuleTable
from stowplan.core.domain import (
    ClusterState,
    PendingTask,
    RunningTask,
    Task,
    Workflow,
    WorkflowProgress,
    WorkProfile,
)
from stowplan.core.policy import make_policy
from stowplan.kube.api.access import from_kubeconfig
from stowplan.kube.api.client import ApiClient
from stowplan.kube.live.feed import ClusterFeed
from stowplan.kube.live.pod import LivePod
from stowplan.observe.history.records import Decision
from stowplan.serve.extender.app import extender_app
from stowplan.serve.extender.extender import Extender, Surroundings
from stowplan.serve.extender.metrics import ExtenderMetrics
from stowplan.serve.extender.settings import ExtenderSettings
from stowplan.serve.health import Checks
from stowplan.serve.http import HttpFace, listening, make_app
from stowplan.serve.metrics import SchedulerMetrics
from stowplan.serve.vitals import Vitals


class OwnWorkflows:
    """Takes every pod for a workflow of its own, of a minute."""

    running: Mapping[str, RunningTask] = {}

    def task_of(self, pod: LivePod, ready_s: float) -> PendingTask:
        task = Task(pod.name, pod.shape, WorkProfile(()), 60.0)
        progress = WorkflowProgress(pod.key, Workflow(pod.key, (task,)), ready_s)
        return PendingTask(pod.key, progress, 0, ready_s)


async def serve(options: dict[str, Any]) -> None:
    """Serve until killed."""
    decisions: list[Decision] = []
    metrics = SchedulerMetrics()
    counts = ExtenderMetrics(metrics.registry)
    async with ApiClient(from_kubeconfig([Path(options["kubeconfig"])])) as client:
        feed = ClusterFeed(client, ClusterState())
        settings = ExtenderSettings(**options.get("settings", {}))
        extender = Extender(
            feed,
            make_policy(options["policy"]),
            Surroundings(
                tasks=OwnWorkflows(),
                read=feed.peek,
                metrics=counts,
                monotonic=time.monotonic,
                wall=time.time,
                rng=np.random.default_rng(),
                on_decision=decisions.append,
            ),
            rules=RuleTable.parse(options["rules"]) if "rules" in options else NO_RULES,
            settings=settings,
        )
        feed.listen(extender.listener)
        vitals = Vitals(metrics)
        vitals.watch("extender", lambda: extender.degraded)
        checks = Checks()
        checks.ready("feed", lambda: "" if feed.is_settled else "not settled")

        def status() -> Mapping[str, object]:
            return {**extender.status, "decisions": msgspec.to_builtins(decisions)}

        face = HttpFace(checks=checks, registry=metrics.registry, status=status)
        async with (
            listening(make_app(face), "127.0.0.1", options["port"] + 1),
            listening(
                extender_app(extender, counts, settings.largest_body_bytes), "127.0.0.1", options["port"]
            ),
        ):
            await asyncio.gather(feed.run(), vitals.run())


if __name__ == "__main__":
    asyncio.run(serve(json.loads(sys.argv[1])))
