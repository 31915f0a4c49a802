"""Laws measured by others, loaded from their own files: who slows whom, what a placement costs, what drifts.

`load_law(path)` sees from the content which law a file holds:

* `MachineLaw` (Lotaru): task × machine factors; give it the folder, it needs several machines.
* `PlacementLaw` (Sia): step time of a training job by GPUs and nodes.
* `ThroughputLaw` (Gavel): training jobs alone and in pairs, by GPU model.
* `ColocationLaw` (Lucid): pairs on one GPU.
* `DriftLaw` (Azure VM noise): how a "constant" resource varies.
"""

from stowplan.simulate.laws.colocation import ColocationLaw, ColocationPair, parse_colocations
from stowplan.simulate.laws.drift import DriftLaw, parse_drift
from stowplan.simulate.laws.load import Law, load_law
from stowplan.simulate.laws.machines import MachineFactor, MachineLaw, Run, parse_runs
from stowplan.simulate.laws.placement import PlacementLaw, PlacementTime, parse_placements
from stowplan.simulate.laws.throughput import Job, ThroughputLaw, parse_throughputs

__all__ = [
    "ColocationLaw",
    "ColocationPair",
    "DriftLaw",
    "Job",
    "Law",
    "MachineFactor",
    "MachineLaw",
    "PlacementLaw",
    "PlacementTime",
    "Run",
    "ThroughputLaw",
    "load_law",
    "parse_colocations",
    "parse_drift",
    "parse_placements",
    "parse_runs",
    "parse_throughputs",
]
