"""The weight by which Kubernetes shares cores, in plain Python: policies use it without a compiler."""

from __future__ import annotations

import math

__all__ = ["cpu_weight_of_request"]


def cpu_weight_of_request(request_cores: float) -> float:
    """`cpu.weight` (1 … 10000) that Kubernetes' runtime derives from a CPU request.

    Law: shares = 1024 per core in whole numbers, between 2 and 262144; weight = ⌈10^((l² + 125·l)/612 −
    7/34)⌉ with l = log2(shares), as in current opencontainers/cgroups (`ConvertCPUSharesToCgroupV2Value`),
    not the older linear mapping.
    """
    shares = min(max(float(math.floor(request_cores * 1024.0)), 2.0), 262144.0)
    if shares in {2.0, 262144.0}:
        return 1.0 if shares == 2.0 else 10000.0
    doublings = math.log2(shares)
    exponent = (doublings * doublings + 125.0 * doublings) / 612.0 - 7.0 / 34.0
    return float(math.ceil(math.pow(10.0, exponent)))
