"""The laws of physics against real measurements that they were not fitted on.

* Sia: step times of training jobs by placement. Fitted on 70 % of the placements, judged on the other 30 %
  (placements, not rows, are held out), beside two simpler laws: one that does not see how many nodes a
  placement spans, and one without communication.
* Lucid: the curve of GPU sharing, fitted on half of the pairs, judged on the other half, beside the mean
  speed.
* Lotaru: run time on a machine predicted from the reference machine by the task's own factor (measured on the
  task's other inputs), beside one factor per machine.

`python -m bench.physics_fits` fits everything on all data and prints the constants of `core.physics.fitted`.
"""

import os
from collections import defaultdict
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bench.harness import Row
from stowplan.core.physics.fits import (
    StepTimeModel,
    fit_drift,
    fit_sharing_curve,
    fit_step_time,
    rounded,
)
from stowplan.core.physics.gpu import shared_gpu_speed
from stowplan.simulate.files import data_files, read_text
from stowplan.simulate.laws.colocation import ColocationLaw
from stowplan.simulate.laws.drift import DriftLaw
from stowplan.simulate.laws.load import load_law
from stowplan.simulate.laws.machines import REFERENCE_MACHINE, parse_runs
from stowplan.simulate.laws.placement import PlacementLaw, PlacementTime

REPOSITORY: Final = Path(__file__).parent.parent
DATA: Final = Path(os.environ.get("STOWPLAN_DATA", REPOSITORY.parent / "shared" / "data"))
JOBS: Final = ("cifar10", "imagenet", "bert", "ncf", "deepspeech2", "yolov3")
EDGES: Final = (0.4, 0.6, 0.8, 0.95)
DRIFTS: Final = (
    "mlc_max_bandwidth-all_reads__d8s_v5__mib_s",
    "mlc_max_bandwidth-all_reads__b8ms__mib_s",
    "fio_random_read-linux_aio-8kb-remote_disk__d8s_v5__iops",
    "fio_random_read-linux_aio-8kb-remote_disk__b8ms__iops",
)


def arrays(times: list[PlacementTime]) -> tuple[NDArray[np.float64], ...]:
    """GPUs, nodes, batch per GPU and step seconds, each (n,)."""
    columns = [(float(t.gpus), float(t.nodes), float(t.local_batch), t.step_s) for t in times]
    gpus, nodes, batch, step_s = np.array(columns).T
    return gpus, nodes, batch, step_s


def placement_law(job: str) -> PlacementLaw:
    """Read Sia's table of a job on its four-node cluster."""
    law = load_law(DATA / "sia" / f"{job}-placements.csv.gz")
    assert isinstance(law, PlacementLaw)  # noqa: S101 (the reader tells laws apart by content)
    return law


def fit_job(times: list[PlacementTime]) -> StepTimeModel:
    """Fit a job's step time."""
    gpus, nodes, batch, step_s = arrays(times)
    return fit_step_time(gpus, nodes, batch, step_s, random=np.random.default_rng(0))


def error_percent(model: StepTimeModel, times: list[PlacementTime], *, blind: bool = False) -> float:
    """Mean absolute error in percent; `blind` hides how many nodes a placement spans."""
    gpus, nodes, batch, step_s = arrays(times)
    told = model.step_time_s(gpus, np.ones_like(nodes) if blind else nodes, batch)
    return float(100.0 * np.mean(np.abs(told - step_s) / step_s))


def sia_rows(jobs: tuple[str, ...]) -> list[Row]:
    """Judge the placement law on held-out placements."""
    rows: list[Row] = []
    for job in jobs:
        times = list(placement_law(job).times)
        several: list[tuple[int, ...]] = sorted({time.gpus_on for time in times if time.gpus > 1})
        order = np.random.default_rng(0).permutation(len(several))
        held: set[tuple[int, ...]] = {several[index] for index in order[int(0.7 * len(several)) :]}
        train = [time for time in times if time.gpus_on not in held]
        test = [time for time in times if time.gpus_on in held]
        one_node = [PlacementTime((time.gpus,), time.local_batch, time.step_s, time.sync_s) for time in train]
        alone = [PlacementTime((1,), time.local_batch, time.step_s, time.sync_s) for time in train]
        unplaced = [PlacementTime((1,), time.local_batch, time.step_s, time.sync_s) for time in test]
        blind = error_percent(fit_job(one_node), test, blind=True)
        deaf = error_percent(fit_job(alone), unplaced)
        rows.append(
            Row.exact(
                error_percent(fit_job(train), test),
                name=f"physics/sia-{job}",
                what=f"step time of {job} on placements not fitted on, mean absolute error",
                unit="%",
                note=f"{len(held)} of {len(several)} placements held out; blind to nodes {blind:.1f} %, "
                f"without communication {deaf:.1f} %",
            )
        )
    return rows


def lucid_pairs() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Utilisation and mean speed of Lucid's pairs."""
    law = load_law(DATA / "lucid" / "colocate_info.csv.gz")
    assert isinstance(law, ColocationLaw)  # noqa: S101 (the reader tells laws apart by content)
    return (
        np.array([pair.gpu_utilisation for pair in law.pairs]),
        np.array([pair.mean_speed for pair in law.pairs]),
    )


def lucid_row() -> Row:
    """Judge the curve of GPU sharing on the half of the pairs it was not fitted on."""
    utilisation, speed = lucid_pairs()
    half = np.random.default_rng(0).permutation(speed.size) < speed.size // 2
    knots, speeds = fit_sharing_curve(utilisation[half], speed[half], EDGES)
    asked: list[float] = utilisation[~half].tolist()
    told: NDArray[np.float64] = np.array([shared_gpu_speed(load, knots, speeds) for load in asked])
    judged: NDArray[np.float64] = speed[~half]
    error = float(np.mean(100.0 * np.abs(told - judged) / judged))
    usual = float(np.mean(speed[half]))
    flat = float(np.mean(100.0 * np.abs(usual - judged) / judged))
    return Row.exact(
        error,
        name="physics/lucid-sharing",
        what="speed of pairs on one GPU not fitted on, mean absolute error",
        unit="%",
        note=f"{judged.size} pairs; the mean speed alone errs {flat:.1f} %",
    )


def lotaru_row() -> Row:
    """Judge per-task machine factors against one factor per machine, on inputs left out in turn."""
    files = data_files(DATA / "lotaru")
    runs = [run for file in files for run in parse_runs(read_text(file), str(file))]
    reference: dict[tuple[str, str, str, int, float], list[float]] = defaultdict(list)
    for run in runs:
        if run.machine == REFERENCE_MACHINE:
            reference[run.matching_key].append(run.runtime_s)
    ratios: dict[str, dict[str, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        base = reference.get(run.matching_key)
        if run.machine != REFERENCE_MACHINE and base and np.median(base) >= 1.0:
            ratio = run.runtime_s / float(np.median(base))
            ratios[run.machine][run.template].append((run.input_bytes, ratio))
    own: list[float] = []
    scalar: list[float] = []
    for tasks in ratios.values():
        everybody = float(np.median([ratio for pairs in tasks.values() for _, ratio in pairs]))
        for pairs in tasks.values():
            for size, ratio in pairs:
                others = [other for other_size, other in pairs if other_size != size]
                if others:
                    own.append(abs(float(np.median(others)) / ratio - 1.0))
                    scalar.append(abs(everybody / ratio - 1.0))
    return Row.exact(
        float(100.0 * np.median(own)),
        name="physics/lotaru-machines",
        what="run time on another machine by the task's own factor, median absolute error",
        unit="%",
        note=f"{len(own)} executions, each input left out in turn; one factor per machine "
        f"{100.0 * np.median(scalar):.1f} %; means "
        f"{100.0 * np.mean(own):.1f} and {100.0 * np.mean(scalar):.1f} %",
    )


def run(*, quick: bool = False) -> list[Row]:
    """Fit and judge; `quick` takes one job."""
    return [*sia_rows(JOBS[:1] if quick else JOBS), lucid_row(), lotaru_row()]


def constants() -> dict[str, object]:
    """Fit everything on all data: what `core.physics.fitted` holds."""
    knots, speeds = fit_sharing_curve(*lucid_pairs(), EDGES)
    drifts: dict[str, tuple[float, ...]] = {}
    for name in DRIFTS:
        law = load_law(DATA / "azure-vm-noise" / f"{name}.csv.gz")
        assert isinstance(law, DriftLaw)  # noqa: S101 (the reader tells laws apart by content)
        drifts[name] = rounded(fit_drift(law.factors))
    return {
        "GPU_SHARING_KNOTS": [round(float(number), 4) for number in knots],
        "GPU_SHARING_SPEEDS": [round(float(number), 4) for number in speeds],
        "STEP_TIMES": {job: rounded(fit_job(list(placement_law(job).times))) for job in JOBS},
        "DRIFTS": drifts,
    }


if __name__ == "__main__":
    for key, value in constants().items():
        print(f"{key} = {value}")
