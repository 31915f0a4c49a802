"""NodeResourcesFit counts a pending pod otherwise than a bound one, where it has pod-level resources."""

import numpy as np

from stowplan.core.constraints import CompiledFilters
from stowplan.core.policy import CycleView
from stowplan.core.policy.kube import KubeScoring
from stowplan.kube.manifest import load_objects

MIB = 1024 * 1024


def pod(name: str, node: str = "", **spec: object) -> dict[str, object]:
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "500m"}}}]
    more = {"nodeName": node} if node else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": containers, **more, **spec},
    }


NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n"},
    "status": {"allocatable": {"cpu": "4", "memory": "2000Mi", "pods": "110"}},
}
POD_LEVEL = {"requests": {"cpu": "2", "memory": "400Mi"}, "limits": {"cpu": "2", "memory": "400Mi"}}


def test_pod_level_resources_count_once_the_pod_is_bound_and_not_before() -> None:
    loaded = load_objects([NODE, pod("bound", "n", resources=POD_LEVEL), pod("new", resources=POD_LEVEL)])
    (new,) = loaded.pending
    assert new.shape.pending_score == (500, 200 * MIB)
    assert (new.shape.score_cpu_milli, new.shape.score_memory_bytes) == (2000, 400 * MIB)
    view = CycleView(loaded.state, 0.0, [], np.random.default_rng(0))
    scoring = KubeScoring()
    scoring.begin(view)
    shape_score = scoring._of(new.shape)
    shape_score.total(CompiledFilters(loaded.state, new.shape).feasible)
    # 4 − 2 − 0.5 of 4 cores: 37; 2000 − 400 − 200 of 2000 MiB: 70.
    assert shape_score.parts(loaded.state.row("n"))["NodeResourcesFit"] == (37 + 70) // 2


def test_pods_without_pod_level_resources_count_the_same_throughout() -> None:
    loaded = load_objects([NODE, pod("new")])
    assert loaded.pending[0].shape.pending_score is None
