"""The real kube-scheduler, asked through its extender, says what our filters and scores say."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from testbed.differential.generator import APART, EMPHASES, generate
from testbed.differential.oracle import Oracle
from testbed.differential.real_comparison import RealTally, compare_real
from testbed.differential.real_scheduler import Outcome, RealAnswer, RealScheduler, RealVerdict, Refused
from testbed.errors import MissingPrerequisite
from testbed.spec import Json

FIRST_SEED = 1_000_000  # not among those that the counted run takes
KINDS = (*EMPHASES, *APART)
NODES = 20  # the counted run has 50


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    try:
        with Oracle() as running:
            yield running
    except MissingPrerequisite as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def real(request: pytest.FixtureRequest, repository: Path) -> Iterator[RealScheduler]:
    failed_before = request.session.testsfailed
    try:
        with RealScheduler() as running:
            yield running
            if request.session.testsfailed > failed_before:
                running.keep_logs(repository / "out" / "cluster-logs")
    except MissingPrerequisite as missing:
        pytest.skip(str(missing))


def compare(objects: Sequence[Json], real: RealScheduler, oracle: Oracle) -> tuple[RealTally, RealAnswer]:
    answer = real.judge(objects)
    assert isinstance(answer, RealAnswer), answer
    return compare_real(objects, answer, oracle.judge(objects)), answer


def judged(objects: Sequence[Json], real: RealScheduler, oracle: Oracle) -> dict[str, RealVerdict]:
    """The real verdicts on a case, once it is sure that ours and the oracle's are the same."""
    tally, answer = compare(objects, real, oracle)
    assert tally.mismatches == []
    return answer.verdicts


# ---- generated cases ----


@pytest.mark.parametrize(("place", "emphasis"), list(enumerate(KINDS)), ids=KINDS)
def test_generated_cases_are_judged_alike(
    place: int, emphasis: str, real: RealScheduler, oracle: Oracle
) -> None:
    case = generate(FIRST_SEED + place, NODES, emphasis)
    tally, answer = compare(case.objects, real, oracle)
    assert tally.mismatches == []
    assert tally.cases == len(answer.verdicts) >= 5
    assert tally.chosen_in_our_best == tally.chosen


# ---- cases by hand ----

GATE = [{"name": "example.com/later"}]


def node(name: str, cpu: str = "4", **spec: object) -> Json:
    room = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": spec,
        "status": {"capacity": room, "allocatable": room},
    }


def pod(name: str, cpu: str = "1", status: Json | None = None, **spec: object) -> Json:
    containers = [{"name": "c", "image": "img", "resources": {"requests": {"cpu": cpu}}}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "case", "uid": f"uid-{name}"},
        "spec": {"containers": containers, **spec},
    } | ({"status": status} if status else {})


NAMESPACE: Json = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "case"}}
TAINT = {"key": "dedicated", "value": "other", "effect": "NoSchedule"}


def test_a_pod_is_told_where_it_fits_where_it_goes_or_why_not(real: RealScheduler, oracle: Oracle) -> None:
    cluster = [
        NAMESPACE,
        node("closed", taints=[TAINT]),
        node("full"),
        node("small", cpu="2"),
        node("large", cpu="8"),
        pod("runs", cpu="3500m", nodeName="full"),
    ]
    waiting = [
        pod("fits", cpu="1"),
        pod("one-place", cpu="6"),
        pod("too-big", cpu="9"),
        pod("gated", schedulingGates=GATE),
        pod("device", resourceClaims=[{"name": "d", "resourceClaimName": "no-such-claim"}]),
    ]
    verdicts = judged([*cluster, *waiting], real, oracle)
    assert verdicts["case/fits"].feasible == {"small", "large"}
    assert verdicts["case/fits"].chosen == "large"
    assert verdicts["case/fits"].totals["large"] > verdicts["case/fits"].totals["small"]
    assert verdicts["case/one-place"].feasible == {"large"}
    assert verdicts["case/one-place"].chosen == "large"
    assert verdicts["case/too-big"].outcome is Outcome.UNSCHEDULABLE
    assert verdicts["case/too-big"].message == (
        "0/4 nodes are available: 1 node(s) had untolerated taint(s), 3 Insufficient cpu."
    )
    assert verdicts["case/gated"].outcome is Outcome.NEVER_QUEUED
    assert verdicts["case/device"].outcome is Outcome.NEVER_QUEUED


def test_pods_that_are_nominated_count_for_each_other_and_for_the_rest(
    real: RealScheduler, oracle: Oracle
) -> None:
    def nominated(name: str, where: str) -> Json:
        return pod(name, cpu="3", status={"nominatedNodeName": where})

    objects = [
        *(NAMESPACE, node("n1"), node("n2"), node("n3")),
        nominated("first", "n1"),
        nominated("second", "n2"),
        pod("rest", cpu="2"),
    ]
    verdicts = judged(objects, real, oracle)
    assert verdicts["case/rest"].feasible == {"n3"}
    assert verdicts["case/first"].feasible == {"n1", "n3"}
    assert verdicts["case/first"].nominated == "n1"
    assert verdicts["case/second"].feasible == {"n2", "n3"}  # though first was judged before, and let go
    assert verdicts["case/second"].nominated == "n2"


def test_a_verdict_leaves_the_cluster_as_it_was(real: RealScheduler, oracle: Oracle) -> None:
    """One volume, and claims that each want it: had the first got it, the second would find none."""
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n2"]}
    storage: list[Json] = [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "local"},
            "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer",
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "only"},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "local",
                "nfs": {"server": "nfs.example.com", "path": "/only"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
            },
            "status": {"phase": "Available"},
        },
    ]
    for name in ("one", "two", "three"):
        claim: Json = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": "case", "uid": f"uid-claim-{name}"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "local",
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
        uses = {"name": "v", "persistentVolumeClaim": {"claimName": name}}
        # Each pod alone fills the node, so a binding that lasted would show in the room as well.
        storage += [claim, pod(name, cpu="4", volumes=[uses])]
    verdicts = judged([NAMESPACE, node("n1"), node("n2"), *storage], real, oracle)
    assert [verdict.feasible for verdict in verdicts.values()] == [{"n2"}] * 3
    assert [verdict.chosen for verdict in verdicts.values()] == ["n2"] * 3


def test_a_crash_of_kube_scheduler_is_a_verdict_and_the_other_pods_get_theirs(
    real: RealScheduler, oracle: Oracle
) -> None:
    """1.37.2 reads a capacity that need not be there, when it scores two nodes or more."""
    storage_class: Json = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "s"},
        "provisioner": "disk.example.com",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    driver: Json = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIDriver",
        "metadata": {"name": "disk.example.com"},
        "spec": {"storageCapacity": True},
    }
    only_the_largest: Json = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIStorageCapacity",
        "metadata": {"name": "s", "namespace": "case"},
        "storageClassName": "s",
        "nodeTopology": {},
        "maximumVolumeSize": "10Gi",
    }
    claim: Json = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "case", "uid": "uid-data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "s",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    crashing = pod("a", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
    cluster = [NAMESPACE, node("n1"), node("n2"), storage_class, driver, only_the_largest, claim]
    verdicts = judged([*cluster, crashing, pod("b"), pod("c")], real, oracle)
    assert verdicts["case/a"].outcome is Outcome.CRASHED
    assert verdicts["case/a"].feasible == {"n1", "n2"}
    assert verdicts["case/b"].outcome is verdicts["case/c"].outcome is Outcome.CHOSEN


def test_what_the_api_server_refuses_is_told_and_taken_away(real: RealScheduler, oracle: Oracle) -> None:
    wrong = node("n2")
    wrong["metadata"]["labels"]["zone"] = "not a label value"
    cluster = [NAMESPACE, node("n1")]
    answer = real.judge([*cluster, wrong, pod("p")])
    assert isinstance(answer, Refused)
    assert "not a label value" in answer.message
    assert judged([*cluster, pod("p")], real, oracle)["case/p"].feasible == {"n1"}


def test_classes_of_one_case_do_not_linger_in_the_next(real: RealScheduler, oracle: Oracle) -> None:
    """Admission has caches of its own: a default that is gone must not be given out, a new one must."""
    default_class: Json = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": "standard",
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": "disk.example.com",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    priority: Json = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "usual"},
        "value": 7,
        "globalDefault": True,
    }
    claim: Json = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "case", "uid": "uid-data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    user = pod("p", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
    cluster = [NAMESPACE, node("n1")]
    for classes in ([default_class, priority], [], [default_class, priority]):
        tally, answer = compare([*cluster, *classes, claim, user], real, oracle)
        assert tally.mismatches == []
        held = {one["kind"]: one for one in answer.objects}
        assert held["Pod"]["spec"]["priority"] == (7 if classes else 0)
        assert held["PersistentVolumeClaim"]["spec"].get("storageClassName") == (
            "standard" if classes else None
        )
        assert answer.verdicts["case/p"].outcome is (Outcome.CHOSEN if classes else Outcome.UNSCHEDULABLE)


def test_the_logs_of_all_its_components_can_be_kept(real: RealScheduler, tmp_path: Path) -> None:
    assert isinstance(real.judge([NAMESPACE, node("n1"), pod("p")]), RealAnswer)
    real.keep_logs(tmp_path)
    (kept,) = tmp_path.iterdir()
    assert {"etcd.log", "kube-apiserver.log", "kube-scheduler.log"} <= {log.name for log in kept.iterdir()}
    assert 'pod="case/p"' in (kept / "kube-scheduler.log").read_text()
