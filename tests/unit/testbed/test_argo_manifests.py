"""What Argo needs in the API server: all of it, nothing lost on the way, everything in one namespace."""

import json

import pytest
from lightkube.codecs import from_dict

from testbed.argo import manifests
from testbed.errors import MissingPrerequisite
from testbed.spec import Json


@pytest.fixture(scope="module", autouse=True)
def definitions() -> list[Json]:
    try:
        return manifests.definitions()
    except MissingPrerequisite as missing:  # no Go, which has the manifests in its module cache
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def objects() -> list[Json]:
    return manifests.controller_objects({"executor": {"image": "e:1"}, "podGCDeleteDelayDuration": "0s"})


def test_the_client_keeps_every_word_of_the_definitions(definitions: list[Json]) -> None:
    assert {definition["spec"]["names"]["kind"] for definition in definitions} == {
        "ClusterWorkflowTemplate",
        "CronWorkflow",
        "Workflow",
        "WorkflowArtifactGCTask",
        "WorkflowEventBinding",
        "WorkflowTaskResult",
        "WorkflowTaskSet",
        "WorkflowTemplate",
    }
    assert [from_dict(definition).to_dict() for definition in definitions] == definitions


def test_the_controllers_rights_are_those_of_its_account_in_its_namespace(objects: list[Json]) -> None:
    kinds = {(o["kind"], o["metadata"]["name"]) for o in objects}
    assert ("ServiceAccount", "argo") in kinds
    assert {("ClusterRole", "argo-cluster-role"), ("Role", "argo-role")} <= kinds
    namespaced = [o for o in objects if not o["kind"].startswith("Cluster")]
    assert {o["metadata"].get("namespace") for o in namespaced} == {"argo"}
    subjects = [subject for o in objects for subject in o.get("subjects", [])]
    assert len(subjects) == 2
    assert all(s == {"kind": "ServiceAccount", "name": "argo", "namespace": "argo"} for s in subjects)


def test_the_configuration_is_read_as_it_was_meant(objects: list[Json]) -> None:
    (config_map,) = (o for o in objects if o["kind"] == "ConfigMap")
    read = {key: json.loads(text) for key, text in config_map["data"].items()}
    assert read == {"executor": {"image": "e:1"}, "podGCDeleteDelayDuration": "0s"}


def test_an_executor_may_report_and_nothing_else() -> None:
    role = manifests.executor_role("n")
    assert role["metadata"]["namespace"] == "n"
    assert role["rules"] == [
        {"apiGroups": ["argoproj.io"], "resources": ["workflowtaskresults"], "verbs": ["create", "patch"]}
    ]
