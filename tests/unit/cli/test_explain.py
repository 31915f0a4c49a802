"""`stowplan explain` and `stowplan replay`, on a history that a recorder wrote and on a server's answers."""

import asyncio
import json
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from stowplan.cli.process import run
from stowplan.core.domain import PodRemoved
from stowplan.observe.history import ClassKey, Execution, ExecutionStatus, HistoryStore, WorkflowRun
from stowplan.serve.health import Checks
from stowplan.serve.http import HttpFace, listening, make_app
from stowplan.serve.record.answers import pod_answer, workflow_answer
from tests.recorder_cases import Small, ids_of
from tests.unit.argo.cases import container, dag, task, workflow
from tests.unit.workflows.cases import T0, running, status, task_pod
from tests.unit.workflows.live import Live


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A history with a pod that waited and was placed, one that never can be, and a workflow."""
    path = tmp_path_factory.mktemp("history") / "history.db"
    store = HistoryStore.open(f"sqlite:///{path}")
    small = Small(store)
    first, second, huge = small.task("first", 4000), small.task("second", 3000), small.task("huge", 9000)
    small.cycle(0.0, first)
    small.cycle(1.0, second, huge)
    small.state.apply(PodRemoved("lab/first"))
    small.running.pop("lab/first").pending.progress.done(0)
    small.cycle(2.0, second, huge)
    small.close()
    store.write(
        [
            WorkflowRun(workflow_uid="u", namespace="lab", workflow="w", phase="Succeeded", started_s=1.0),
            Execution(
                pod_uid="uid-first", key=ClassKey("o", "t", "/first"), namespace="lab", pod="first",
                workflow_uid="u", node="a", started_s=1001.0, finished_s=1007.0, status=ExecutionStatus.DONE,
            ),
        ],
        0.0,
    )  # fmt: skip
    store.close()
    return path


@pytest.fixture
def url(file: Path) -> str:
    return f"sqlite:///{file}"


def lines(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """What stands in a table of two columns, by what stands left."""
    out = capsys.readouterr().out
    rows = [line.split("  ", 1) for line in out.splitlines() if "  " in line]
    return {row[0].strip(): row[1].strip() for row in rows}


def test_a_pod_of_the_history(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "first", "-n", "lab", "--history", url]) == 0
    told = lines(capsys)
    assert told["could take it"] == "1 nodes"
    assert told["refused the rest"] == "1 NodeResourcesFit"
    assert told["foretold"] == "5 s by the policy"
    assert told["took"] == "6 s (+20 % against what was foretold)"
    assert told["ended"] == "done"
    assert told["decided"].startswith("1970-01-01 00:16:40 UTC by srpt")


def test_decisions_stand_in_order_waits_too(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "pod/second", "-n", "lab", "--history", url, "-o", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [one["outcome"] for one in answer["decisions"]] == ["waits", "placed"]
    assert "NodeResourcesFit" in answer["decisions"][0]["reason"]
    assert run(["explain", "pod/huge", "-n", "lab", "--history", url]) == 0
    assert "on no node" in capsys.readouterr().out


def test_a_workflow_of_the_history(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "w", "-n", "lab", "--history", url]) == 0
    out = capsys.readouterr().out
    assert "lab/w: Succeeded, 1 done" in out
    (row,) = [line for line in out.splitlines() if line.startswith("first")]
    assert row.split() == ["first", "done", "a", "5", "s", "6", "s", "–", "first"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["explain", "nobody", "-n", "lab"], "knows no pod or workflow 'nobody' in namespace 'lab'"),
        (["explain", "node/a"], "names no kind that is known"),
        (["explain", "pod/"], "has no name"),
        (["replay", "nobody"], "has no decision 'nobody'"),
    ],
)
def test_what_is_not_there(
    arguments: list[str], complaint: str, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*arguments, "--history", url]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert complaint in captured.err
    assert captured.err.count("\n") == 1


def test_a_history_that_is_not_there_is_not_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = tmp_path / "no.db"
    for command in (["explain", "x"], ["replay", "x"]):
        assert run([*command, "--history", f"sqlite:///{missing}"]) == 2
        assert "there is no file" in capsys.readouterr().err
        assert run([*command, "--history", "nonsense"]) == 2
        assert "--history is 'nonsense'" in capsys.readouterr().err
    assert not missing.exists()
    assert run(["replay", "x"]) == 2
    assert "name it with --history" in capsys.readouterr().err


def test_a_replay(url: str, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = HistoryStore.open(f"sqlite:///{file}")
    decisions = [*ids_of(store, "first"), *ids_of(store, "second"), *ids_of(store, "huge")]
    store.close()
    assert len(decisions) == 4
    for decision in decisions:
        assert run(["replay", decision, "--history", url, "-o", "json"]) == 0
        answer = json.loads(capsys.readouterr().out)
        assert (answer["outcome"], answer["decision"], answer["nodes"]) == ("same", decision, 2)
    assert run(["replay", decisions[0], "--history", url]) == 0
    assert "lab/first: the same again, to the last bit" in capsys.readouterr().out


@pytest.fixture
def live() -> Live:
    """Workflows that run, of which the history knows nothing."""
    return Live()


@pytest.fixture
def server(file: Path, live: Live) -> Iterator[str]:
    """The address of a scheduler's HTTP face that answers from the history and from what runs."""
    store = HistoryStore.open(f"sqlite:///{file}")

    async def pod(namespace: str, name: str) -> Mapping[str, object] | None:
        return pod_answer(store, namespace, name)

    async def of_workflow(namespace: str, name: str) -> Mapping[str, object] | None:
        found = live.book.explain_workflow(namespace, name)
        return workflow_answer(store, namespace, name, live=found)

    face = HttpFace(checks=Checks(), registry=CollectorRegistry(), pod=pod, workflow=of_workflow)
    ports: list[int] = []
    has_begun = threading.Event()
    loop = asyncio.new_event_loop()
    end = asyncio.Event()

    async def serve() -> None:
        async with listening(make_app(face), "127.0.0.1", 0) as port:
            ports.append(port)
            has_begun.set()
            await end.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    assert has_begun.wait(30.0)
    yield f"http://127.0.0.1:{ports[0]}"
    loop.call_soon_threadsafe(end.set)
    thread.join(30.0)
    loop.close()
    store.close()


def test_a_running_scheduler_says_the_same(server: str, url: str, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("first", "second", "workflow/w"):
        assert run(["explain", name, "-n", "lab", "--server", server]) == 0
        asked = capsys.readouterr().out
        assert run(["explain", name, "-n", "lab", "--history", url]) == 0
        assert asked == capsys.readouterr().out
    assert run(["explain", "no body", "-n", "lab", "--server", server]) == 2
    assert "knows no pod or workflow 'no body'" in capsys.readouterr().err


def test_a_workflow_that_runs_is_told_with_what_is_not_known_of_it(
    live: Live, server: str, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = workflow(
        dag(
            "main",
            task("list"),
            task("each", depends="list", withParam="{{tasks.list.outputs.result}}"),
            task("mend", depends="list.Failed"),
        ),
        container("leaf"),
    )
    live.show(listed, status("Running"))
    live.tell(running(task_pod(".list"), started_s=T0))
    mend = live.tell(task_pod(".mend"))
    assert run(["explain", "workflow/wf", "-n", "jobs", "--server", server]) == 0
    out = capsys.readouterr().out
    assert "jobs/wf: Running, 1 running, 1 waiting" in out
    told = " ".join(out.split())
    assert "left 2 tasks, 120 s of work, 120 s on the longest path" in told
    assert f"beside the graph {mend.name} (Pending) on no node" in told
    assert (
        "not known yet .each#*: how many there will be is not known yet, {{tasks.list.outputs.result}}"
        in told
    )
    (row,) = [line for line in out.splitlines() if line.startswith(".each#*")]
    assert row.split() == [".each#*", "waiting", "–", "60", "s", "–", ".list", "–"]


def test_a_workflow_that_cannot_be_read_is_told_with_why(
    live: Live, server: str, capsys: pytest.CaptureFixture[str]
) -> None:
    cyclic = workflow(
        dag("main", task("a", dependencies=["b"]), task("b", dependencies=["a"])), container("leaf")
    )
    live.show(cyclic, status("Running"))
    assert run(["explain", "wf", "-n", "jobs", "--server", server]) == 0
    out = capsys.readouterr().out
    assert "wait for each other" in " ".join(out.split())
    assert "foretold" not in out


def test_of_many_open_questions_the_first_are_told(
    live: Live, server: str, capsys: pytest.CaptureFixture[str]
) -> None:
    items = "{{tasks.list.outputs.result}}"
    loops = [task(f"t{number}", depends="list", withParam=items) for number in range(13)]
    live.show(workflow(dag("main", task("list"), *loops), container("leaf")), status("Running"))
    assert run(["explain", "wf", "-n", "jobs", "--server", server]) == 0
    out = capsys.readouterr().out
    assert out.count("how many there will be") == 10
    assert "and 3 more; -o json gives all" in out


def test_nobody_answers(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "x", "--server", "http://127.0.0.1:9"]) == 2
    assert "no scheduler answers" in capsys.readouterr().err
