"""How a simulation is run: what surrounds the scheduler, each with its unit and a default.

The defaults describe a cluster whose control plane costs nothing: a cycle at every instant at which something
changed, tasks that run from the moment they are placed. That is what published list-scheduling results
assume. A real cluster is described by raising the latencies; values with their sources are in
`docs/SIMULATOR.md`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields

from stowplan.core.semantics.rates import IntervalRule
from stowplan.errors import InvalidInput

__all__ = ["SensorOptions", "SimulationOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SensorOptions:
    """How well the nodes are measured. The defaults measure exactly, on time, and lose nothing.

    Raises:
        InvalidInput: an option is out of range; the message names it.
    """

    interval_s: float = 5.0
    """Seconds between two readings of a node."""
    noise: float = 0.0
    """Relative standard deviation of each number, log-normal; levels follow from noisy waits."""
    delay_s: float = 0.0
    """Seconds from a reading until the scheduler has it."""
    loss: float = 0.0
    """Share of the readings of a node that never come."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        checks = (
            ("interval_s", 0.0 < self.interval_s <= IntervalRule().longest_s),
            ("noise", 0.0 <= self.noise < math.inf),
            ("delay_s", 0.0 <= self.delay_s < math.inf),
            ("loss", 0.0 <= self.loss <= 1.0),
        )
        for name, holds in checks:
            if not holds:
                raise InvalidInput(
                    f"SensorOptions.{name} is {getattr(self, name)}; see its range: an interval above 0 and "
                    f"at most {IntervalRule().longest_s:g} s, noise and delay from 0, a loss from 0 to 1"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationOptions:
    """Immutable options of one run.

    Raises:
        InvalidInput: an option is out of range; the message names it.
    """

    scheduling_interval_s: float = 0.0
    """Seconds between cycles: what happens in between is decided on together, at the next multiple. 0: at
    once."""
    binding_s: float = 0.0
    """Seconds from the decision until the node knows of the task (API server, kubelet)."""
    pod_startup_s: float = 0.0
    """Seconds from the binding until the task runs (sandbox, image pull, container start). The node's
    requested resources are held, its real resources are not yet used."""
    pod_start_interval_s: float = 0.0
    """Seconds between two starts on one node, where kubelet and runtime start pods one after another."""
    status_report_s: float = 0.0
    """Seconds from the end of a task until the control plane hears of it; until then its requests are
    held."""
    submission_s: float = 0.0
    """Seconds from hearing that all tasks before one have ended until the workflow engine submits it."""
    scheduler_backoff_s: float = 0.0
    """Seconds after which kube-scheduler looks again at a pod that fitted nowhere
    (`podInitialBackoffSeconds`, 1 by its default); doubles with every failure. 0: at every change."""
    scheduler_max_backoff_s: float = 10.0
    """Most seconds of that back-off (`podMaxBackoffSeconds`)."""
    max_retries: int = 3
    """How often a task that was lost (out of memory, evicted, node gone) is tried again before it fails."""
    retry_backoff_s: float = 0.0
    """Seconds before a lost task is pending again; doubles with every further loss of the same task."""
    node_monitor_grace_s: float = 40.0
    """Seconds after which the control plane notices that a node is silent (kube-controller-manager's
    `node-monitor-grace-period`)."""
    unreachable_toleration_s: float = 300.0
    """Seconds that pods stay bound to a node that is known to be silent (the API's default toleration)."""
    window_tasks: int | None = None
    """Most pending tasks that one cycle looks at, oldest first; None: all. A bound keeps a cycle's cost
    independent of the backlog, at the price that policies see only the window."""
    horizon_s: float = math.inf
    """Simulated time at which the run ends whatever is still open (such tasks are `unfinished`)."""
    usage_points: int = 256
    """Most points of the time series of utilisation of the whole cluster."""
    node_usage_rows: int = 50_000
    """Most rows of the time series by node, with no more points than that of the cluster and at least 4."""
    sensors: SensorOptions = field(default_factory=SensorOptions)
    """How well the nodes are measured, for policies that look at readings."""
    validates: bool = False
    """Re-check every invariant after every step. Slow; for tests."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        for item in fields(self):
            if item.name in ("window_tasks", "sensors", "validates"):
                continue
            number = float(getattr(self, item.name))
            if not number >= 0.0 or (math.isinf(number) and item.name != "horizon_s"):
                raise InvalidInput(f"SimulationOptions.{item.name} is {number}; give a number of 0 or more")
        if self.horizon_s <= 0.0:
            raise InvalidInput(f"SimulationOptions.horizon_s is {self.horizon_s}; give a time above 0")
        if self.window_tasks is not None and self.window_tasks < 1:
            raise InvalidInput(
                f"SimulationOptions.window_tasks is {self.window_tasks}; give at least 1, or None for all"
            )
        if self.window_tasks is not None and self.scheduler_backoff_s > 0.0:
            raise InvalidInput(
                "SimulationOptions.window_tasks and scheduler_backoff_s exclude each other; leave one out"
            )
        if self.usage_points < 2:
            raise InvalidInput(f"SimulationOptions.usage_points is {self.usage_points}; give at least 2")
