"""CPU: what a quota costs.

How cores are shared by `cpu.weight` is `waterfill`.

Law with data for steady demand: a task that wants d cores under a limit of q runs at q/d of its speed; quotas
of 0.05, 0.10 and 0.20 core were measured as 0.050, 0.100 and 0.199. For bursts the arithmetic of the kernel's
bandwidth control
(Linux documentation, *CFS Bandwidth Control*): each period P grants q·P core-seconds, and who has used them
waits for the next period. That bursts start with a fresh period is our simplification.
"""

from __future__ import annotations

import math

from stowplan.core.physics.compile import compiled
from stowplan.core.physics.cpu_weight import cpu_weight_of_request

__all__ = ["burst_time_s", "cpu_weight_of_request", "quota_rate"]


@compiled
def burst_time_s(cores: float, length_s: float, limit_cores: float, period_s: float) -> float:
    """Time that a burst takes which alone keeps `cores` busy for `length_s`, under a quota of `limit_cores`.

    The burst needs cores·length core-seconds and may use limit·period of them in each period; while it has
    quota it runs on all its cores.
    """
    work = cores * length_s
    grant = limit_cores * period_s
    if cores <= limit_cores or work <= grant:
        return length_s
    full_periods = math.ceil(work / grant * (1.0 - 1e-12)) - 1.0
    return full_periods * period_s + (work - full_periods * grant) / cores


@compiled
def quota_rate(
    cores: float, burst_cores: float, burst_length_s: float, limit_cores: float, period_s: float
) -> float:
    """Speed under a CPU limit relative to none, 0 … 1.

    Args:
        cores: mean demand at full speed.
        burst_cores: demand during bursts; at most `cores` means that the demand is steady.
        burst_length_s: length of a burst at full speed.
        limit_cores: the quota; inf = none.
        period_s: period of the quota.

    The mean may never exceed the limit; beyond that, the share of time spent in bursts is stretched as one
    burst is.
    """
    if cores <= 0.0 or limit_cores == math.inf:
        return 1.0
    steady = min(1.0, limit_cores / cores)
    if burst_cores <= cores or burst_cores <= limit_cores or burst_length_s <= 0.0:
        return steady
    in_bursts = cores / burst_cores
    stretch = burst_time_s(burst_cores, burst_length_s, limit_cores, period_s) / burst_length_s
    return min(steady, 1.0 / (1.0 - in_bursts + in_bursts * stretch))
