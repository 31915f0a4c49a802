"""What presses on the machines beside our work: tenants that the scheduler does not see, and drift.

Drift is the two-state chain of `Drift` (normal, degraded; exponential stays); the first stay of every node is
normal. Each drift has a generator of its own, drawn from as its flips come, so a run may be as long as it
likes. A tenant whose last turn is not over when the next is due skips that turn.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from stowplan.simulate.clusters.model import BackgroundTenant, Cluster, Drift
from stowplan.simulate.demands import profiles_of
from stowplan.simulate.kernel import TaskStarts
from stowplan.simulate.stage import Stage

__all__ = ["Background"]

_TENANT_WEIGHT = 100.0  # cpu.weight of a cgroup that nobody set, for example a system service


class Background:
    """Tenants and drift of one run."""

    def __init__(self, stage: Stage, cluster: Cluster, seed: np.random.SeedSequence) -> None:
        """Plan the first turn of every tenant and the first flip of every drifting node.

        Raises:
            InvalidInput: a tenant's work that the kernel cannot take.
        """
        self._site = stage.site
        self._timeline = stage.timeline
        self._running: set[int] = set()
        self._last_turn = [-1] * len(cluster.background)
        for index, (drift, own_seed) in enumerate(
            zip(cluster.drift, seed.spawn(len(cluster.drift)), strict=True)
        ):
            rng = np.random.default_rng(own_seed)
            for name in drift.nodes:
                stay_s = float(rng.exponential(drift.mean_normal_s))
                self._timeline.plan(
                    stay_s, partial(self._degrade, drift, index, self._site.index_of[name], rng)
                )
        works = [(tenant.work, 0.0) for tenant in cluster.background]
        if works:
            profiles = profiles_of(works, leaves_rack=self._site.machines.has_rack_links)
            ids = self._site.kernel.add_profiles(profiles).tolist()
            for index, (tenant, profile) in enumerate(zip(cluster.background, ids, strict=True)):
                self._timeline.plan(tenant.first_s, partial(self._start_tenant, tenant, index, profile))

    def ended(self, kernel_id: int) -> None:
        """Note that a tenant's work is over."""
        self._running.discard(kernel_id)

    def _start_tenant(self, tenant: BackgroundTenant, index: int, profile: int, time_s: float) -> None:
        """Start the tenant's work, unless the last time is not over yet."""
        if tenant.every_s is not None:
            self._timeline.plan(time_s + tenant.every_s, partial(self._start_tenant, tenant, index, profile))
        if self._last_turn[index] in self._running:
            return
        work = tenant.work
        node = self._site.index_of[tenant.node]
        machine_type = self._site.nodes[node].hardware.machine_type
        starts = TaskStarts.of(
            [node],
            [profile],
            speed=1.0 / dict(work.machine_factors).get(machine_type, 1.0),
            cpu_weight=_TENANT_WEIGHT,
            cpu_limit_cores=_limit(work.cpu_limit_cores),
            memory_limit_bytes=_limit(work.memory_limit_bytes),
            memory_request_bytes=math.inf,  # never the one that is evicted: not Kubernetes' to evict
        )
        kernel_id = int(self._site.kernel.start(starts)[0])
        self._running.add(kernel_id)
        self._last_turn[index] = kernel_id

    def _degrade(self, drift: Drift, index: int, node: int, rng: np.random.Generator, time_s: float) -> None:
        factor = float(rng.choice(drift.levels)) if drift.levels else drift.degraded_factor
        self._site.scale(node, drift.resource, ("drift", index), factor)
        stay_s = float(rng.exponential(drift.mean_degraded_s))
        self._timeline.plan(time_s + stay_s, partial(self._recover, drift, index, node, rng))

    def _recover(self, drift: Drift, index: int, node: int, rng: np.random.Generator, time_s: float) -> None:
        self._site.scale(node, drift.resource, ("drift", index), 1.0)
        stay_s = float(rng.exponential(drift.mean_normal_s))
        self._timeline.plan(time_s + stay_s, partial(self._degrade, drift, index, node, rng))


def _limit(amount: float | None) -> float:
    return math.inf if amount is None else amount
