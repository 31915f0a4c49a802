"""The book of workflows beside the real Argo controller, with pods that kube-scheduler places.

A workflow runs twice. The first run is all new; the second is foretold from the history of the first.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from lightkube import Client

from stowplan.core.domain import ClassKey, ClusterState, TaskStatus
from stowplan.kube.api.access import Access, from_kubeconfig
from stowplan.kube.api.client import ApiClient
from stowplan.kube.api.reflection import Identity
from stowplan.kube.api.resources import WORKFLOW_TEMPLATES, WORKFLOWS
from stowplan.kube.argo import Shelf, open_object
from stowplan.kube.live.feed import ClusterFeed
from stowplan.observe.history import Execution, ExecutionStatus, HistoryStore, accuracy_of_runs
from stowplan.serve.keeping import KeptHistory
from stowplan.serve.sections import HistoryConfig
from stowplan.serve.workflows.book import WorkflowBook
from stowplan.serve.workflows.document import WorkflowReader
from stowplan.serve.workflows.settings import BookSettings
from stowplan.serve.workflows.tracking import Tracking
from testbed import argo
from testbed.cluster import Cluster
from testbed.images import image_name

RUN_S = 150.0
LIST = "/tmp/names"  # noqa: S108 - in the container

Json = dict[str, Any]


def container(seconds: float, then: str = "true", **fields: object) -> Json:
    return {
        "container": {
            "image": image_name("busybox"),
            "imagePullPolicy": "Never",
            "command": ["sh", "-c"],
            "args": [f"sleep {seconds}; {then}"],
            "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
        },
        **fields,
    }


# A list, a fan-out as wide as the list, a task that fails first, a branch that is never taken, and an end.
TEMPLATE: Json = {
    "apiVersion": "argoproj.io/v1alpha1",
    "kind": "WorkflowTemplate",
    "metadata": {"name": "diamond"},
    "spec": {
        "entrypoint": "main",
        "templates": [
            {
                "name": "main",
                "dag": {
                    "tasks": [
                        {"name": "list", "template": "list"},
                        {
                            "name": "each",
                            "template": "work",
                            "depends": "list",
                            "withParam": "{{tasks.list.outputs.parameters.names}}",
                        },
                        {"name": "shaky", "template": "shaky", "depends": "list"},
                        {
                            "name": "never",
                            "template": "work",
                            "depends": "list",
                            "when": "{{tasks.list.outputs.parameters.names}} == nothing",
                        },
                        {"name": "end", "template": "work", "depends": "each && shaky"},
                    ]
                },
            },
            {
                "name": "list",
                "outputs": {"parameters": [{"name": "names", "valueFrom": {"path": LIST}}]},
                **container(3, f"""echo '["x","y","z"]' > {LIST}"""),
            },
            {"name": "work", **container(4)},
            {"name": "shaky", "retryStrategy": {"limit": "2"}, **container(3, "[ {{retries}} -ge 1 ]")},
        ],
    },
}
RUN: Json = {
    "apiVersion": "argoproj.io/v1alpha1",
    "kind": "Workflow",
    "metadata": {"generateName": "diamond-"},
    "spec": {
        "workflowTemplateRef": {"name": "diamond"},
        "serviceAccountName": "workflow",
    },
}


@pytest.fixture
def access(cluster: Cluster) -> Access:
    return from_kubeconfig([cluster.site.kubeconfig])


@asynccontextmanager
async def running(*works: Coroutine[Any, Any, object]) -> AsyncGenerator[None]:
    tasks = [asyncio.create_task(work) for work in works]
    try:
        yield
        for task in tasks:
            assert not task.done(), task.exception()
    finally:
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def until(what: str, look: Callable[[], object], within_s: float) -> None:
    begin_s = time.monotonic()
    while not look():
        assert time.monotonic() - begin_s < within_s, what
        await asyncio.sleep(0.02)


class Bench:
    """A feed and a book with a history of its own, in step with the cluster."""

    def __init__(self, client: ApiClient, url: str, namespace: str) -> None:
        self.client = client
        self.namespace = namespace
        self.feed = ClusterFeed(client, ClusterState())
        self.history = KeptHistory(HistoryConfig(url=url))
        settings = BookSettings(refit_s=0.5, tick_s=0.1)
        self.book = WorkflowBook(client, self.feed, history=self.history, history_url=url, settings=settings)
        self.versions: list[bytes] = []
        self._listen_in()
        self.widths: list[int | None] = []
        self.remaining_s: list[float] = []
        self.states: dict[str, set[str]] = {}
        self.sources: dict[str, str] = {}

    def _listen_in(self) -> None:
        """Keep every version of a workflow that the watch tells."""
        following = self.book._following
        take = following.set

        def keep(identity: Identity, item: bytes) -> None:
            if identity.namespace == self.namespace:
                self.versions.append(item)
            take(identity, item)

        following.set = keep

    async def submit(self) -> str:
        created = msgspec.json.decode(await self.client.create(WORKFLOWS, RUN, self.namespace))
        return created["metadata"]["name"]

    def look(self, name: str) -> None:
        """Note what can be seen of a workflow now."""
        explained = self.book.explain_workflow(self.namespace, name)
        if explained is None or not explained["tasks"]:
            return
        rows = {row["task"]: row for row in explained["tasks"]}
        self.remaining_s.append(explained["remaining_work_s"])
        self.widths.append(rows[".each#*"]["instances"])
        for place, row in rows.items():
            self.states.setdefault(place, set()).add(row["state"])
            self.sources.setdefault(place, row["expected"]["source"])

    async def run(self) -> tuple[str, str]:
        """Run the workflow to its end; return its name and phase."""
        self.widths, self.remaining_s, self.states, self.sources = [], [], {}, {}
        name = await self.submit()

        def is_over() -> bool:
            self.look(name)
            explained = self.book.explain_workflow(self.namespace, name)
            return explained is not None and explained["phase"] in ("Succeeded", "Failed", "Error")

        await until(f"workflow {name} is over", is_over, RUN_S)
        explained = self.book.explain_workflow(self.namespace, name)
        assert explained is not None
        return name, explained["phase"]

    async def executions(self, name: str) -> list[Execution]:
        """What the history has of a run, once every pod of it has an end there."""
        store = self.history.store
        assert store is not None
        found: list[Execution] = []

        def are_written() -> bool:
            run = store.workflow(self.namespace, name)
            found[:] = store.executions_of_workflow(run.workflow_uid) if run is not None else []
            return len(found) == 7 and all(each.status is not None for each in found)

        await until(f"the pods of {name} are in the history", are_written, 30.0)
        return found


@pytest.mark.timeout(400)  # two workflows of seven pods each, on a machine that may be busy
def test_the_second_run_of_a_workflow_is_foretold_from_the_first(
    access: Access, client: Client, namespace: str, tmp_path: Path
) -> None:
    argo.prepare_namespace(client, namespace)
    url = f"sqlite:///{tmp_path / 'history.db'}"

    async def twice() -> None:
        async with ApiClient(access) as api:
            bench = Bench(api, url, namespace)
            await api.create(WORKFLOW_TEMPLATES, TEMPLATE, namespace)
            async with running(bench.feed.run(), bench.history.run(), bench.book.run()):
                await until("all is known", lambda: bench.book.is_settled and bench.history.store, 30.0)
                await first_run(bench)
                await second_run(bench)
            store = HistoryStore.open(url)
            try:
                await restarted(api, url, namespace, store)
            finally:
                store.close()

    asyncio.run(twice())


async def first_run(bench: Bench) -> None:
    name, phase = await bench.run()
    assert phase == "Succeeded"
    assert len(bench.versions) > 5
    replayed(bench.versions, bench.namespace)
    # How wide the fan-out is shows as soon as the list is there.
    assert bench.widths[0] is None
    assert bench.widths[-1] == 3
    assert bench.remaining_s[0] > bench.remaining_s[-1] == 0.0
    assert bench.states[".never"] <= {"waiting", "pending", "skipped"}
    assert {"waiting", "running", "done"} <= bench.states[".each#*"]
    assert {"waiting", "running", "done"} <= bench.states[".end"]
    executions = await bench.executions(name)
    for each in executions:
        times = [each.ready_s, each.started_s, each.finished_s]
        assert None not in times
        assert times == sorted(times)  # type: ignore[type-var]
        assert each.placed_s is not None
        assert each.node_class
        assert each.expected_source is not None
        assert each.expected_source not in ("item", "class")
    ends = sorted((each.key.place, each.item, each.attempt, each.status) for each in executions)
    done = ExecutionStatus.DONE
    assert ends == [
        (".each", "0", 0, done),
        (".each", "1", 0, done),
        (".each", "2", 0, done),
        (".end", "", 0, done),
        (".list", "", 0, done),
        (".shaky", "", 0, ExecutionStatus.FAILED),
        (".shaky", "", 1, done),
    ]
    assert {each.key.origin for each in executions} == {"template/diamond"}
    await until("durations are learnt", lambda: bench.book.status["duration_classes"], 30.0)
    key = ClassKey("template/diamond", "work", ".end")
    await until(
        "the last task too", lambda: bench.book._expectations.model.expected(key).source == "class", 30.0
    )


def picture(tracking: Tracking) -> object:
    """What policies see of a workflow."""
    progress = tracking.progress
    is_open = progress.status < TaskStatus.DONE
    return (
        progress.status.tolist(),
        progress.unfinished_parents.tolist(),
        progress.remaining_work_s,
        progress.upward_rank_s[is_open].tolist(),
        [tracking.view(task) for task in range(len(tracking.index))],
    )


def replayed(versions: list[bytes], namespace: str) -> None:
    """However many versions were seen before: the progress is that of the last."""
    placed = {**TEMPLATE, "metadata": {**TEMPLATE["metadata"], "namespace": namespace}}
    shelf, step_by_step = Shelf([open_object(placed)]), WorkflowReader()
    tracking: Tracking | None = None
    for version in versions:
        reading = step_by_step.read(version, shelf, lambda _: lambda node: 1.0 + node.index, 0.0)
        tracking = reading.tracking or tracking
        assert tracking is not None, reading.problem
        for fact in reading.facts:
            fact(tracking)
        tracking.settle()
        at_once = WorkflowReader().read(version, shelf, lambda _: lambda node: 1.0 + node.index, 0.0)
        assert at_once.tracking is not None
        assert picture(tracking) == picture(at_once.tracking)
    assert tracking is not None
    assert tracking.progress.is_finished


async def second_run(bench: Bench) -> None:
    name, phase = await bench.run()
    assert phase == "Succeeded"
    await bench.executions(name)
    assert {source for place, source in bench.sources.items() if place != ".never"} == {"class"}
    newest = bench.book.accuracy()[0]
    assert newest.workflow == f"{bench.namespace}/{name}"
    # On a busy machine a pod may have a node before its workflow has been read.
    assert newest.tasks == 6
    assert newest.from_own_runs >= 4
    assert newest.median_error <= 0.25
    store = bench.history.store
    assert store is not None
    assert accuracy_of_runs(store)[0].median_error == pytest.approx(newest.median_error)
    # Before it began, all of it was before it: six tasks of three to five seconds.
    assert 15.0 <= max(bench.remaining_s) <= 40.0


async def restarted(api: ApiClient, url: str, namespace: str, store: HistoryStore) -> None:
    """A book that begins when all is over writes nothing twice."""
    rows = [run for run in store.newest_workflows(10) if run.namespace == namespace]
    assert len(rows) == 2
    executions = [each for run in rows for each in store.executions_of_workflow(run.workflow_uid)]
    again = Bench(api, url, namespace)
    async with running(again.feed.run(), again.history.run(), again.book.run()):
        await until("all is known", lambda: again.book.is_settled and again.history.store, 30.0)
        await until("pods have their class", lambda: again.book.status["pods_without_class"] == 0, 30.0)
        # All of it is told once more ...
        await until("it was written again", lambda: written(again) >= len(executions) + len(rows), 30.0)
    # ... and nothing of these runs has changed.
    assert [each for run in rows for each in store.executions_of_workflow(run.workflow_uid)] == executions
    assert store.newest_workflows(len(rows)) == rows


def written(bench: Bench) -> int:
    return bench.history.status.get("written", 0)  # type: ignore[return-value]
