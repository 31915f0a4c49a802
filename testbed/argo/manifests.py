"""What Argo needs in the API server, taken from the manifests that its own module carries.

The custom resource definitions are the minimal ones, which do not say what is inside a workflow. Seen on two
busy cores, with the API server's memory:

    minimal   in use after  2 s,  0.4 GB   a workflow with a wrong type crashes the controller
    full      in use after 15 s,  1.1 GB   a workflow with a wrong type is refused

The full ones also refuse more than 200 templates and more than 200 tasks in a DAG, less than is to be tested.
The price of the minimal ones is known and tested: a workflow with a wrong type, such as YAML's `name: no`,
which is the boolean *false*, takes the controller down again and again until it is deleted.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import yaml

from testbed.programs import PROGRAMS, module_folder
from testbed.spec import Json

MODULE = "github.com/argoproj/argo-workflows/v4"
NAMESPACE = "argo"
CONFIG_MAP = "workflow-controller-configmap"
SERVICE_ACCOUNT = "argo"  # of the controller; the name in Argo's own manifests

DEFINITIONS = "base/crds/minimal/argoproj.io_*.yaml"
CONTROLLER_RIGHTS = "cluster-install-no-crds/workflow-controller-rbac/workflow-*.yaml"
EXECUTOR_RIGHTS = "quick-start/base/executor/emissary/executor-role.yaml"


def definitions() -> list[Json]:
    """The custom resource definitions."""
    return _read(DEFINITIONS)


def controller_objects(config: Json) -> list[Json]:
    """The controller's account, rights and configuration, for the namespace `argo`, which must exist.

    Args:
        config: Fields of the controller's configuration; each value is written as one field of the map.
    """
    objects: list[Json] = [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": SERVICE_ACCOUNT, "namespace": NAMESPACE},
        },
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": CONFIG_MAP, "namespace": NAMESPACE},
            "data": {key: json.dumps(value) for key, value in config.items()},  # YAML has JSON in it
        },
    ]
    for rights in _read(CONTROLLER_RIGHTS):
        if rights["kind"] in {"Role", "RoleBinding"}:
            rights["metadata"]["namespace"] = NAMESPACE
        for subject in rights.get("subjects", []):
            subject["namespace"] = NAMESPACE
        objects.append(rights)
    return objects


def executor_role(namespace: str) -> Json:
    """What the containers beside a task may do: report the task's result."""
    (role,) = _read(EXECUTOR_RIGHTS)
    role["metadata"]["namespace"] = namespace
    return role


def _read(pattern: str) -> list[Json]:
    folder = module_folder(PROGRAMS["workflow-controller"], MODULE) / "manifests"
    return [document for path in sorted(folder.glob(pattern)) for document in _documents(path)]


def _documents(path: Path) -> Iterator[Json]:
    # The C parser: one definition has 640 kB.
    for document in yaml.load_all(path.read_text(), Loader=yaml.CSafeLoader):
        yield cast("dict[str, Any]", document)
