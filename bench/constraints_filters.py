"""How long the constraints take: compiling a shape, and catching up after placements.

5,000 nodes in 3 zones and 100 racks, 30,000 bound pods of 260 kinds: plain ones, with node selectors and
affinity, tolerations, host ports, extended resources, topology spread by zone and by node, pod affinity and
anti-affinity, every filter on. "Alone" is one shape placed again and again, "mixed" a batch of 256 pods of
32 shapes in turns, "distinct" the same with 256 shapes; each placement is applied to the state, and its
cost is in the figure.
"""

import random
from collections.abc import Callable, Sequence
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from bench.harness import Row, median_ci95
from stowplan.core.constraints import CompiledFilters
from stowplan.core.domain import BoundPod, ClusterState, PodBound, PodShape
from stowplan.kube.manifest import load_objects

NODES = 5000
BOUND = 30_000
BATCH = 256
ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"

Spec = dict[str, Any]


def _required(*terms: Spec) -> Spec:
    return {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}


def _spread(app: str, key: str) -> Spec:
    selector = {"matchLabels": {"app": app}}
    rule = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    return {"topologySpreadConstraints": [rule]}


def _near(app: str, key: str) -> Spec:
    return _required({"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}})


KINDS: dict[str, Callable[[str], Spec]] = {
    "plain": lambda _: {},
    "selector": lambda _: {"nodeSelector": {"disk": "ssd"}},
    "node-affinity": lambda _: {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["z1", "z2"]}]}
                    ]
                }
            }
        }
    },
    "toleration": lambda _: {"tolerations": [{"key": "gpu", "operator": "Exists"}]},
    "spread-zone": lambda app: _spread(app, ZONE),
    "spread-node": lambda app: _spread(app, HOST),
    "anti-affinity": lambda app: {"affinity": {"podAntiAffinity": _near(app, HOST)}},
    "affinity": lambda app: {"affinity": {"podAffinity": _near(app, ZONE)}},
    "port": lambda _: {"ports": [{"containerPort": 80, "hostPort": 8080}]},
    "extended": lambda _: {"extended": {"example.com/gpu": "1"}},
}


def _node(number: int, rng: random.Random) -> Spec:
    labels = {HOST: f"n{number}", ZONE: f"z{number % 3}", "rack": f"r{number % 100}"}
    taints = [{"key": "gpu", "value": "a", "effect": "NoSchedule"}] if number % 10 == 0 else []
    return {
        "kind": "Node",
        "metadata": {"name": f"n{number}", "labels": {**labels, "disk": rng.choice(["ssd", "hdd"])}},
        "spec": {"taints": taints},
        "status": {"allocatable": {"cpu": "64", "memory": "256Gi", "pods": "110", "example.com/gpu": "8"}},
    }


def _pod(number: int, app: str, spec: Spec) -> Spec:
    given = dict(spec)
    requests = {"cpu": ("500m", "1", "2")[number % 3], "memory": "1Gi", **given.pop("extended", {})}
    limits = {name: amount for name, amount in requests.items() if "/" in name}
    container = {
        "name": "c",
        "ports": given.pop("ports", []),
        "resources": {"requests": requests, "limits": limits},
    }
    metadata = {"name": f"p{number}", "labels": {"app": app}}
    return {"kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **given}}


def make_cluster(nodes: int, bound: int, seed: int = 1) -> tuple[ClusterState, list[tuple[str, PodShape]]]:
    """Return a cluster with bound pods, and the (kind, shape) pairs they have."""
    rng = random.Random(seed)  # noqa: S311  (a seeded workload)
    state = load_objects([_node(number, rng) for number in range(nodes)]).state
    kinds = [(kind, f"a{app}") for app in range(26) for kind in KINDS]
    pods = load_objects(
        [_pod(number, app, KINDS[kind](app)) for number, (kind, app) in enumerate(kinds)]
    ).pending
    shapes = [(kind, pod.shape) for (kind, _), pod in zip(kinds, pods, strict=True)]
    for number in range(bound):
        _, shape = rng.choice(shapes)
        state.apply(PodBound(BoundPod(f"b{number}", shape), f"n{rng.randrange(nodes)}"))
    return state, shapes


class _Placer:
    """Places pods at random feasible nodes and measures."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._rng = random.Random(2)  # noqa: S311  (a seeded workload)
        self._count = 0

    def place(self, compiled: CompiledFilters) -> float:
        """Catch up and place one pod; return the seconds that catching up took."""
        start = perf_counter()
        compiled.refresh()
        elapsed_s = perf_counter() - start
        rows = np.flatnonzero(compiled.feasible)
        if len(rows):
            row = int(rows[self._rng.randrange(len(rows))])
            self._count += 1
            self._state.apply(
                PodBound(BoundPod(f"q{self._count}", compiled.shape), self._state.node(row).name)
            )
        return elapsed_s


def _in_turns(
    placer: _Placer, compiled: Sequence[CompiledFilters], batches: int
) -> tuple[list[float], list[float]]:
    """Return microseconds per refresh (median) and per placement (mean) for each batch of 256."""
    refreshes_us: list[float] = []
    placements_us: list[float] = []
    for _ in range(batches):
        start = perf_counter()
        refreshes_us.append(
            median(placer.place(compiled[number % len(compiled)]) * 1e6 for number in range(BATCH))
        )
        placements_us.append((perf_counter() - start) / BATCH * 1e6)
    return refreshes_us, placements_us


def run(*, quick: bool) -> list[Row]:
    """Measure on one cluster."""
    nodes, bound, batches = (200, 500, 6) if quick else (NODES, BOUND, 20)
    state, shapes = make_cluster(nodes, bound)
    rows: list[Row] = []
    compiled: list[CompiledFilters] = []
    compile_us: list[float] = []
    for _, shape in shapes:
        start = perf_counter()
        compiled.append(CompiledFilters(state, shape))
        compile_us.append((perf_counter() - start) * 1e6)
    rows.append(
        Row.of(median_ci95(compile_us), name="constraints/compile", what="compiling one pod shape", unit="us")
    )
    worst = float(np.quantile(compile_us, 0.99))
    rows.append(Row.exact(worst, name="constraints/compile-p99", what="the same, 99th percentile", unit="us"))
    placer = _Placer(state)
    alone: list[float] = []
    for one in compiled[: len(KINDS)]:
        alone += [median(placer.place(one) * 1e6 for _ in range(10)) for _ in range(batches)]
    rows.append(
        Row.of(
            median_ci95(alone),
            name="constraints/refresh-alone",
            what="catching up after one's own placement",
            unit="us",
        )
    )
    for name, chosen in (("mixed", compiled[: 3 * len(KINDS) + 2]), ("distinct", compiled[:BATCH])):
        refreshes_us, placements_us = _in_turns(placer, chosen, batches)
        what = f"batch of {BATCH} pods of {len(chosen)} shapes"
        rows.append(
            Row.of(
                median_ci95(refreshes_us),
                name=f"constraints/refresh-{name}",
                what=f"{what}: catching up before a placement",
                unit="us",
            )
        )
        rows.append(
            Row.of(
                median_ci95([1e6 / each for each in placements_us]),
                name=f"constraints/placements-{name}",
                what=f"{what}: placements at random feasible nodes, with the update of the state",
                unit="1/s",
            )
        )
    return rows
