"""Fake nodes without a cluster: what kwok is told, and that stages and annotations speak of the same."""

import dataclasses
import datetime as dt
import re

import pytest
import yaml

from testbed import kwok
from testbed.kwok import PodScript, daemon, manifests
from testbed.site import Site
from testbed.spec import FakeNodes, Json

SITE = Site("unit", 130)
NOW = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
ADDRESS = "10.130.0.1"


def stages() -> dict[str, Json]:
    found = [yaml.safe_load(path.read_text()) for path in (daemon.HERE / "stages").glob("*.yaml")]
    return {stage["metadata"]["name"]: stage for stage in found}


def pod_stages() -> dict[str, Json]:
    return {name: stage for name, stage in stages().items() if stage["spec"]["resourceRef"]["kind"] == "Pod"}


def templates(stage: Json) -> str:
    return "\n".join(step["patch"]["template"] for step in stage["spec"]["steps"] if "patch" in step)


def nodes(group: FakeNodes) -> list[Json]:
    return list(manifests.nodes([group], ADDRESS, NOW))


def test_a_stage_is_in_the_file_of_its_name() -> None:
    files = {path.stem for path in (daemon.HERE / "stages").glob("*.yaml")}
    assert files == set(stages())
    assert {file.stem for file in daemon.configuration_files()} == files | {"usage"}


@pytest.mark.parametrize("name", sorted(stages()))
def test_no_stage_has_jitter_which_would_replace_its_delay(name: str) -> None:
    delay = stages()[name]["spec"].get("delay", {})
    assert not [key for key in delay if "jitter" in key.lower()]


@pytest.mark.parametrize("name", sorted(pod_stages()))
def test_a_pod_stage_acts_on_the_version_that_it_has_seen(name: str) -> None:
    """Else a stale event plays a stage twice, and the second time sets another start."""
    assert "resourceVersion: {{ .metadata.resourceVersion | Quote }}" in templates(pod_stages()[name])


@pytest.mark.parametrize("name", ["pod-complete", "pod-restart", "pod-terminate"])
def test_a_container_that_ends_keeps_its_start(name: str) -> None:
    template = templates(pod_stages()[name])
    assert '$ended "startedAt" .state.running.startedAt' in template
    assert '"startedAt" $stamp "finishedAt"' not in template


@pytest.mark.parametrize("name", ["pod-init", "pod-run", "pod-complete", "pod-restart"])
def test_a_delay_is_an_absolute_time(name: str) -> None:
    delay = pod_stages()[name]["spec"]["delay"]
    assert delay["durationMilliseconds"] == 0
    assert delay["durationFrom"]["jq"]["expression"] == '.metadata.annotations["stowplan.dev/next-at"]'


def test_only_the_refusal_has_weight_so_that_it_comes_first() -> None:
    assert {name for name, stage in stages().items() if stage["spec"].get("weight", 0)} == {"pod-refuse"}


def test_every_word_of_a_script_is_read_by_a_stage_and_every_word_read_is_of_a_script() -> None:
    whole = PodScript(
        duration_s=1,
        start_delay_s=1,
        init_duration_s=1,
        exit_code=1,
        reason="OOMKilled",
        is_stubborn=True,
        cpu_cores=1,
        memory_bytes=1,
    )
    assert all(getattr(whole, field.name) for field in dataclasses.fields(PodScript))
    text = "\n".join(path.read_text() for path in daemon.configuration_files())
    kept_by_stages = {f"stowplan.dev/{name}" for name in ("next-at", "started-at", "finished-at", "ends-as")}
    read = set(re.findall(r'"((?:stowplan\.dev|kwok\.x-k8s\.io)/[a-z-]+)"', text))
    assert read - kept_by_stages - {kwok.NOT_READY} == set(whole.annotations())


def test_a_script_is_written_in_units_that_the_stages_read() -> None:
    script = PodScript(duration_s=1.5, exit_code=0, cpu_cores=0.25, memory_bytes=1 << 20)
    assert script.annotations() == {
        "stowplan.dev/duration": "1500ms",
        "stowplan.dev/exit-code": "0",
        "kwok.x-k8s.io/usage-cpu": "250m",
        "kwok.x-k8s.io/usage-memory": "1048576",
    }
    assert PodScript().annotations() == {}


def test_times_are_read_to_less_than_a_millisecond() -> None:
    seen = kwok.times(
        {
            "stowplan.dev/started-at": "2026-11-30T16:38:12.108215789Z",
            "stowplan.dev/finished-at": "2026-11-30T17:38:13.5+01:00",
        }
    )
    assert seen.duration_s == pytest.approx(1.391784, abs=1e-5)
    with pytest.raises(ValueError, match="not run to its end"):
        _ = kwok.times(None).duration_s


def test_nodes_are_numbered_and_spread_over_zones() -> None:
    made = nodes(FakeNodes(count=5, prefix="big", zones=2, labels={"disk": "ssd"}))
    assert [node["metadata"]["name"] for node in made] == [f"big-{i:05d}" for i in range(5)]
    labels = [node["metadata"]["labels"] for node in made]
    assert [label["topology.kubernetes.io/zone"] for label in labels] == [f"zone-{i % 2}" for i in range(5)]
    assert all(label["kubernetes.io/hostname"] == f"big-{i:05d}" for i, label in enumerate(labels))
    assert all(
        label["disk"] == "ssd" and label["node.kubernetes.io/instance-type"] == "big" for label in labels
    )


def test_a_node_is_created_ready_with_what_was_asked_for() -> None:
    (node,) = nodes(
        FakeNodes(count=1, allocatable={"cpu": "3", "pods": "7"}, taints=("a=b:NoSchedule", "c:NoExecute"))
    )
    assert node["status"]["allocatable"] == node["status"]["capacity"] == {"cpu": "3", "pods": "7"}
    assert node["spec"]["taints"] == [
        {"key": "a", "value": "b", "effect": "NoSchedule"},
        {"key": "c", "effect": "NoExecute"},
    ]
    assert node["metadata"]["annotations"] == {kwok.FAKE_NODE: "fake"}
    (ready,) = (c for c in node["status"]["conditions"] if c["type"] == "Ready")
    assert (ready["status"], ready["lastTransitionTime"]) == ("True", "2026-01-02T03:04:05Z")


def test_the_toleration_is_of_the_taint_that_fake_nodes_have() -> None:
    (node,) = nodes(FakeNodes(count=1))
    (taint,) = node["spec"]["taints"]
    assert {key: kwok.TOLERATION[key] for key in ("key", "value", "effect")} == taint


def test_kwok_has_no_right_to_make_pods_or_nodes_and_is_in_no_group() -> None:
    role, binding, _ = manifests.access()
    rights = {
        (resource, verb) for rule in role["rules"] for resource in rule["resources"] for verb in rule["verbs"]
    }
    assert not {("nodes", "create"), ("nodes", "delete"), ("pods", "create"), ("secrets", "get")} & rights
    assert [subject["kind"] for subject in binding["subjects"]] == ["User"]


def test_kwok_listens_and_counts_addresses_within_its_cluster() -> None:
    options = daemon.options(SITE)["options"]
    assert options["serverAddress"] == f"10.130.0.1:{kwok.NODE_PORT}"
    assert options["cidr"] == SITE.fake_pod_range
    assert options["manageNodesWithAnnotationSelector"] == f"{kwok.FAKE_NODE}=fake"
    assert "manageAllNodes" not in options
