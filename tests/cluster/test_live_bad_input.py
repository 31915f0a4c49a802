"""What operators and users get wrong: the process says on one line what it is, and goes on where it can."""

import datetime as dt
import json
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lightkube import Client
from lightkube.resources.rbac_authorization_v1 import ClusterRole

from bench.live.chaos import Arena, audited_bed, bound
from stowplan.kube.argo.names import node_id, pod_name
from testbed import api, bulk, kwok
from testbed.argo import manifests
from testbed.argo.batch import workflows_path
from testbed.bulk import Connection
from testbed.clock import WallClock
from testbed.cluster import Cluster
from testbed.errors import MissingPrerequisite
from testbed.stowplan import ACCOUNT, PORT, Scheduler, grant, program
from testbed.waiting import wait_for

Json = dict[str, Any]

ALONE: dict[str, Json] = {"scheduler": {"mode": "binder"}, "lease": {"enable": False}}
LABEL = "workflows.argoproj.io/"


@pytest.fixture(scope="module")
def bed(repository: Path) -> Iterator[Cluster]:
    """Fake nodes, and Argo's definitions without its controller, which some of these workflows would end."""
    try:
        with audited_bed(10, logs_on_failure=repository / "out" / "cluster-logs") as running:
            api.create_all(running.client, manifests.definitions())
            yield running
    except MissingPrerequisite as missing:
        pytest.skip(str(missing))


@pytest.fixture
def arena(bed: Cluster, request: pytest.FixtureRequest) -> Iterator[Arena]:
    words = re.sub("[^a-z0-9]+", "-", request.node.name.removeprefix("test_"))
    arena = Arena(bed, f"{words[:30]}-{words[-20:].strip('-')}", "stowplan")
    yield arena
    arena.remove()


@pytest.fixture
def scheduler(bed: Cluster) -> Iterator[Scheduler]:
    """A scheduler that runs and leads."""
    with Scheduler(bed.plane, ALONE).running() as scheduler:
        yield scheduler


def refused(*options: str | Path, code: int) -> str:
    """What the process says, beside its log, on one line before it ends."""
    command = [*program(), "serve", "scheduler", *map(str, options)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == code, done.stderr
    (line,) = (line for line in done.stderr.splitlines() if not line.startswith("{"))
    return line


def test_an_unknown_mode_is_refused_with_those_that_there_are() -> None:
    said = refused("--mode", "sideways", code=2)
    assert "scheduler.mode is 'sideways'" in said
    assert all(mode in said for mode in ("extender", "binder", "gate", "shadow"))


def test_a_kubeconfig_that_is_not_there_or_leads_nowhere_is_named(tmp_path: Path) -> None:
    absent = tmp_path / "absent"
    assert str(absent) in refused("--kubeconfig", absent, code=2)

    empty = tmp_path / "empty"
    empty.write_text("apiVersion: v1\nkind: Config\nclusters: []\n")
    assert str(empty) in refused("--kubeconfig", empty, code=2)


def test_an_expired_certificate_ends_it_with_the_words_of_what_is_wrong(bed: Cluster) -> None:
    yesterday = dt.datetime.now(dt.UTC) - dt.timedelta(days=1)
    pair = bed.plane.authority.issue("expired", "system:serviceaccount:a:b", ends=yesterday)
    kubeconfig = bed.plane.authority.kubeconfig(
        bed.site.folder / "expired.kubeconfig", bed.plane.server, pair
    )
    said = refused("--mode", "binder", "--kubeconfig", kubeconfig, "--no-elect", code=2)
    assert "expired" in said
    assert kubeconfig.name in said


def test_a_right_that_is_missing_is_named_and_taken_up_once_it_is_granted(bed: Cluster, arena: Arena) -> None:
    take_right(bed.client, "pods/binding")
    scheduler = Scheduler(bed.plane, ALONE)
    scheduler.start()
    try:
        bed.daemons.wait_for("it says what it may not", lambda: '"right is missing"' in scheduler.log)
        status, said = scheduler.get("/readyz")
    finally:
        bed.client.delete(ClusterRole, f"{ACCOUNT}-binder")
        grant(bed.client, "binder")
    assert '"right": "create pods/binding"' in scheduler.log
    assert status == 503
    assert "create pods/binding" in said
    scheduler.wait_ready()
    arena.create(3)
    arena.wait_until_all_bound()
    scheduler.end()


def take_right(client: Client, resource: str) -> None:
    """Take the rights on a resource from the role of the binder."""
    role = client.get(ClusterRole, f"{ACCOUNT}-binder")
    role.rules = [rule for rule in role.rules or [] if resource not in (rule.resources or [])]
    client.replace(role)


def test_of_two_instances_on_one_lease_one_works(bed: Cluster, arena: Arena) -> None:
    config = {"scheduler": {"mode": "binder"}, "lease": {"name": "shared"}}
    idle = Scheduler(bed.plane, config, name="twin", port=PORT + 1)
    with Scheduler(bed.plane, config).running() as leader:
        idle.start()
        bed.daemons.wait_for("the other is ready", idle.is_ready)
        arena.create(40)
        arena.wait_until_all_bound()
        assert leader.leads()
        assert (bound(leader), bound(idle)) == (40.0, 0.0)
        assert idle.ask("/v1/status")["leads"] is False
        idle.end()


def test_a_wall_clock_that_is_set_changes_nothing(bed: Cluster, arena: Arena) -> None:
    clock = WallClock(bed.site.folder)
    config = {"scheduler": {"mode": "binder"}, "lease": {"name": "clock"}}
    with Scheduler(bed.plane, config, environment=clock.environment).running() as scheduler:
        for ahead_s in (7200.0, -60.0, 0.0):
            clock.set(ahead_s)
            arena.create(10)
            arena.wait_until_all_bound()
            assert scheduler.leads()
        assert '"leads no longer"' not in scheduler.log
        assert scheduler.ask("/v1/status")["degraded"] == {}


def workflow(name: str, *templates: Json) -> Json:
    """A workflow that begins with its first template, and has one that runs."""
    work = {"name": "work", "container": {"image": "work", "command": ["work"]}}
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"name": name},
        "spec": {"entrypoint": templates[0]["name"], "templates": [*templates, work]},
    }


def dag(*tasks: tuple[str, list[str]], template: str = "work", name: str = "main") -> Json:
    return {
        "name": name,
        "dag": {
            "tasks": [{"name": task, "template": template, "dependencies": needs} for task, needs in tasks]
        },
    }


def submit(bed: Cluster, namespace: str, manifest: Json) -> None:
    with Connection(bed.plane) as connection:
        connection.send("POST", workflows_path(namespace), manifest)


def create_pod_of(bed: Cluster, namespace: str, name: str, task: str) -> None:
    """Create the pod of a task, as Argo's controller does."""
    node = f"{name}.{task}"
    metadata = {
        "name": pod_name(name, node, "work"),
        "labels": {f"{LABEL}workflow": name, f"{LABEL}completed": "false"},
        "annotations": {f"{LABEL}node-name": node, f"{LABEL}node-id": node_id(name, node)},
    }
    spec = {
        "schedulerName": "stowplan",
        "restartPolicy": "Never",
        "tolerations": [kwok.TOLERATION],
        "containers": [{"name": "main", "image": "work"}],
    }
    bulk.create_pods(bed.plane, namespace, [{"metadata": metadata, "spec": spec}])


def said_of(scheduler: Scheduler, key: str) -> list[str]:
    """Lines of its log that name an object."""
    return [line for line in scheduler.log.splitlines() if key in line]


@pytest.mark.parametrize(
    ("templates", "words"),
    [
        pytest.param([dag(("a", ["b"]), ("b", ["a"]))], "cycle", id="cycle"),
        pytest.param([dag(("a", ["a"]))], "cycle", id="depends-on-itself"),
        pytest.param([dag(("a", []), template="main")], "", id="recursion"),
        pytest.param([dag(("a", []), template="nowhere")], "nowhere", id="unknown-template"),
    ],
)
def test_a_workflow_that_cannot_be_stops_nobody(
    bed: Cluster, arena: Arena, scheduler: Scheduler, templates: list[Json], words: str
) -> None:
    name = f"odd-{words or 'recursion'}"
    submit(bed, arena.namespace, workflow(name, *templates))
    create_pod_of(bed, arena.namespace, name, "a")
    arena.create(3)
    arena.wait_until_all_bound()
    if words:
        key = f"{arena.namespace}/{name}"
        wait_for(
            "it says what is wrong", lambda: any(key in line for line in scheduler.log.splitlines()), 30.0
        )
        lines = [line for line in scheduler.log.splitlines() if key in line]
        assert any(words in line for line in lines), lines
    scheduler.daemon.check()


def test_a_workflow_of_five_thousand_tasks_holds_nobody_up(
    bed: Cluster, arena: Arena, scheduler: Scheduler
) -> None:
    tasks = [("t-0", [])] + [(f"t-{number}", [f"t-{(number - 1) // 2}"]) for number in range(1, 5000)]
    large = workflow("large", dag(*tasks))
    submit(bed, arena.namespace, large)
    began_s = time.monotonic()
    while time.monotonic() - began_s < 5.0:  # while it is read, and after
        arena.create(2)
        arena.wait_until_all_bound(30.0)
    create_pod_of(bed, arena.namespace, "large", "t-0")
    arena.wait_until_all_bound()
    status, said = scheduler.get(f"/v1/workflows/{arena.namespace}/large")
    assert status == 200, said
    assert len(json.loads(said)["tasks"]) == 5000
