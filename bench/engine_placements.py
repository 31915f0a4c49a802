"""Placements per second of the whole cycle at 5,000 nodes, with every filter and kube-scheduler's scoring.

A batch of 256 pods of 26 kinds: plain ones, node selectors and affinity, taints, pod affinity and
anti-affinity, topology spread (hard and soft), host ports, whole and shared GPUs, bound volumes, images. The
cluster runs 25,000 pods before. A cycle filters, scores, chooses and holds resources for each pod in turn, as
the live scheduler does; the pods are then removed, untimed.
"""

import gc
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from time import perf_counter

import numpy as np

from bench.harness import Row, median_ci95
from stowplan.core.domain import (
    HOSTNAME_LABEL,
    ZONE_LABEL,
    AccessMode,
    BoundPod,
    ClusterState,
    CsiNode,
    Gpu,
    GpuRequest,
    Hardware,
    HostPort,
    LabelSelector,
    Node,
    NodeAffinity,
    NodeSelectorTerm,
    NodeSet,
    Operator,
    PendingTask,
    PersistentVolume,
    PersistentVolumeClaim,
    Phase,
    PodAffinityTerm,
    PodBound,
    PodRemoved,
    PodShape,
    PodVolume,
    PreferredNodeTerm,
    Requirement,
    Resources,
    SnapshotPool,
    SpreadConstraint,
    StorageSet,
    Taint,
    TaintEffect,
    Task,
    Toleration,
    TolerationOperator,
    WeightedPodAffinityTerm,
    WhenUnsatisfiable,
    Workflow,
    WorkflowProgress,
    WorkProfile,
    freeze_labels,
)
from stowplan.core.engine import Engine
from stowplan.core.policy import make_policy

NODES = 5000
BOUND = 25_000
BATCH = 256
GIB = 1 << 30
ZONES = ("zone-a", "zone-b", "zone-c")


def cluster_node(number: int) -> Node:
    """Return node `number`: three zones, every fifth with GPUs, every tenth tainted, two kinds of disk."""
    name = f"node-{number:05d}"
    has_gpus = number % 5 == 0
    gpus = tuple(Gpu("A100", f"pci{gpu // 4}") for gpu in range(8)) if has_gpus else ()
    taints: tuple[Taint, ...] = ()
    if number % 10 == 3:
        taints = (Taint("dedicated", "batch", TaintEffect.NO_SCHEDULE),)
    elif number % 10 == 7:
        taints = (Taint("spot", "true", TaintEffect.PREFER_NO_SCHEDULE),)
    return Node(
        name,
        Resources({"cpu": 64_000, "memory": 256 * GIB, "pods": 110, "ephemeral-storage": 500 * GIB}),
        labels=freeze_labels(
            {
                HOSTNAME_LABEL: name,
                ZONE_LABEL: ZONES[number % 3],
                "disk": "ssd" if number % 2 else "hdd",
                "rack": f"rack-{number // 40}",
            }
        ),
        taints=taints,
        images=(("registry/base:1", 300 << 20),) if number % 4 == 0 else (),
        hardware=Hardware(cores=64.0, gpus=gpus),
    )


@cache
def kinds() -> tuple[PodShape, ...]:
    """Return the 26 kinds of pod; pods of one kind share their shape, as those of one template do."""
    web = freeze_labels({"app": "web"})
    of_web = LabelSelector.from_labels({"app": "web"})
    ssd = Requirement("disk", Operator.IN, ("ssd",))
    prefers_ssd = NodeAffinity(preferred=(PreferredNodeTerm(10, NodeSelectorTerm((ssd,))),))
    tolerates = (Toleration("dedicated", TolerationOperator.EQUAL, "batch", TaintEffect.NO_SCHEDULE),)
    by_zone = PodAffinityTerm(ZONE_LABEL, of_web)
    by_host = PodAffinityTerm(HOSTNAME_LABEL, LabelSelector.from_labels({"app": "db"}))
    soft, hard = WhenUnsatisfiable.SCHEDULE_ANYWAY, WhenUnsatisfiable.DO_NOT_SCHEDULE

    def plain(cpu_milli: int, gib: int) -> PodShape:
        return PodShape(
            requests=Resources({"cpu": cpu_milli, "memory": gib * GIB}),
            score_cpu_milli=cpu_milli,
            score_memory_bytes=gib * GIB,
        )

    small, medium = plain(500, 1), plain(2000, 8)
    return (
        small,
        medium,
        plain(250, 2),
        plain(1000, 4),
        plain(4000, 8),
        plain(8000, 16),
        plain(100, 1),
        replace(medium, images=("registry/base:1",)),
        replace(small, node_selector=(ssd,)),
        replace(medium, node_selector=(ssd,)),
        replace(small, node_affinity=prefers_ssd),
        replace(medium, node_affinity=prefers_ssd),
        replace(small, tolerations=tolerates),
        replace(medium, tolerations=tolerates),
        replace(small, labels=web, affinity=(by_zone,)),
        replace(small, labels=freeze_labels({"app": "db"}), anti_affinity=(by_host,)),
        replace(small, labels=web, preferred_anti_affinity=(WeightedPodAffinityTerm(50, replace(by_zone)),)),
        replace(small, labels=web, spread=(SpreadConstraint(1, ZONE_LABEL, hard, of_web),)),
        replace(small, labels=web, spread=(SpreadConstraint(1, HOSTNAME_LABEL, soft, of_web),)),
        replace(small, labels=web, default_spread_selector=of_web),
        replace(small, host_ports=(HostPort("TCP", "0.0.0.0", 8080),)),  # noqa: S104 - a pod's wish, not ours
        replace(small, host_ports=(HostPort("UDP", "10.0.0.1", 53),)),
        replace(medium, gpu=GpuRequest(1, 300)),
        replace(medium, gpu=GpuRequest(1)),
        replace(medium, gpu=GpuRequest(4)),
        replace(small, volumes=(PodVolume("data", claim="data-a"),)),
    )


def busy_state(rng: np.random.Generator) -> ClusterState:
    """Return the cluster with its pods."""
    state = ClusterState()
    for number in range(NODES):
        state.apply(NodeSet(cluster_node(number)))
        state.apply(StorageSet(CsiNode(f"node-{number:05d}", (("csi.example", 16),))))
    in_zone = NodeSelectorTerm((Requirement(ZONE_LABEL, Operator.IN, ("zone-a",)),))
    once = (AccessMode.READ_WRITE_MANY,)
    claim = PersistentVolumeClaim("default", "data-a", once, GIB, volume="pv-a", is_fully_bound=True)
    state.apply(StorageSet(claim))
    volume = PersistentVolume(
        "pv-a", GIB, once, node_affinity=(in_zone,), claim=("default", "data-a"), csi_driver="csi.example"
    )
    state.apply(StorageSet(volume))
    bound = [
        shape for shape in kinds() if shape.gpu is None and not shape.host_ports and not shape.anti_affinity
    ]
    for number in range(BOUND):
        shape = bound[int(rng.integers(len(bound)))]
        state.apply(PodBound(BoundPod(f"old-{number}", shape), f"node-{int(rng.integers(NODES)):05d}"))
    return state


def waiting(shapes: Sequence[PodShape], prefix: str) -> list[PendingTask]:
    """Return a pending task per shape."""
    work = WorkProfile((Phase(1.0),))
    tasks = tuple(Task(f"{number:04d}", shape, work, 1.0) for number, shape in enumerate(shapes))
    progress = WorkflowProgress(prefix, Workflow(prefix, tasks), 0.0)
    return [PendingTask(f"{prefix}-{number:04d}", progress, number, 0.0) for number in range(len(shapes))]


def place_and_remove(engine: Engine, pending: Sequence[PendingTask]) -> tuple[float, int]:
    """Run one cycle; return its seconds and how many pods it placed. The pods are gone afterwards."""
    start_s = perf_counter()
    report = engine.cycle(0.0, pending)
    taken_s = perf_counter() - start_s
    for task, _ in report.placed:
        engine.state.apply(PodRemoved(task.key))
    return taken_s, len(report.placed)


def batches(engine: Engine, rng: np.random.Generator, repeats: int) -> list[float]:
    """Return placements per second of each batch, after three warm-up batches."""
    shapes = kinds()
    rates: list[float] = []
    for number in range(repeats + 3):
        numbers: list[int] = rng.integers(len(shapes), size=BATCH).tolist()
        chosen = [shapes[kind] for kind in numbers]
        taken_s, placed = place_and_remove(engine, waiting(chosen, f"batch-{number}"))
        if placed < BATCH:
            raise RuntimeError(f"only {placed} of {BATCH} pods were placed; the scenario must fit")
        rates.append(placed / taken_s)
    return rates[3:]


def alone_s(engine: Engine, rng: np.random.Generator, pods: int) -> list[float]:
    """Return the seconds of cycles with one pod each; every twentieth is of a kind not seen before."""
    shapes = kinds()
    durations_s: list[float] = []
    for number in range(pods):
        shape = shapes[int(rng.integers(len(shapes)))]
        if number % 20 == 0:
            cpu_milli = 501 + number
            shape = replace(
                shape, requests=shape.requests.replaced({"cpu": cpu_milli}), score_cpu_milli=cpu_milli
            )
        durations_s.append(place_and_remove(engine, waiting([shape], f"alone-{number}"))[0])
    return durations_s


def snapshot_s(state: ClusterState, repeats: int) -> list[float]:
    """Return the seconds to take in one changed node and to hand out the snapshot that shows it."""
    pool = SnapshotPool(state)
    pool.snapshot().release()
    durations_s: list[float] = []
    for number in range(repeats):
        node = cluster_node(number % NODES)
        changed = replace(node, labels=freeze_labels({**dict(node.labels), "beat": str(number)}))
        start_s = perf_counter()
        pool.apply(NodeSet(changed))
        snapshot = pool.snapshot()
        durations_s.append(perf_counter() - start_s)
        snapshot.release()
    return durations_s


def run(*, quick: bool) -> list[Row]:
    """Measure batches, single pods and snapshots; `quick` measures few of each."""
    rng = np.random.default_rng(7)
    state = busy_state(rng)
    engine = Engine(state, make_policy("kube-scheduler"), rng=rng)
    gc.freeze()  # as a driver does once its cluster is loaded: the collector need not walk it again and again
    rates = batches(engine, rng, 3 if quick else 40)
    single_ms = np.array(alone_s(engine, rng, 40 if quick else 1000)) * 1000
    snapshots_ms = [seconds * 1000 for seconds in snapshot_s(state, 20 if quick else 400)]
    where = f"{NODES} nodes, {BOUND} pods bound, all filters, kube-scheduler's scores"
    return [
        Row.of(
            median_ci95(rates),
            name="engine/placements",
            what=f"placements per second, batch of {BATCH} mixed pods; {where}",
            unit="pods/s",
            note="the loaded cluster is exempt from garbage collection (gc.freeze), as in a driver",
        ),
        Row.exact(
            float(np.percentile(single_ms, 99)),
            name="engine/alone-p99",
            what=f"one pod alone, 99th percentile of {single_ms.size}, one in twenty of a new kind; {where}",
            unit="ms",
            note=f"median {np.median(single_ms):.3f} ms",
        ),
        Row.of(
            median_ci95(snapshots_ms),
            name="engine/snapshot",
            what=f"one changed node taken in and a snapshot handed out, {NODES} nodes",
            unit="ms",
        ),
    ]
