"""Each mode of the process does its work with exactly the rights that `examples/rbac.yaml` gives it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.live.chaos import audited_bed
from testbed import api, audit, bulk, kwok
from testbed.argo import manifests
from testbed.bulk import Connection
from testbed.cluster import Cluster
from testbed.errors import MissingPrerequisite
from testbed.stowplan import Scheduler, grant
from testbed.waiting import wait_for

Json = dict[str, Any]

GATE = "stowplan.io/placement"


@pytest.fixture(scope="module")
def bed(repository: Path) -> Iterator[Cluster]:
    try:
        with audited_bed(5, logs_on_failure=repository / "out" / "cluster-logs") as running:
            api.create_all(running.client, manifests.definitions())
            yield running
    except MissingPrerequisite as missing:
        pytest.skip(str(missing))


def create(bed: Cluster, namespace: str, name: str, **spec: object) -> None:
    """Create a pod that could run on a fake node."""
    container = {"name": "main", "image": "work", "resources": {"requests": {"cpu": "100m"}}}
    fields = {"containers": [container], "tolerations": [kwok.TOLERATION]} | spec
    bulk.create_pods(bed.plane, namespace, [{"metadata": {"name": name}, "spec": fields}])


def read(bed: Cluster, namespace: str, name: str) -> Json:
    with Connection(bed.plane) as connection:
        return connection.get(f"/api/v1/namespaces/{namespace}/pods/{name}")


@pytest.mark.parametrize("mode", ["extender", "binder", "gate", "shadow"])
def test_a_mode_does_its_work_with_its_own_rights(bed: Cluster, mode: str) -> None:
    namespace = f"rights-{mode}"
    api.make_namespace(bed.client, namespace)
    grant(bed.client, mode)
    with Scheduler(bed.plane, {"scheduler": {"mode": mode}, "lease": {"name": mode}}).running() as scheduler:
        create(bed, namespace, "plain", schedulerName="stowplan")
        create(bed, namespace, "gated", schedulingGates=[{"name": GATE}])
        if mode == "binder":
            wait_for("it is bound", lambda: read(bed, namespace, "plain")["spec"].get("nodeName"), 60.0)
            create(bed, namespace, "large", schedulerName="stowplan", nodeSelector={"no": "node"})
            wait_for("it says so", lambda: reason(read(bed, namespace, "large")) == "Unschedulable", 60.0)
        if mode in ("gate", "extender"):
            wait_for("its gate is off", lambda: not gates(read(bed, namespace, "gated")), 60.0)
        if mode == "shadow":
            wait_for("it has looked", lambda: scheduler.ask("/v1/status")["scheduler"]["last_cycle"], 60.0)
        wait_for("it is well", lambda: scheduler.ask("/v1/status")["degraded"] == {}, 60.0)
        said = scheduler.log
    assert "right is missing" not in said
    assert "forbidden" not in said.lower()
    assert bool(bindings_in(bed, namespace)) == (mode == "binder")
    assert bool(gates(read(bed, namespace, "gated"))) == (mode in ("binder", "shadow"))


def gates(pod: Json) -> list[str]:
    return [gate["name"] for gate in pod["spec"].get("schedulingGates", [])]


def reason(pod: Json) -> str:
    """Why it has no node, as its status says."""
    conditions = pod["status"].get("conditions", [])
    return next((each.get("reason", "") for each in conditions if each["type"] == "PodScheduled"), "")


def bindings_in(bed: Cluster, namespace: str) -> list[audit.Binding]:
    return [each for each in audit.bindings(bed.site) if each.pod.startswith(f"{namespace}/")]
