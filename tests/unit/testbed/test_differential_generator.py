"""The generator: deterministic, valid by our reading, and about every filter."""

import json
from collections import Counter

import numpy as np
import pytest

from stowplan.core.constraints import FILTERS, CompiledFilters
from stowplan.kube.manifest import load_objects
from testbed.differential.generator import EMPHASES, Case, Manifest, generate

ORDER = [
    "Namespace",
    "PriorityClass",
    "Node",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Pod",
]  # an object of a later kind may refer to one of an earlier kind


def of_kind(case: Case, kind: str) -> list[Manifest]:
    return [one for one in case.objects if one["kind"] == kind]


def test_a_seed_gives_the_same_objects_again() -> None:
    assert json.dumps(generate(5).objects) == json.dumps(generate(5).objects)
    assert json.dumps(generate(5).objects) != json.dumps(generate(5 + len(EMPHASES)).objects)


def test_seeds_take_turns_at_the_emphases() -> None:
    assert [generate(seed, nodes=1).emphasis for seed in range(len(EMPHASES))] == list(EMPHASES)
    assert generate(3, nodes=1, emphasis="NodePorts").emphasis == "NodePorts"


def test_an_unknown_emphasis_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"emphasis is 'Ports'; use one of NodeUnschedulable"):
        generate(1, emphasis="Ports")


@pytest.mark.parametrize("emphasis", EMPHASES)
def test_a_case_has_its_nodes_and_pods_and_no_name_twice(emphasis: str) -> None:
    case = generate(11, nodes=50, emphasis=emphasis)
    assert len(of_kind(case, "Node")) == 50
    pending = [one for one in of_kind(case, "Pod") if "nodeName" not in one["spec"]]
    assert 5 <= len(pending) <= 8
    names = Counter(
        (one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]) for one in case.objects
    )
    assert max(names.values()) == 1
    kinds = [one["kind"] for one in case.objects]
    ordered = [kind for kind in kinds if kind in ORDER and kind != "PersistentVolume"]
    assert ordered == sorted(ordered, key=ORDER.index)


def test_a_bound_claim_and_its_volume_name_each_other() -> None:
    ties = 0
    for seed in range(8):
        case = generate(seed, nodes=10, emphasis="volumes")
        volumes = {one["metadata"]["name"]: one for one in of_kind(case, "PersistentVolume")}
        for claim in of_kind(case, "PersistentVolumeClaim"):
            volume = volumes.get(claim["spec"].get("volumeName", ""))
            if volume is not None:
                holder = volume["spec"]["claimRef"]
                assert (holder["namespace"], holder["name"], holder["uid"]) == (
                    claim["metadata"]["namespace"],
                    claim["metadata"]["name"],
                    claim["metadata"]["uid"],
                )
                ties += 1
    assert ties > 20


def test_free_volumes_leave_kube_scheduler_no_choice() -> None:
    """Of equals it takes whichever its hash table yields first."""
    looked_at = 0
    for seed in range(12):
        case = generate(seed, nodes=10, emphasis="VolumeBinding")
        free = [one["spec"] for one in of_kind(case, "PersistentVolume") if "storageClassName" in one["spec"]]
        sizes = [one["capacity"]["storage"] for one in free]
        assert len(set(sizes)) == len(sizes)
        holders = [
            (one["claimRef"]["namespace"], one["claimRef"]["name"]) for one in free if "claimRef" in one
        ]
        assert len(set(holders)) == len(holders)
        looked_at += len(free)
    assert looked_at > 20


def decides(name: str, seed: int) -> bool:
    """Tell whether the filter alone refuses some node in the case of that emphasis."""
    loaded = load_objects(generate(seed, nodes=12, emphasis=name).objects)
    bit = 1 << FILTERS.index(name)
    return any(
        np.any(CompiledFilters(loaded.state, pod.shape).refusing_bits()[loaded.state.is_node] == bit)
        for pod in loaded.pending
    )


@pytest.mark.parametrize("emphasis", [name for name in EMPHASES if name in FILTERS])
def test_the_filter_that_a_case_is_about_decides(emphasis: str) -> None:
    assert any(decides(emphasis, seed) for seed in range(6))
