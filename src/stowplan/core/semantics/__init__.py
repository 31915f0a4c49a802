"""Raw reading → physical meaning → cross-platform standard score (R6 to R10), without I/O.

* `readings`: what counters and files said at one moment; `rates`: increases from two of them.
* `value`, `quantities`, `catalogue`: a number with unit, source, quality and age, and what each quantity is.
* `knee`, `bandwidth`: memory bandwidth utilisation and pressure (MBPI).
* `storage`, `storage_platforms`, `storage_levels`: await and the level that it means on a platform.
* `rtt`, `distance_modes`, `distances`, `misleading`: how far apart nodes are, in fact and in name.
* `occupancy`: how busy cores and network devices are.
* `memory`: working set and page cache; `pcie_links`, `root_complexes`: the PCIe tree; `faults`: their rates.
* `board`: what was last measured of every node, for policies.
* `features`, `moments`, `scores`, `drift`: statistics of training, standard scores, whether they still fit.

The same functions serve the simulator, the live scheduler, training and the node agent. A measurement never
raises: what is odd about it becomes the quality of a value. Parameters that make no sense, and readings that
do not belong together, raise `InvalidInput`.
"""

from stowplan.core.semantics.bandwidth import (
    CpuWeightRule,
    bandwidth_pressure,
    bandwidth_utilisation,
    cpu_weight,
    node_pressure,
)
from stowplan.core.semantics.board import NODE_QUANTITIES, NodeReadings
from stowplan.core.semantics.catalogue import CATALOGUE, quantity
from stowplan.core.semantics.distance_modes import ModeRule
from stowplan.core.semantics.distances import (
    UNKNOWN_DISTANCE,
    DistanceClass,
    Distances,
    NamedPlaces,
    Origin,
    estimate_distances,
)
from stowplan.core.semantics.drift import DriftLimits, DriftReport, DriftVerdict, FeatureDrift, drift_report
from stowplan.core.semantics.faults import fault_rates
from stowplan.core.semantics.features import Feature, feature_of, feature_rows
from stowplan.core.semantics.knee import BandwidthLaw, KneeFit, fit_knee
from stowplan.core.semantics.memory import MemoryRule, MemoryValues, memory_values
from stowplan.core.semantics.misleading import MisleadingPairs, misleading_pairs
from stowplan.core.semantics.moments import Moments, no_moments
from stowplan.core.semantics.occupancy import cpu_utilisation, cpu_wait_share, nic_utilisation
from stowplan.core.semantics.pcie_links import LinkHealth, LinkState, link_state
from stowplan.core.semantics.quantities import FaultKind, Quantity, Source, Unit
from stowplan.core.semantics.rates import IntervalRule
from stowplan.core.semantics.readings import (
    BlockDeviceCounters,
    ChannelCounters,
    CpuPressureTotals,
    CpuTimes,
    DataSlotCounters,
    DeviceKind,
    FaultCounters,
    MemoryReading,
    MonitoredBytes,
    NetworkDeviceCounters,
    PcieDevice,
    PressureTotals,
    Reading,
    StallCounters,
    Taken,
)
from stowplan.core.semantics.root_complexes import (
    SPREAD_SCORE_FACTOR,
    UNKNOWN_ROOT,
    DeviceDistance,
    RootComplexFit,
    device_distance,
    devices_by_root_complex,
    free_gpus_by_root_complex,
    root_complex_fit,
    root_complexes_of,
)
from stowplan.core.semantics.rtt import LEAST_TAIL_SAMPLES, RttEstimates, RttSamples, estimate_rtt
from stowplan.core.semantics.scores import (
    SCHEMA,
    SCORE_LIMIT,
    FeatureStatistics,
    FrozenStatistics,
    freeze,
    standard_scores,
    statistics_from_bytes,
    statistics_to_bytes,
)
from stowplan.core.semantics.storage import DeviceStatistics, device_statistics
from stowplan.core.semantics.storage_levels import (
    UNKNOWN_LEVEL,
    LevelRule,
    LevelState,
    level_value,
    next_level,
    one_hot_levels,
    storage_weight,
)
from stowplan.core.semantics.storage_platforms import (
    DEFAULT_PLATFORM,
    LEVEL_COUNT,
    LEVEL_NAMES,
    PLATFORMS,
    StorageLevels,
    levels_of,
)
from stowplan.core.semantics.value import Quality, Unknown, Value, best_of, measured, missing

__all__ = [
    "CATALOGUE",
    "DEFAULT_PLATFORM",
    "LEAST_TAIL_SAMPLES",
    "LEVEL_COUNT",
    "LEVEL_NAMES",
    "NODE_QUANTITIES",
    "PLATFORMS",
    "SCHEMA",
    "SCORE_LIMIT",
    "SPREAD_SCORE_FACTOR",
    "UNKNOWN_DISTANCE",
    "UNKNOWN_LEVEL",
    "UNKNOWN_ROOT",
    "BandwidthLaw",
    "BlockDeviceCounters",
    "ChannelCounters",
    "CpuPressureTotals",
    "CpuTimes",
    "CpuWeightRule",
    "DataSlotCounters",
    "DeviceDistance",
    "DeviceKind",
    "DeviceStatistics",
    "DistanceClass",
    "Distances",
    "DriftLimits",
    "DriftReport",
    "DriftVerdict",
    "FaultCounters",
    "FaultKind",
    "Feature",
    "FeatureDrift",
    "FeatureStatistics",
    "FrozenStatistics",
    "IntervalRule",
    "KneeFit",
    "LevelRule",
    "LevelState",
    "LinkHealth",
    "LinkState",
    "MemoryReading",
    "MemoryRule",
    "MemoryValues",
    "MisleadingPairs",
    "ModeRule",
    "Moments",
    "MonitoredBytes",
    "NamedPlaces",
    "NetworkDeviceCounters",
    "NodeReadings",
    "Origin",
    "PcieDevice",
    "PressureTotals",
    "Quality",
    "Quantity",
    "Reading",
    "RootComplexFit",
    "RttEstimates",
    "RttSamples",
    "Source",
    "StallCounters",
    "StorageLevels",
    "Taken",
    "Unit",
    "Unknown",
    "Value",
    "bandwidth_pressure",
    "bandwidth_utilisation",
    "best_of",
    "cpu_utilisation",
    "cpu_wait_share",
    "cpu_weight",
    "device_distance",
    "device_statistics",
    "devices_by_root_complex",
    "drift_report",
    "estimate_distances",
    "estimate_rtt",
    "fault_rates",
    "feature_of",
    "feature_rows",
    "fit_knee",
    "free_gpus_by_root_complex",
    "freeze",
    "level_value",
    "levels_of",
    "link_state",
    "measured",
    "memory_values",
    "misleading_pairs",
    "missing",
    "next_level",
    "nic_utilisation",
    "no_moments",
    "node_pressure",
    "one_hot_levels",
    "quantity",
    "root_complex_fit",
    "root_complexes_of",
    "standard_scores",
    "statistics_from_bytes",
    "statistics_to_bytes",
    "storage_weight",
]
