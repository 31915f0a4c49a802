"""What is read of pods, and how little of it again."""

import json
from unittest.mock import patch

import pytest

from stowplan.core.domain import PodShape
from stowplan.kube.argo import AgentPod, TaskPod
from stowplan.kube.live import reader
from stowplan.kube.live.pod import LivePod, MainContainer, Owner
from stowplan.kube.manifest import load_objects
from tests.unit.live.objects import Json, node, plain, pod
from tests.unit.live.wire import World, raw_of


@pytest.fixture
def world() -> World:
    made = World()
    made.put(node())
    return made


def task_pod(name: str = "w-sort-1", *, node: str = "", phase: str = "Pending", **spec: object) -> Json:
    """A pod of the Argo workflow `w`."""
    made = pod(name, node=node, phase=phase)
    made["spec"] |= spec
    made["metadata"]["labels"] = {
        "workflows.argoproj.io/workflow": "w",
        "workflows.argoproj.io/completed": "false",
    }
    made["metadata"]["annotations"] = {"workflows.argoproj.io/node-name": "w.sort"}
    made["metadata"]["ownerReferences"] = [
        {
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "Workflow",
            "name": "w",
            "uid": "u-w",
            "controller": True,
        }
    ]
    return made


def test_everything_that_is_told_of_a_pod(world: World) -> None:
    document = task_pod(node="n", phase="Running", preemptionPolicy="Never")
    document["spec"]["containers"] = [
        {"name": "wait", "image": "argoexec"},
        {
            "name": "main",
            "image": "sorter:1",
            "command": ["sort", "-n"],
            "resources": {"requests": {"cpu": "1500m"}, "limits": {"memory": "1Gi", "cpu": "2"}},
        },
    ]
    document["status"] |= {
        "startTime": "2026-11-30T12:00:01Z",
        "reason": "why",
        "message": "words",
        "containerStatuses": [
            {"name": "wait", "state": {"running": {"startedAt": "2026-11-30T12:00:09Z"}}},
            {
                "name": "main",
                "state": {
                    "terminated": {
                        "startedAt": "2026-11-30T12:00:02Z",
                        "finishedAt": "2026-11-30T12:00:04Z",
                        "exitCode": 137,
                        "reason": "OOMKilled",
                    }
                },
            },
        ],
    }
    world.put(document)
    live, noon_s = world.pod("w-sort-1"), 1796040000.0
    assert (live.key, live.namespace, live.name, live.uid) == (
        "default/w-sort-1",
        "default",
        "w-sort-1",
        "uid-w-sort-1",
    )
    assert (live.phase, live.node_name, live.reason, live.message) == ("Running", "n", "why", "words")
    assert (live.created_s, live.started_s) == (noon_s, noon_s + 1)
    assert live.owner == Owner("Workflow", "w", "u-w")
    assert not live.can_preempt
    assert isinstance(live.identity, TaskPod)
    assert (live.identity.node_name, live.identity.template_hint) == ("w.sort", "sort-1")
    assert live.main == MainContainer(
        "sorter:1", ("sort", "-n"), 1500, 2**30, noon_s + 2, noon_s + 4, 137, "OOMKilled"
    )
    assert live.shape.node_name is None


def test_the_main_container_is_the_first_where_none_is_called_so(world: World) -> None:
    containers = [{"name": "one", "image": "a"}, {"name": "two", "image": "b"}]
    document = pod(node="n", containers=containers)
    document["status"]["containerStatuses"] = [
        {"name": "two", "state": {"running": {"startedAt": "2026-11-30T12:00:09Z"}}},
        {"name": "one", "state": {"waiting": {"reason": "ImagePullBackOff"}}},
    ]
    world.put(document)
    assert world.pod("p").main == MainContainer("a", (), 0, 0)


def test_what_the_status_says_of_scheduling(world: World) -> None:
    document = pod()
    document["status"] |= {
        "nominatedNodeName": "n",
        "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}
        ],
    }
    world.put(document)
    status = world.pod("p").status
    assert (status.reason, status.message, status.nominated_node) == ("Unschedulable", "no room", "n")
    document["status"]["conditions"] = [{"type": "PodScheduled", "status": "True", "reason": "Old"}]
    document["status"]["nominatedNodeName"] = None
    world.put(document)
    status = world.pod("p").status
    assert (status.reason, status.message, status.nominated_node) == ("", "", "")


def test_an_agent_pod_is_told(world: World) -> None:
    document = pod()
    document["metadata"]["labels"] = {
        "workflows.argoproj.io/workflow": "w",
        "workflows.argoproj.io/component": "agent",
    }
    world.put(document)
    assert world.pod("p").identity == AgentPod("default", "w")


def test_a_pod_whose_identity_contradicts_itself_is_a_pod_of_no_workflow(world: World) -> None:
    document = task_pod(node="n")
    document["metadata"]["annotations"]["workflows.argoproj.io/node-id"] = "other"
    world.put(document)
    assert world.pod("w-sort-1").identity is None
    assert "default/w-sort-1" in world.state.pods  # it holds its node like any other
    assert (
        "its annotation workflows.argoproj.io/node-id is 'other'"
        in world.feed.health["Pod"].unusable["default/w-sort-1"]
    )
    del document["metadata"]["annotations"]["workflows.argoproj.io/node-id"]
    world.put(document)
    assert isinstance(world.pod("w-sort-1").identity, TaskPod)
    assert not world.feed.health["Pod"].unusable


def test_changes_of_status_cost_no_reading(world: World) -> None:
    world.put(pod())
    with patch.object(reader, "read_pod_shape", side_effect=AssertionError("read again")):
        world.put(pod(node="n"))
        world.put(pod(node="n", phase="Running"))
        world.put(pod(node="n", phase="Succeeded"))
    phases = [(now.phase, now.node_name) for _, now in world.heard.pods]
    assert phases == [("Pending", ""), ("Pending", "n"), ("Running", "n"), ("Succeeded", "n")]
    assert not world.state.pods


def test_pods_of_one_template_share_their_shape(world: World) -> None:
    for number in range(3):
        document = task_pod(f"w-sort-{number}")
        container = document["spec"]["containers"][0]
        container["command"] = ["sort", str(number)]
        container["env"] = [{"name": "NUMBER", "value": str(number)}]
        document["spec"]["volumes"] = [{"name": f"token-{number}", "projected": {"sources": []}}]
        world.put(document)
    shapes = [each.shape for each in world.feed.pods.values()]
    assert shapes[0] is shapes[1] is shapes[2]


@pytest.mark.parametrize(
    "change",
    [
        {"priority": 7},
        {"schedulerName": "other"},
        {"nodeSelector": {"a": "b"}},
        {"tolerations": [{"operator": "Exists"}]},
        {
            "affinity": {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}
            }
        },
        {"hostNetwork": True},
        {"overhead": {"cpu": "1"}},
        {"resources": {"requests": {"cpu": "3"}}},
        {"initContainers": [{"name": "i", "resources": {"requests": {"cpu": "3"}}}]},
        {"schedulingGates": [{"name": "g"}]},
        {"resourceClaims": [{"name": "c"}]},
        {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
        {"volumes": [{"name": "v", "ephemeral": {}}]},
        {"volumes": [{"name": "v", "awsElasticBlockStore": {"volumeID": "c"}}]},
        {"volumes": [{"name": "v", "azureDisk": {"kind": "Managed", "diskURI": "c"}}]},
        {"volumes": [{"name": "v", "cinder": {"volumeID": "c"}}]},
        {"volumes": [{"name": "v", "portworxVolume": {"volumeID": "c"}}]},
        {"volumes": [{"name": "v", "iscsi": {"iqn": "c"}}]},
        {"volumes": [{"name": "v", "rbd": {"image": "c", "monitors": ["m"]}}]},
        {
            "topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}
            ]
        },
        {"containers": [{"name": "main", "image": "other"}]},
        {"containers": [{"name": "main", "ports": [{"containerPort": 1, "hostPort": 1}]}]},
        {"containers": [{"name": "main", "volumeMounts": [{"name": "v", "bindMountOptions": ["noexec"]}]}]},
        {"containers": [{"name": "main", "restartPolicyRules": [{"action": "RestartAllContainers"}]}]},
        {"ephemeralContainers": [{"name": "e", "volumeMounts": [{"bindMountOptions": ["noexec"]}]}]},
    ],
    ids=json.dumps,
)
def test_whatever_bears_on_placement_is_read(world: World, change: Json) -> None:
    world.put(pod())
    plain_shape = world.pod("p").shape
    changed = world.server.put(pod(**change))
    world.tell("MODIFIED", changed)
    read_whole = _read_whole(changed)
    assert world.pod("p").shape == read_whole != plain_shape


def _read_whole(document: Json) -> PodShape:
    return load_objects([document]).pending[0].shape


def test_a_resize_in_place_is_seen_in_the_status(world: World) -> None:
    world.put(pod(node="n"))
    assert world.state.requested[0, 0] == 500
    document = pod(node="n", phase="Running")
    document["status"]["containerStatuses"] = [{"name": "main", "allocatedResources": {"cpu": "3"}}]
    world.put(document)
    assert world.state.requested[0, 0] == 3000


def test_the_claim_of_an_ephemeral_volume_is_its_own_pods(world: World) -> None:
    for name in ("a", "b"):
        world.put(pod(name, volumes=[{"name": "v", "ephemeral": {}}]))
    claims = {
        (each.shape.volumes[0].claim, each.shape.volumes[0].pod_uid) for each in world.feed.pods.values()
    }
    assert claims == {("a-v", "uid-a"), ("b-v", "uid-b")}


def test_terminating_pods_hold_their_node_and_ended_ones_hold_none(world: World) -> None:
    leaving = pod(node="n", phase="Running")
    leaving["metadata"]["deletionTimestamp"] = "2026-11-30T12:00:10Z"
    world.put(leaving)
    assert world.state.pods["default/p"][0].is_terminating
    leaving["status"]["phase"] = "Failed"
    world.put(leaving)
    assert not world.state.pods
    assert world.pod("p").has_ended


def test_listeners_hear_what_changed_and_nothing_else(world: World) -> None:
    world.put(pod())
    first = world.pod("p")
    noisy = pod()
    noisy["metadata"]["managedFields"] = [{"manager": "kubelet"}]
    noisy["status"]["podIP"] = "10.0.0.1"
    world.put(noisy)
    assert world.heard.pods == [(None, first)]
    world.put(pod(phase="Running", node="n"))
    second = world.pod("p")
    assert world.heard.pods[1:] == [(first, second)]
    world.remove("Pod", "p", "default")
    assert world.heard.gone == [second]
    assert not world.feed.pods


def test_a_pod_deleted_and_made_again_is_first_told_gone(world: World) -> None:
    world.put(pod(node="n"))
    world.server.remove(("Pod", "default", "p"))
    world.server.put(pod(uid="second"))
    world.relist("Pod")
    assert [each.uid for each in world.heard.gone] == ["uid-p"]
    before, now = world.heard.pods[-1]
    assert (before, now.uid) == (None, "second")
    assert not world.state.pods


def test_what_cannot_be_used_is_named_in_the_health_and_logged_once(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = pod("bad", node="n")
    bad["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "a lot"}}
    for phase in ("Pending", "Running", "Running"):
        bad["status"]["phase"] = phase
        world.put(bad)
    world.put(pod("good", node="n"))
    assert list(world.feed.health["Pod"].unusable) == ["default/bad"]
    assert "quantity 'a lot' is not a number" in world.feed.health["Pod"].unusable["default/bad"]
    assert list(world.state.pods) == ["default/good"]
    logged = [line for line in capsys.readouterr().out.splitlines() if "object cannot be used" in line]
    assert len(logged) == 1
    assert "default/bad" in logged[0]
    bad["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    world.put(bad)
    assert not world.feed.health["Pod"].unusable
    assert set(world.state.pods) == {"default/good", "default/bad"}


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"containers": []}, "spec.containers is empty"),
        ({"priority": "high"}, "Expected `int | null`"),
        ({"tolerations": [{"operator": "Maybe"}]}, "write one of Equal, Exists, Gt, Lt"),
    ],
)
def test_a_known_pod_that_becomes_unusable_is_gone(world: World, spec: Json, why: str) -> None:
    world.put(pod(node="n"))
    known = world.pod("p")
    world.put(pod(node="n", **spec))
    assert why in world.feed.health["Pod"].unusable["default/p"]
    assert world.heard.gone == [known]
    assert not world.state.pods
    world.put(pod(node="n"))
    assert list(world.state.pods) == ["default/p"]


def test_a_pod_that_is_only_shown_is_read_alike_and_not_kept(world: World) -> None:
    world.put(plain("Service", "s", namespace="default", spec={"selector": {"app": "x"}}))
    shown: LivePod = world.feed.peek(
        bytes(raw_of({**pod(), "metadata": {**pod()["metadata"], "resourceVersion": "1"}}))
    )
    assert not world.feed.pods
    world.put(pod())
    assert world.pod("p") == shown
