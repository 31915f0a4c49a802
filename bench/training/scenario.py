"""Training jobs and streaming services on 64 GPUs: what is submitted, and on which cluster.

Jobs are data-parallel and gang scheduled. What a step computes, alone on one GPU, is measured (Sia's table of
Quadro RTX 6000, placement "1", at one batch size each); how far reductions overlap with it is the γ fitted on
Sia's four-node cluster (`core.physics.fitted`). Gradients are the parameters of the models in single
precision: BERT base 110 million (Devlin et al. 2019), ResNet-50 25.6 and ResNet-18 11.2 million (He et al.
2016), YOLOv3 62 million (Redmon and Farhadi 2018). Sia's two other models are left out: NCF hardly reduces
anything, and how many parameters its DeepSpeech2 has is not told with the data.

Ours, without data behind them: how many GPUs a job wants (2, 4, 8 and 16 for 25, 40, 25 and 10 % of them),
how long it trains (20 minutes in the median, log-normal with σ 1, 5 minutes to 3 hours, at the speed of one
root complex), and how it asks for them: half of the jobs one GPU to a pod, as the examples of training
operators do, half as few pods as a root complex allows, of four GPUs. A streaming service serves for an hour
or so on half a GPU, with input of 150 MB/s; two of three submissions are training jobs. They come in a
Poisson stream so dense that the GPUs asked for are 1.45 times those there, even if every gang were in one
root complex, so that a queue builds up and what is idle is the scheduler's doing.
"""

import os
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np

from stowplan.core.domain import (
    HOSTNAME_LABEL,
    RACK_LABEL,
    ZONE_LABEL,
    Gang,
    GpuRequest,
    LabelSelector,
    Operator,
    Phase,
    PodAffinityTerm,
    PodShape,
    Requirement,
    Resources,
    Task,
    Training,
    WeightedPodAffinityTerm,
    Workflow,
    WorkProfile,
)
from stowplan.core.physics.fitted import STEP_TIMES
from stowplan.core.physics.network import overlapped_time_s, ring_time_s
from stowplan.errors import InvalidFile
from stowplan.simulate.clusters import Cluster, load_cluster
from stowplan.simulate.laws import PlacementLaw, load_law
from stowplan.simulate.workloads import Poisson, Submission, Workload

DATA: Final = Path(os.environ.get("STOWPLAN_DATA", Path(__file__).parents[3] / "shared" / "data"))
FOLDER: Final = Path(__file__).parent
JOBS: Final = 120
SERVICES: Final = 60
MEAN_GAP_S: Final = 80.0
"""Mean seconds between two submissions; 180 of them take four hours."""
MODELS: Final = {
    "bert": (11, 440e6),
    "imagenet": (81, 102.4e6),
    "yolov3": (8, 248e6),
    "cifar10": (257, 44.8e6),
}
"""By Sia's name: samples per GPU and step, and bytes of gradients."""
SIZES: Final = ((2, 0.25), (4, 0.40), (8, 0.25), (16, 0.10))
POD_GPUS: Final = 4
ROOT_BYTES_PER_S: Final = 2.64e9
STEP_LATENCY_S: Final = 5.7e-6
CORES_PER_GPU: Final = 3
GIB: Final = 1 << 30


def cluster() -> Cluster:
    """The cluster of the file beside this module."""
    return load_cluster(FOLDER / "cluster.yaml")


def compute_s(model: str) -> float:
    """Seconds of one step of `model` alone on one GPU, as Sia measured it.

    Raises:
        InvalidFile: The public data are not there, or do not hold that step.
    """
    path = DATA / "sia" / f"{model}-placements-quad.csv.gz"
    law, batch = load_law(path), MODELS[model][0]
    if isinstance(law, PlacementLaw):
        for time in law.times:
            if time.gpus_on == (1,) and time.local_batch == batch:
                return time.step_s
    raise InvalidFile(f"{path} does not tell a step of {batch} samples on one GPU")


@cache
def workload() -> Workload:
    """Jobs and services, the same ones for every seed, with the arrivals to be drawn by seed.

    Raises:
        InvalidFile: The public data are not there.
    """
    rng = np.random.default_rng(30)
    submissions: list[Workflow] = []
    sizes, chances = [size for size, _ in SIZES], [chance for _, chance in SIZES]
    for number in range(JOBS + SERVICES):
        if number % 3 == 2:
            submissions.append(_service(f"stream-{number}", _log_normal(rng, 3600.0, 0.4)))
            continue
        model = list(MODELS)[int(rng.integers(len(MODELS)))]
        gpus = int(rng.choice(sizes, p=chances))
        per_pod = min(gpus, POD_GPUS) if rng.random() < 0.5 else 1
        seconds = min(max(_log_normal(rng, 1200.0, 1.0), 300.0), 10_800.0)
        submissions.append(_job(f"{model}-{number}", model, gpus, per_pod, seconds))
    return Workload(
        "training",
        tuple(Submission(0.0, workflow) for workflow in submissions),
        source="Sia",
        arrivals=Poisson(MEAN_GAP_S),
    )


def with_affinity(load: Workload) -> Workload:
    """The load as users submit it who know pod affinity: workers prefer the node, rack and zone of others.

    The weights fall with every level, so that the nearest counts most.
    """
    return replace(load, submissions=tuple(map(_with_affinity, load.submissions)))


def _with_affinity(submission: Submission) -> Submission:
    workflow = submission.workflow
    selector = LabelSelector((Requirement("job", Operator.IN, (workflow.name,)),))
    preferred = tuple(
        WeightedPodAffinityTerm(weight, PodAffinityTerm(key, selector))
        for key, weight in ((HOSTNAME_LABEL, 100), (RACK_LABEL, 50), (ZONE_LABEL, 25))
    )
    tasks = tuple(
        task
        if task.gang is None
        else replace(
            task, shape=replace(task.shape, labels=(("job", workflow.name),), preferred_affinity=preferred)
        )
        for task in workflow.tasks
    )
    return replace(submission, workflow=replace(workflow, tasks=tasks))


def training(model: str, gpus: int, seconds: float) -> tuple[Training, float]:
    """A job of `model` that trains for `seconds` inside one root complex, and seconds of its steps there."""
    step = Training(
        steps=1.0,
        compute_s=compute_s(model),
        gradient_bytes=MODELS[model][1],
        overlap=STEP_TIMES[model].gamma,
    )
    reduce_s = ring_time_s(step.gradient_bytes, gpus, ROOT_BYTES_PER_S, STEP_LATENCY_S)
    ideal_s = overlapped_time_s(step.compute_s, reduce_s, step.overlap)
    steps = max(1.0, round(seconds / ideal_s))
    whole = Training(
        steps=steps,
        compute_s=step.compute_s,
        gradient_bytes=step.gradient_bytes,
        overlap=step.overlap,
    )
    return whole, ideal_s


def _job(name: str, model: str, gpus: int, per_pod: int, seconds: float) -> Workflow:
    job, ideal_s = training(model, gpus, seconds)
    alone_s = job.steps * ideal_s
    cores = CORES_PER_GPU * per_pod
    shape = PodShape(
        requests=Resources({"cpu": 1000 * cores, "memory": 16 * GIB * per_pod}),
        score_cpu_milli=1000 * cores,
        score_memory_bytes=16 * GIB * per_pod,
        gpu=GpuRequest(per_pod),
        template=model,
    )
    work = WorkProfile(
        (Phase(alone_s, cpu_cores=2.0 * per_pod),), anon_bytes=12.0 * GIB * per_pod, training=job
    )
    gang = Gang("workers", gpus // per_pod)
    tasks = tuple(
        Task(f"worker-{index}", shape, work, alone_s, template=model, gang=gang) for index in range(gang.size)
    )
    return Workflow(name, tasks, family="training")


def _log_normal(rng: np.random.Generator, median: float, sigma: float) -> float:
    return rng.lognormal(float(np.log(median)), sigma)


def _service(name: str, seconds: float) -> Workflow:
    shape = PodShape(
        requests=Resources({"cpu": 2000, "memory": 8 * GIB}),
        score_cpu_milli=2000,
        score_memory_bytes=8 * GIB,
        gpu=GpuRequest(1, 500),
        template="stream",
    )
    phase = Phase(
        seconds, cpu_cores=1.5, nic_down_bytes_per_s=150e6, nic_up_bytes_per_s=30e6, pcie_bytes_per_s=300e6
    )
    task = Task("serve", shape, WorkProfile((phase,), anon_bytes=6.0 * GIB), seconds, template="stream")
    return Workflow(name, (task,), family="streaming")
