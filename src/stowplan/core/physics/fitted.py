"""Constants fitted on measurements: where they come from, and the command that fits them again.

`python -m bench.physics_fits` prints this module's numbers; `tests/differential/physics/test_fits.py` holds
them to the data.

* Lucid (Hu et al., ASPLOS 2023), `colocate_info.csv`: 1,388 pairs of training jobs on one GPU.
* Sia (Jayaram Subramanya et al., SOSP 2023), placement tables of the four-node cluster.
* AzurePublicDataset, vm-noise 2024: 483 days of benchmarks on cloud machines.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import numpy as np

from stowplan.core.physics.fits import DriftModel, StepTimeModel

__all__ = ["DRIFTS", "GPU_SHARING_KNOTS", "GPU_SHARING_SPEEDS", "STEP_TIMES"]

GPU_SHARING_KNOTS: Final = np.array([0.2535, 0.4994, 0.7027, 0.8852, 0.983])
"""Utilisation of the shared GPU."""
GPU_SHARING_SPEEDS: Final = np.array([0.9971, 0.9872, 0.9633, 0.8972, 0.7914])
"""Mean speed of a pair there, relative to alone."""


def _step(*numbers: float) -> StepTimeModel:
    fixed, sample, node, node_more, cluster, cluster_more, gamma = numbers
    return StepTimeModel(
        compute_fixed_s=fixed,
        compute_per_sample_s=sample,
        sync_node_s=node,
        sync_node_per_gpu_s=node_more,
        sync_cluster_s=cluster,
        sync_cluster_per_gpu_s=cluster_more,
        gamma=gamma,
    )


STEP_TIMES: Final[Mapping[str, StepTimeModel]] = MappingProxyType(
    {
        "cifar10": _step(0.01026, 0.0007832, 0.04046, 0.004769, 0.1311, 0.00236, 2.825),
        "imagenet": _step(0.06225, 0.004544, 0.06911, 0.01758, 0.3106, 0.005528, 2.814),
        "bert": _step(0.2235, 0.05829, 0.1533, 0.0668, 1.372, 0.01438, 2.126),
        "ncf": _step(0.006965, 8.023e-07, 0.002871, 0.001191, 0.01514, 0.0004357, 1.0),
        "deepspeech2": _step(0.01486, 0.03334, 0.4788, 0.08457, 0.7841, 0.02682, 3.232),
        "yolov3": _step(0.1954, 0.02618, 0.05502, 0.08869, 0.6922, 0.0235, 1.176),
    }
)
"""Training jobs by name; the mean error in sample is 5 to 8 %."""


def _drift(share: float, low: float, high: float, spread: float) -> DriftModel:
    return DriftModel(degraded_share=share, degraded_low=low, degraded_high=high, normal_spread=spread)


DRIFTS: Final[Mapping[str, DriftModel]] = MappingProxyType(
    {
        "mlc_max_bandwidth-all_reads__d8s_v5__mib_s": _drift(0.03837, 0.6295, 0.8859, 0.02229),
        "mlc_max_bandwidth-all_reads__b8ms__mib_s": _drift(0.09768, 0.6745, 0.8967, 0.03694),
        "fio_random_read-linux_aio-8kb-remote_disk__d8s_v5__iops": _drift(
            9.909e-05, 0.8044, 0.8044, 0.0003052
        ),
        "fio_random_read-linux_aio-8kb-remote_disk__b8ms__iops": _drift(0.0, 1.0, 1.0, 0.0009047),
    }
)
"""Benchmark, machine type and unit, as the series are named. Memory bandwidth drifts; a throttled disk hardly
does."""
