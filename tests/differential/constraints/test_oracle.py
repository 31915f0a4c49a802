"""The oracle: kube-scheduler 1.37.2's own plugins, asked as a library, and what its answers mean."""

import copy
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
import yaml

from stowplan.core.constraints import FILTERS
from testbed.differential.oracle import Invalid, Oracle, Panicked, PodVerdict, Verdicts
from testbed.differential.real_scheduler import Outcome, RealAnswer, RealScheduler
from testbed.errors import ComponentFailed, MissingPrerequisite

pytestmark = pytest.mark.cluster  # it needs a program of the test cluster, though no root

GOLDEN = sorted((Path(__file__).parents[2] / "golden" / "constraints" / "cases").glob("*.yaml"))
Object = dict[str, Any]
Running = TypeVar("Running")


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    """As a test of filters wants it: everything checked, everything told."""
    yield from started(Oracle)


@pytest.fixture(scope="module")
def lenient() -> Iterator[Oracle]:
    """Objects are taken as they are."""
    yield from started(lambda: Oracle(is_validated=False))


def started(make: Callable[[], AbstractContextManager[Running]]) -> Iterator[Running]:
    try:
        with make() as running:
            yield running
    except MissingPrerequisite as missing:
        pytest.skip(str(missing))


def node(name: str, *, cpu: str = "4", labels: Mapping[str, str] = {}, **spec: object) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
        "spec": spec,
        "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "110"}},
    }


def pod(name: str, *, cpu: str = "1", metadata: Object | None = None, **spec: object) -> Object:
    container = {"name": "c", "image": "img", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **(metadata or {})},
        "spec": {"containers": [container], **spec},
    }


def storage(kind: str, name: str, **fields: object) -> Object:
    return {"apiVersion": "storage.k8s.io/v1", "kind": kind, "metadata": {"name": name}, **fields}


def claim(name: str, **spec: object) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec},
    }


def using(name: str) -> Object:
    return {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]}


def verdicts(oracle: Oracle, *objects: Object) -> Verdicts:
    answer = oracle.judge(objects)
    assert isinstance(answer, Verdicts), answer
    return answer


def refused(oracle: Oracle, *objects: Object) -> dict[str, dict[str, list[str]]]:
    answer = verdicts(oracle, *objects)
    return {
        key: {plugin: sorted(nodes) for plugin, nodes in sorted(answer.refused_by(key).items())}
        for key in answer.pods
    }


# ---- the same as the oracle before it ----


@pytest.mark.parametrize("path", GOLDEN, ids=[path.stem for path in GOLDEN])
def test_it_agrees_with_every_golden_case(path: Path, lenient: Oracle) -> None:
    case: dict[str, Any] = yaml.safe_load(path.read_text())
    assert refused(lenient, *case["objects"]) == case["refused"]


@pytest.mark.parametrize("path", GOLDEN, ids=[path.stem for path in GOLDEN])
def test_what_is_feasible_first_and_refused_hangs_together(path: Path, lenient: Oracle) -> None:
    answer = verdicts(lenient, *yaml.safe_load(path.read_text())["objects"])
    for key, verdict in answer.pods.items():
        masks = {plugin: answer.mask(bitmap) for plugin, bitmap in verdict.refused.items()}
        somewhere = np.any([np.zeros(len(answer.nodes), dtype=np.bool_), *masks.values()], axis=0)
        assert answer.mask(verdict.feasible).tolist() == (~somewhere).tolist()
        for row, first in enumerate(answer.first_of(key).values()):
            assert masks[first][row] if first else not somewhere[row]


def test_our_filters_carry_the_names_of_its_plugins(oracle: Oracle) -> None:
    plugins = verdicts(oracle).plugins
    ours_alone = {"SharedGpu", "RuleTable"}
    assert set(FILTERS) - ours_alone <= set(plugins)
    assert set(plugins) - set(FILTERS) == {"DefaultPreemption"}  # gates a pod while its victims end
    assert [name for name in plugins if name in FILTERS] == [
        name for name in FILTERS if name not in ours_alone
    ]


# ---- what a verdict tells ----


def test_each_plugin_is_asked_alone_and_the_first_is_the_scheduler_s(oracle: Oracle) -> None:
    taint = {"key": "k", "value": "v", "effect": "NoSchedule"}
    objects = [
        node("a", cpu="500m", taints=[taint]),
        node("b", cpu="500m"),
        node("c"),
        pod("p"),
    ]
    answer = verdicts(oracle, *objects)
    assert answer.nodes == ("a", "b", "c")
    assert answer.refused_by("default/p") == {
        "TaintToleration": frozenset({"a"}),
        "NodeResourcesFit": frozenset({"a", "b"}),
    }
    assert answer.first_of("default/p") == {"a": "TaintToleration", "b": "NodeResourcesFit", "c": None}
    assert answer.decisive("default/p") == {"NodeResourcesFit": 1}
    reasons = {
        (r.plugin, r.step, r.code, r.reason): answer.names(r.nodes) for r in answer.pods["default/p"].reasons
    }
    assert reasons == {
        ("TaintToleration", "Filter", "UnschedulableAndUnresolvable", "node(s) had untolerated taint(s)"): {
            "a"
        },
        ("NodeResourcesFit", "Filter", "UnschedulableAndUnresolvable", "Insufficient cpu"): {"a", "b"},
    }


def test_a_gated_pod_is_refused_everywhere_before_all_else(oracle: Oracle) -> None:
    answer = verdicts(
        oracle, node("a", unschedulable=True), node("b"), pod("p", schedulingGates=[{"name": "x/y"}])
    )
    assert answer.first_of("default/p") == {"a": "SchedulingGates", "b": "SchedulingGates"}
    assert answer.pods["default/p"].rejected == ("SchedulingGates",)
    assert answer.refused_by("default/p")["NodeUnschedulable"] == {"a"}


def test_a_pod_that_prefilter_rejects_is_refused_everywhere_by_that_plugin(oracle: Oracle) -> None:
    answer = verdicts(oracle, node("a", unschedulable=True), node("b"), pod("p", **using("missing")))
    verdict = answer.pods["default/p"]
    assert "VolumeBinding" in verdict.rejected
    assert set(answer.first_of("default/p").values()) == {
        "VolumeRestrictions"
    }  # it looks for the claim first
    assert answer.refused_by("default/p")["VolumeBinding"] == {"a", "b"}


def test_nodes_that_a_prefilter_result_leaves_out_are_told_apart(oracle: Oracle) -> None:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}
    affinity = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    }
    answer = verdicts(oracle, node("a"), node("b"), node("c"), pod("p", affinity=affinity))
    verdict = answer.pods["default/p"]
    assert {plugin: answer.names(nodes) for plugin, nodes in verdict.ruled_out.items()} == {
        "NodeAffinity": {"a", "c"}
    }
    assert answer.first_of("default/p") == {"a": "NodeAffinity", "b": None, "c": "NodeAffinity"}


def test_bitmaps_are_those_of_numpy(oracle: Oracle) -> None:
    nodes = [node(f"n{number}", cpu="4" if number % 3 else "500m") for number in range(50)]
    answer = verdicts(oracle, *nodes, pod("p"))
    is_small = np.array([number % 3 == 0 for number in range(50)])
    assert answer.pods["default/p"].refused == {
        "NodeResourcesFit": np.packbits(is_small, bitorder="little").tobytes()
    }
    assert (
        np.frombuffer(answer.pods["default/p"].first, dtype=np.uint8).astype(bool).tolist()
        == is_small.tolist()
    )


def test_a_nominated_pod_takes_its_room_from_pods_of_no_higher_priority(oracle: Oracle) -> None:
    def high(name: str, value: int) -> Object:
        return {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
        }

    waiting = pod("waits", cpu="3", priorityClassName="mid") | {"status": {"nominatedNodeName": "a"}}
    classes = [high("low", 1), high("mid", 2), high("high", 3)]
    pods = [pod(name, cpu="2", priorityClassName=name) for name in ("low", "mid", "high")]
    assert refused(oracle, node("a"), node("b"), *classes, waiting, *pods) == {
        "default/waits": {},
        "default/low": {"NodeResourcesFit": ["a"]},
        "default/mid": {"NodeResourcesFit": ["a"]},
        "default/high": {},
    }


def test_pods_that_ended_and_pods_that_never_ran_and_are_deleted_are_not_there(oracle: Oracle) -> None:
    ended = pod("ended", cpu="4", nodeName="a") | {"status": {"phase": "Succeeded"}}
    deleted = pod("deleted", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    elsewhere = pod("elsewhere", nodeName="gone")
    assert refused(oracle, node("a"), ended, deleted, elsewhere, pod("p", cpu="4")) == {"default/p": {}}


def test_a_filter_that_fails_is_told_since_it_ends_the_attempt(lenient: Oracle) -> None:
    selector = {"matchExpressions": [{"key": "a", "operator": "Like", "values": ["b"]}]}
    constraint = {"topologyKey": "z", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    broken = pod("p", topologySpreadConstraints=[constraint | {"labelSelector": selector}])
    answer = verdicts(lenient, node("a"), broken)
    assert '"Like" is not a valid label selector operator' in answer.pods["default/p"].failed
    assert answer.first_of("default/p") == {"a": "PodTopologySpread"}
    assert [reason.code for reason in answer.pods["default/p"].reasons] == ["Error"]


# ---- what is set of objects first ----


def test_defaults_are_those_of_the_api(oracle: Oracle) -> None:
    limited = pod("p")
    limited["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "5"}}  # a request where there is none
    assert refused(oracle, node("a"), limited) == {"default/p": {"NodeResourcesFit": ["a"]}}


def test_a_claim_gets_the_default_class_while_it_has_no_volume(oracle: Oracle) -> None:
    default = storage("StorageClass", "d", provisioner="x", volumeBindingMode="WaitForFirstConsumer")
    default["metadata"]["annotations"] = {"storageclass.kubernetes.io/is-default-class": "true"}
    objects = [node("a"), claim("new"), claim("old", volumeName="gone"), claim("none", storageClassName="")]
    pods = [pod(name, **using(name)) for name in ("new", "old", "none")]
    without = refused(oracle, *objects, *pods)
    everywhere = {"VolumeBinding": ["a"], "VolumeZone": ["a"]}
    assert without == {f"default/{name}": everywhere for name in ("new", "old", "none")}
    assert refused(oracle, *objects, default, *pods) == without | {"default/new": {}}


@pytest.mark.parametrize(
    ("broken", "kind", "name", "message"),
    [
        (pod("p", nodeSelectr={"a": "b"}), "Pod", "default/p", 'unknown field "spec.nodeSelectr"'),
        (pod("p", hostNetwork=True, hostUsers=False), "Pod", "default/p", "spec.hostNetwork: Forbidden"),
        (pod("p", priorityClassName="none"), "Pod", "default/p", "no PriorityClass with name none was found"),
        (pod("p", priority="high"), "Pod", "default/p", "cannot unmarshal string"),
        (node("a"), "Node", "a", "occurs twice"),
        (node("b") | {"status": {"allocatable": {"cpu": "-1"}}}, "Node", "b", "status.allocatable.cpu"),
        (
            claim("c", accessModes=[]),
            "PersistentVolumeClaim",
            "default/c",
            "Spec.accessModes: Required value",
        ),
        (storage("StorageClass", "s"), "StorageClass", "s", "provisioner: Required value"),
        (storage("CSIStorageCapacity", "s"), "CSIStorageCapacity", "default/s", "storageClassName: "),
        (pod("p", metadata={"uid": "Node/a"}), "Pod", "default/p", "has the uid Node/a of Node a"),
    ],
    ids=lambda value: value if isinstance(value, str) and "/" not in value else "",
)
def test_what_no_api_server_would_hold_is_named(
    oracle: Oracle, broken: Object, kind: str, name: str, message: str
) -> None:
    answer = oracle.judge([node("a"), broken, pod("fine")])
    assert isinstance(answer, Invalid)
    assert [(one.kind, one.name) for one in answer.objects] == [(kind, name)]
    assert message in answer.objects[0].message


def test_kinds_that_no_plugin_looks_at_are_passed_over(oracle: Oracle) -> None:
    other = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}}
    same_name = {"apiVersion": "metrics.k8s.io/v1", "kind": "Node", "metadata": {"name": "a"}}
    assert verdicts(oracle, other, same_name, node("b"), pod("p")).nodes == ("b",)


# ---- scores ----


def test_scores_are_weighted_and_add_up(oracle: Oracle) -> None:
    wish = {"key": "k", "value": "v", "effect": "PreferNoSchedule"}
    verdict = verdicts(oracle, node("a", taints=[wish]), node("b"), node("c", cpu="500m"), pod("p")).pods[
        "default/p"
    ]
    assert verdict.scores["TaintToleration"] == (0, 300)
    assert len(verdict.total) == 2  # of the feasible nodes
    assert verdict.total == tuple(map(sum, zip(*verdict.scores.values(), strict=True)))
    assert verdict.unscored == ""


@dataclasses.dataclass(frozen=True)
class Flaw:
    """A cluster that every API server accepts, and on which VolumeBinding's Score dereferences nil."""

    capacity: dict[str, str]
    claim: Object


# Found here: with StorageCapacityScoring (on by default since 1.37), VolumeBinding.Score reads two pointers
# that may be nil (volume_binding.go:503 and :513). Score runs where nobody recovers, so kube-scheduler 1.37.2
# itself crashes as soon as two nodes are feasible. Filters are not touched.
FLAWS = {
    "a capacity that says only the largest volume": Flaw(
        {"maximumVolumeSize": "10Gi"}, claim("c", storageClassName="s")
    ),
    "a claim that names its class in the old annotation": Flaw(
        {"capacity": "10Gi"},
        claim("c")
        | {"metadata": {"name": "c", "annotations": {"volume.beta.kubernetes.io/storage-class": "s"}}},
    ),
}


def flawed(flaw: Flaw) -> list[Object]:
    return [
        node("a"),
        node("b"),
        storage("StorageClass", "s", provisioner="d", volumeBindingMode="WaitForFirstConsumer"),
        storage("CSIDriver", "d", spec={"storageCapacity": True}),
        storage("CSIStorageCapacity", "s", storageClassName="s", nodeTopology={}, **flaw.capacity),
        flaw.claim,
        pod("p", **using("c")),
    ]


@pytest.mark.parametrize("flaw", FLAWS.values(), ids=FLAWS)
def test_where_scoring_panics_the_filters_verdict_stands(oracle: Oracle, flaw: Flaw) -> None:
    verdict = verdicts(oracle, *flawed(flaw)).pods["default/p"]
    assert "nil pointer dereference" in verdict.unscored
    assert "volumebinding.(*VolumeBinding).Score" in verdict.unscored
    assert (verdict.refused, verdict.total) == ({}, ())
    assert verdicts(oracle, node("a"), pod("p")).pods["default/p"].total  # it goes on


@pytest.mark.slow
def test_kube_scheduler_itself_crashes_there() -> None:
    in_blue = ("Pod", "PersistentVolumeClaim", "CSIStorageCapacity")
    for real in started(RealScheduler):
        for flaw in FLAWS.values():
            objects = copy.deepcopy(flawed(flaw))
            for one in objects:
                if one["kind"] in in_blue:
                    one["metadata"]["namespace"] = "blue"
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "blue"}}
            answer = real.judge([namespace, *objects])
            assert isinstance(answer, RealAnswer)
            verdict = answer.verdicts["blue/p"]
            assert verdict.outcome is Outcome.CRASHED
            assert "nil pointer dereference" in verdict.message
            assert verdict.feasible == {"a", "b"}


# ---- devices ----


def device_case() -> list[Object]:
    def resource(kind: str, name: str, spec: Object, **metadata: str) -> Object:
        version = "resource.k8s.io/v1"
        return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}

    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    wanted = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
    return [
        node("a"),
        node("b"),
        resource("DeviceClass", "gpu", {"selectors": [{"cel": {"expression": 'device.driver == "g"'}}]}),
        resource(
            "ResourceSlice", "s", {"driver": "g", "nodeName": "b", "pool": pool, "devices": [{"name": "d"}]}
        ),
        resource("ResourceClaim", "c", {"devices": {"requests": [wanted]}}, namespace="default"),
        *(pod(name, resourceClaims=[{"name": "x", "resourceClaimName": name}]) for name in ("c", "missing")),
    ]


def test_devices_are_allocated_as_the_scheduler_does(oracle: Oracle) -> None:
    assert refused(oracle, *device_case()) == {
        "default/c": {"DynamicResources": ["a"]},
        "default/missing": {"DynamicResources": ["a", "b"]},
    }


def test_a_panic_in_a_filter_is_an_answer_and_the_program_goes_on(lenient: Oracle) -> None:
    objects = device_case()
    objects[2]["spec"]["selectors"] = [{}]  # no API server would take it
    answer = lenient.judge(objects)
    assert isinstance(answer, Panicked)
    assert (answer.pod, answer.at) == ("default/c", "Filter DynamicResources b")
    assert "nil pointer dereference" in answer.message
    assert "selectorsMatch" in answer.frames[0]
    assert refused(lenient, *device_case())["default/c"] == {"DynamicResources": ["a"]}


# ---- the program ----


def test_an_answer_can_leave_out_scores_and_reasons() -> None:
    for brief in started(lambda: Oracle(has_scores=False, has_reasons=False)):
        verdict = verdicts(brief, node("a"), node("b", cpu="500m"), pod("p")).pods["default/p"]
        assert verdict == PodVerdict(
            refused={"NodeResourcesFit": b"\x02"}, first=b"\x00\x08", feasible=b"\x01"
        )


def test_cases_keep_their_order_and_large_ones_do_not_stop_the_pipes(oracle: Oracle) -> None:
    cases = [[node(f"n{number}-{of}".ljust(60, "x")) for of in range(1000)] for number in range(6)]
    for objects, answer in oracle.judge_all(cases):
        assert isinstance(answer, Verdicts)
        assert answer.nodes == tuple(one["metadata"]["name"] for one in objects)


def test_memory_stays_flat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOGC", "20")  # what is not collected is held
    objects = [
        *(node(f"n{number}") for number in range(50)),
        *flawed(next(iter(FLAWS.values())))[2:],
        pod("q"),
    ]
    panicking = device_case()
    panicking[2]["spec"]["selectors"] = [{}]
    for running in started(lambda: Oracle(is_validated=False)):
        held: list[int] = []
        for _ in range(4):
            for _ in range(60):
                assert isinstance(running.judge(objects), Verdicts)
            for _ in range(3):
                assert isinstance(running.judge(panicking), Panicked)
            held.append(running.resident_bytes)
        # Kept cases would be 60 × 0.3 MB a round, kept schedulers 3 × 2 MB.
        assert held[-1] - held[1] < 6e6, held


def test_a_program_that_dies_is_told_with_its_last_words() -> None:
    for running in started(Oracle):
        running._cases.write(b"no JSON\n")
        with pytest.raises(
            ComponentFailed, match=r"ended with exit code 1: filter-oracle: a case is not what"
        ):
            running.judge([node("a")])
    for running in started(Oracle):
        running._process.kill()
        running._process.wait()
        with pytest.raises(ComponentFailed, match=r"ended with exit code -9: it said nothing"):
            running.judge([node("a")])


def test_a_program_that_is_not_built_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOWPLAN_CACHE", str(tmp_path))
    with pytest.raises(MissingPrerequisite, match=r"^filter-oracle is not built yet: make programs"):
        Oracle()
