"""Workloads of the simulator: what runs and when it arrives, from Stowplan's own YAML or from public traces.

    workload = load_workload("trace.json.gz")                    # any supported file or folder, seen from its
    content times = Poisson(mean_gap_s=60.0).times_s(workload.recorded_s, rng)
    workload = workload.at_times(times)

`load_workloads` returns every instance of a batch file. Formats: docs/FORMATS.md.
"""

from stowplan.simulate.formats import FORMATS, Format, Use
from stowplan.simulate.workloads.arrivals import AllAtOnce, Arrivals, Burst, Poisson, Replay, parse_arrivals
from stowplan.simulate.workloads.load import detect, load_workload, load_workloads
from stowplan.simulate.workloads.model import Submission, Workload

__all__ = [
    "FORMATS",
    "AllAtOnce",
    "Arrivals",
    "Burst",
    "Format",
    "Poisson",
    "Replay",
    "Submission",
    "Use",
    "Workload",
    "detect",
    "load_workload",
    "load_workloads",
    "parse_arrivals",
]
