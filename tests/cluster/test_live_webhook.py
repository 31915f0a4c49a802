"""The webhook on a real API server: examples go through it, what crashes Argo does not, nobody is stopped."""

import asyncio
import json
import signal
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from lightkube import Client
from lightkube.resources.core_v1 import Pod
from lightkube.resources.scheduling_v1 import PriorityClass

from stowplan.kube.api.access import from_kubeconfig
from stowplan.kube.api.client import ApiClient, Patch, PatchKind
from stowplan.kube.api.errors import Invalid, Refused
from stowplan.kube.api.resources import (
    CLUSTER_WORKFLOW_TEMPLATES,
    CRON_WORKFLOWS,
    WORKFLOW_TEMPLATES,
    WORKFLOWS,
    Resource,
)
from stowplan.kube.argo import is_argo_object
from stowplan.kube.plan import GATE, RANK, plan_object
from stowplan.serve.rights import cluster_role
from stowplan.serve.scheduler.interface import Mode
from stowplan.serve.webhook.registration import (
    MUTATING_CONFIGURATIONS,
    VALIDATING_CONFIGURATIONS,
    Registration,
    register,
    webhook_configurations,
)
from stowplan.serve.webhook.server import RIGHTS, controller_rights
from stowplan.serve.webhook.settings import PlanConfig, WebhookConfig
from testbed import api, argo, network
from testbed.argo.workflows import SERVICE_ACCOUNT
from testbed.cluster import Cluster
from testbed.images import image_name
from testbed.waiting import wait_for
from tests.golden.plan.cases import INTENDED, differences, read_examples
from tests.unit.argo.cases import dag, task, workflow

Json = dict[str, Any]

KINDS = {
    resource.kind: resource
    for resource in (WORKFLOWS, WORKFLOW_TEMPLATES, CLUSTER_WORKFLOW_TEMPLATES, CRON_WORKFLOWS)
}
PORT, HTTP_PORT = 10453, 10454
NAME = "webhook"
USER = "stowplan-webhook"
CLASSES = {"stowplan-low": 1000, "stowplan-high": 2000}
AT_ONCE = 4


@dataclass
class Webhook:
    """A running webhook that the API server asks about the objects of one namespace."""

    cluster: Cluster
    namespace: str
    config: WebhookConfig
    mode: Mode

    def start(self) -> None:
        """Start it and wait until it is ready."""
        site = self.cluster.site
        settings = site.folder / "webhook.yaml"
        settings.write_text(json.dumps({"webhook": self.config.model_dump(mode="json")}))
        self.cluster.daemons.start(
            NAME,
            [
                *(Path(sys.executable).with_name("stowplan"), "serve", "webhook", "--config", settings),
                *("--kubeconfig", site.folder / f"{USER}.kubeconfig", "--mode", self.mode.value),
                *("--listen", f"127.0.0.1:{HTTP_PORT}"),
            ],
        )
        self.cluster.daemons.wait_for("the webhook is ready", lambda: self.ask("/readyz") == "ok\n")

    def ask(self, path: str) -> str:
        """The answer of its health and metrics; empty while it does not listen, or is not ready."""

        def get() -> str:
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            try:
                with opener.open(f"http://127.0.0.1:{HTTP_PORT}{path}", timeout=5.0) as answer:
                    return answer.read().decode()
            except OSError:
                return ""

        return network.inside(self.cluster.site.hub, get)

    def counted(self, webhook: str, result: str) -> float:
        """How many requests it answered so, by its own count."""
        return sum(
            float(line.rpartition(" ")[2])
            for line in self.ask("/metrics").splitlines()
            if line.startswith("stowplan_webhook_requests_total{")
            and f'webhook="{webhook}"' in line
            and f'result="{result}"' in line
        )

    def create(self, raw: Json, *, dry_run: bool = True) -> Json:
        """Create an object and return it as the API server keeps it."""

        async def create() -> Json:
            async with self._client() as client:
                resource = KINDS[raw["kind"]]
                body = await client.create(resource, raw, self._place(resource), dry_run=dry_run)
                return msgspec.json.decode(body)

        return asyncio.run(create())

    def verdicts(self, raws: list[Json], namespace: str) -> list[Json | str]:
        """What the API server would keep, or says against it, of each object."""
        free = asyncio.Semaphore(AT_ONCE)

        async def one(client: ApiClient, raw: Json) -> Json | str:
            async with free:
                try:
                    return msgspec.json.decode(
                        await client.create(KINDS[raw["kind"]], raw, namespace, dry_run=True)
                    )
                except Refused as refused:
                    return str(refused)

        async def ask() -> list[Json | str]:
            async with self._client() as client:
                return list(await asyncio.gather(*(one(client, raw) for raw in raws)))

        return asyncio.run(ask())

    def _client(self) -> ApiClient:
        return ApiClient(from_kubeconfig([self.cluster.site.kubeconfig]))

    def change(self, resource: Resource, name: str, fields: Json) -> Json:
        """Merge fields into an object."""

        async def change() -> Json:
            async with self._client() as client:
                patch = Patch(PatchKind.MERGE, fields)
                return msgspec.json.decode(await client.patch(resource, name, patch, self._place(resource)))

        return asyncio.run(change())

    def _place(self, resource: Resource) -> str | None:
        return self.namespace if resource.is_namespaced else None

    def register(self, **fields: Any) -> None:  # noqa: ANN401 (whatever Registration takes)
        """Tell the API server of it, and wait until it asks."""
        registration = Registration(
            target=f"https://127.0.0.1:{PORT}",
            ca_bundle=self.cluster.plane.authority.pair.certificate.read_bytes(),
            name=f"stowplan-{self.namespace}",
            namespace_labels={"kubernetes.io/metadata.name": self.namespace},
            **fields,
        )

        async def tell() -> None:
            async with self._client() as client:
                await register(client, webhook_configurations(registration))

        asyncio.run(tell())

        def is_asked() -> bool:
            before = self.counted("mutate", "planned"), self.counted("validate", "valid")
            self.create(
                workflow(dag("main", task("a")), pod("leaf"), name="probe") | {"metadata": {"name": "p"}}
            )
            after = self.counted("mutate", "planned"), self.counted("validate", "valid")
            return after[0] > before[0] and after[1] > before[1]

        wait_for("the API server asks the webhook", is_asked, 60.0)

    def forget(self) -> None:
        """Take the registration away."""

        async def forget() -> None:
            async with self._client() as client:
                for resource in (MUTATING_CONFIGURATIONS, VALIDATING_CONFIGURATIONS):
                    await client.delete(resource, f"stowplan-{self.namespace}")

        asyncio.run(forget())


def pod(name: str) -> Json:
    """A template with a pod that ends at once."""
    container = {"image": image_name("busybox"), "imagePullPolicy": "Never", "command": ["true"]}
    return {"name": name, "container": container}


@pytest.fixture(scope="module")
def rights(cluster: Cluster) -> None:
    """A user with the rights of the webhook and no others."""
    cluster.plane.kubeconfig_for(USER, USER)
    group = "rbac.authorization.k8s.io"
    (right,) = controller_rights(WebhookConfig())
    rule = {"apiGroups": [right.group], "resources": [right.resource], "verbs": list(right.verbs)}
    local = {"name": USER, "namespace": right.namespace}
    api.create_all(
        cluster.client,
        [
            cluster_role(USER, RIGHTS),
            {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": local, "rules": [rule]},
            *(
                {
                    "apiVersion": f"{group}/v1",
                    "kind": f"{kind}Binding",
                    "metadata": metadata,
                    "roleRef": {"apiGroup": group, "kind": kind, "name": USER},
                    "subjects": [{"apiGroup": group, "kind": "User", "name": USER}],
                }
                for kind, metadata in (("ClusterRole", {"name": USER}), ("Role", local))
            ),
        ],
    )


@pytest.fixture
def webhook(
    cluster: Cluster, namespace: str, rights: None, request: pytest.FixtureRequest
) -> Iterator[Webhook]:
    """A webhook, registered for the test's namespace; the test's parameter is mode, plan, registration."""
    del rights
    mode, plan, registration = getattr(request, "param", (Mode.BINDER, {}, {}))
    pair = cluster.plane.authority.issue(NAME, NAME, addresses=["127.0.0.1"])
    config = WebhookConfig(
        port=PORT,
        certificate=pair.certificate,
        key=pair.key,
        plan=PlanConfig.model_validate(plan),
        drain_s=0.0,
    )
    running = Webhook(cluster, namespace, config, mode)
    try:
        running.start()
        running.register(**registration)
        yield running
    finally:
        running.forget()
        if NAME in cluster.daemons.running:
            process = cluster.daemons.running[NAME].process
            cluster.daemons.end(NAME, 30.0)
            assert process.returncode == 0  # it ends when it is asked to, and not by a fault


def as_kept(raw: Json) -> Json:
    """An object without what the API server adds to all, its keys in order, as the API server sends them."""
    added = {"uid", "creationTimestamp", "generation", "managedFields", "resourceVersion", "name"}
    metadata = {key: value for key, value in raw["metadata"].items() if key not in added}
    return json.loads(json.dumps({**raw, "metadata": metadata}, sort_keys=True))


def test_every_example_is_taken_and_changed_in_intended_fields_only(
    webhook: Webhook, shared_data: Path
) -> None:
    examples = {key: raw for key, raw in read_examples(shared_data).items() if is_argo_object(raw)}
    assert len(examples) > 150
    options = webhook.config.plan_options(Mode.BINDER, "stowplan")

    # Nobody asks the webhook about objects of another namespace.
    plain = webhook.verdicts(list(examples.values()), "default")
    reviewed = webhook.verdicts(list(examples.values()), webhook.namespace)

    refused = [said for said in plain if isinstance(said, str)]
    assert [said for said in reviewed if isinstance(said, str)] == refused
    assert len(refused) < 5
    changed = 0
    for (key, raw), kept in zip(examples.items(), reviewed, strict=True):
        if isinstance(kept, str):
            continue
        got = as_kept(kept)
        place = {"namespace": webhook.namespace} if KINDS[raw["kind"]].is_namespaced else {}
        sent = {**raw, "metadata": {**raw["metadata"], **place}}
        assert got == as_kept(dict(plan_object(sent, options).result)), key
        for pointer in differences(as_kept(sent), got):
            # Nothing went, and what came is a plan's; an affinity and its like are added whole.
            assert INTENDED.fullmatch(pointer) or INTENDED.match(f"{pointer}/"), key
        changed += got != as_kept(sent)
    assert changed > 150
    assert webhook.counted("mutate", "failed") == webhook.counted("validate", "refused") == 0


def test_what_crashes_argo_s_controller_is_refused_with_the_field(cluster: Cluster, webhook: Webhook) -> None:
    wrong = json.loads(json.dumps(workflow(pod("main"), name="wrong")))
    wrong["metadata"] = {"name": "wrong"}
    wrong["spec"]["templates"][0]["inputs"] = {"parameters": [{"name": False, "value": "3"}]}
    before = argo.restarts(cluster.plane)

    with pytest.raises(Invalid) as refused:
        webhook.create(wrong, dry_run=False)

    message = str(refused.value)
    assert 'admission webhook "workflows.validate.stowplan.io" denied the request' in message
    assert "spec.templates[0].inputs.parameters[0].name is False; write text" in message
    assert webhook.counted("validate", "refused") == 1
    assert argo.restarts(cluster.plane) == before


def test_templates_are_planned_when_they_are_made_and_changed_and_known_a_moment_later(
    webhook: Webhook,
) -> None:
    template = workflow(pod("leaf"), kind="WorkflowTemplate", name="lib", entrypoint="leaf")
    template["metadata"] = {"name": "lib"}
    assert webhook.create(template, dry_run=False)["spec"]["schedulerName"] == "stowplan"
    # What comes before a task of that template has the rank of both, once the template is known.
    borrowed = {"name": "a", "depends": "first", "templateRef": {"name": "lib", "template": "leaf"}}
    borrower = workflow(dag("main", task("first", "own"), borrowed), pod("own"))
    borrower["metadata"] = {"name": "borrower"}

    def is_known() -> bool:
        own = webhook.create(borrower)["spec"]["templates"][1]
        return own.get("metadata", {}).get("annotations", {}).get(RANK) == "120.0"

    wait_for("the template is known", is_known, 30.0)
    # Its author adds a template: a whole list is replaced, and planned again. A label is no reason to ask.
    changed = webhook.change(
        WORKFLOW_TEMPLATES,
        "lib",
        {"spec": {"templates": [pod("leaf"), dag("main", task("a"))], "entrypoint": "main"}},
    )
    assert changed["spec"]["templates"][0]["metadata"]["annotations"][RANK] == "60.0"
    asked = webhook.counted("mutate", "planned") + webhook.counted("mutate", "unchanged")
    webhook.change(WORKFLOW_TEMPLATES, "lib", {"metadata": {"labels": {"a": "b"}}})
    assert webhook.counted("mutate", "planned") + webhook.counted("mutate", "unchanged") == asked
    # What Argo's controller is configured with is known, and nothing works in a lesser way.
    status = json.loads(webhook.ask("/v1/status"))
    assert status["controller"]["workflow_defaults"] == {"serviceAccountName": SERVICE_ACCOUNT}
    assert status["degraded"] == {}


@pytest.mark.parametrize("webhook", [(Mode.BINDER, {}, {"timeout_s": 1})], ids=["binder"], indirect=True)
def test_a_webhook_that_is_killed_or_hangs_stops_nobody(cluster: Cluster, webhook: Webhook) -> None:
    plain = workflow(pod("leaf"))
    plain["metadata"] = {"name": "plain"}
    assert webhook.create(plain)["spec"]["schedulerName"] == "stowplan"

    process = cluster.daemons.running[NAME].process
    process.send_signal(signal.SIGSTOP)
    begun_s = time.monotonic()
    assert "schedulerName" not in webhook.create(plain)["spec"]
    hung_s = time.monotonic() - begun_s
    process.send_signal(signal.SIGCONT)
    # Both paths were waited for, one second each, and no longer.
    assert 1.0 < hung_s < 10.0
    wait_for("it is asked again", lambda: "schedulerName" in webhook.create(plain)["spec"], 30.0)

    cluster.daemons.running[NAME].kill()
    cluster.daemons.forget(NAME)
    begun_s = time.monotonic()
    assert "schedulerName" not in webhook.create(plain)["spec"]
    assert time.monotonic() - begun_s < 5.0

    webhook.start()
    wait_for("it is asked again", lambda: "schedulerName" in webhook.create(plain)["spec"], 30.0)


@pytest.fixture
def priority_classes(client: Client) -> Iterator[None]:
    """The classes that ranks are mapped to."""
    objects = [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            "preemptionPolicy": "Never",
        }
        for name, value in CLASSES.items()
    ]
    api.create_all(client, objects)
    yield
    for name in CLASSES:
        client.delete(PriorityClass, name)


@pytest.mark.parametrize(
    "webhook", [(Mode.EXTENDER, {"priority_classes": list(CLASSES)}, {})], ids=["extender"], indirect=True
)
@pytest.mark.usefixtures("priority_classes")
def test_a_workflow_runs_under_kube_scheduler_with_the_priorities_of_its_ranks(
    client: Client, webhook: Webhook
) -> None:
    argo.prepare_namespace(client, webhook.namespace)
    raw = workflow(
        dag("main", task("first", "early"), task("second", "late", depends="first")),
        pod("early"),
        pod("late"),
    )
    raw["metadata"] = {"generateName": "ranked-"}

    name = argo.submit(client, webhook.namespace, raw)
    done = argo.wait_for_end(client, webhook.namespace, name, 90.0)

    assert argo.phase_of(done) == "Succeeded"
    found = {}
    for item in client.list(Pod, namespace=webhook.namespace):
        node = item.metadata.annotations["workflows.argoproj.io/node-name"].removeprefix(f"{name}.")
        requests = item.spec.containers[-1].resources.requests
        found[node] = (
            item.spec.priorityClassName,
            item.spec.priority,
            item.spec.schedulerName,
            requests["cpu"],
        )
        assert item.metadata.annotations["stowplan.io/origin"] == "generated/ranked"
    assert found == {
        "first": ("stowplan-high", 2000, "default-scheduler", "100m"),
        "second": ("stowplan-low", 1000, "default-scheduler", "100m"),
    }


@pytest.mark.parametrize("webhook", [(Mode.GATE, {}, {})], ids=["gate"], indirect=True)
def test_in_gate_mode_pods_are_made_with_the_gate(client: Client, webhook: Webhook) -> None:
    argo.prepare_namespace(client, webhook.namespace)
    raw = workflow(dag("main", task("only")), pod("leaf"), name="gated")
    raw["metadata"] = {"name": "gated"}
    argo.submit(client, webhook.namespace, raw)
    try:
        wait_for("the pod is there", lambda: list(client.list(Pod, namespace=webhook.namespace)), 60.0)
        (made,) = client.list(Pod, namespace=webhook.namespace)
    finally:
        client.delete(argo.Workflow, "gated", namespace=webhook.namespace)
    assert [gate.name for gate in made.spec.schedulingGates] == [GATE]
    assert made.spec.nodeName is None
    assert made.metadata.annotations[RANK] == "60.0"
