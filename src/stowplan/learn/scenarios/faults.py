"""Random faults: degraded disks, silent nodes, lost racks, reclaimed machines and broken PCIe links."""

from __future__ import annotations

import numpy as np

from stowplan.learn.scenarios.ranges import Ranges
from stowplan.simulate.faults import NO_FAULTS, Cause, FaultKind, FaultPlan, FaultRule

__all__ = ["draw_faults"]


def draw_faults(rng: np.random.Generator, ranges: Ranges, *, length_s: float, has_gpus: bool) -> FaultPlan:
    """Draw the faults of a scenario of about `length_s` seconds; half of those with GPUs lose PCIe links."""
    rules: list[FaultRule] = []
    if has_gpus and rng.random() < 0.5:
        rules.append(
            _rule(
                rng,
                FaultKind.PCIE_LINK_DOWN,
                length_s,
                share=0.3,
                root_complex=int(rng.integers(2)),
                factor=0.1,
            )
        )
    if rng.random() >= ranges.fault_share:
        return FaultPlan(tuple(rules)) if rules else NO_FAULTS
    kinds = (FaultKind.DISK_STALL, FaultKind.NODE_NOT_READY, FaultKind.RACK_OUTAGE, FaultKind.SPOT_RECLAIM)
    chosen: list[int] = rng.choice(len(kinds), int(rng.integers(1, 3)), replace=False).tolist()
    for kind in chosen:
        match kinds[kind]:
            case FaultKind.DISK_STALL:
                rules.append(_rule(rng, FaultKind.DISK_STALL, length_s, share=0.1, factor=0.03))
            case FaultKind.NODE_NOT_READY:
                cause = (Cause.KERNEL, Cause.NETWORK, Cause.STORAGE)[int(rng.integers(3))]
                rules.append(_rule(rng, FaultKind.NODE_NOT_READY, length_s, share=0.1, cause=cause))
            case FaultKind.RACK_OUTAGE:
                rules.append(_rule(rng, FaultKind.RACK_OUTAGE, length_s, share=0.1))
            case _:
                rules.append(_rule(rng, FaultKind.SPOT_RECLAIM, length_s, share=0.2, notice_s=120.0))
    return FaultPlan(tuple(rules))


def _rule(
    rng: np.random.Generator, kind: FaultKind, length_s: float, *, share: float, **settings: object
) -> FaultRule:
    """Draw when: once or a few times in the length of the scenario, each for about `share` of it."""
    return FaultRule(
        kind=kind,
        every_s=length_s * float(rng.uniform(0.3, 1.5)),
        until_s=2.0 * length_s,
        duration_s=max(length_s * share * float(rng.uniform(0.3, 1.5)), 10.0),
        duration_is_exponential=True,
        **settings,  # pyright: ignore[reportArgumentType]  (each of the rule's own type, see the calls)
    )
