"""The data of `stowplan demo`: facts of real workflow runs (ORIGIN.md) and a cluster to run them on."""

from stowplan.simulate.data.demo import (
    MEAN_GAP_S,
    load_demo_cluster,
    load_demo_recordings,
    load_demo_workload,
)

__all__ = ["MEAN_GAP_S", "load_demo_cluster", "load_demo_recordings", "load_demo_workload"]
