"""The progress of a workflow, out of the statuses that its controller writes."""

import pytest

from stowplan.kube.argo import domain
from tests.unit.argo.cases import container, dag, steps, task, workflow
from tests.unit.workflows.cases import Followed, compressed, node, seconds, status

DIAMOND = workflow(
    dag(
        "main",
        task("a", "short"),
        task("b", "long", dependencies=["a"]),
        task("c", "short", dependencies=["a"]),
        task("d", "short", dependencies=["b", "c"]),
    ),
    container("short"),
    container("long"),
)
TIMES = seconds(short=10.0, long=60.0)


def test_a_workflow_that_has_not_begun_has_all_of_it_before_it() -> None:
    seen = Followed(DIAMOND, expected_of=TIMES)
    seen.see()
    assert seen.states() == {".a": "PENDING", ".b": "WAITING", ".c": "WAITING", ".d": "WAITING"}
    assert seen.live.progress.remaining_work_s == 90.0
    assert seen.ranks() == {".a": 80.0, ".b": 70.0, ".c": 20.0, ".d": 10.0}


def test_tasks_go_on_as_the_status_says() -> None:
    seen = Followed(DIAMOND, expected_of=TIMES)
    seen.see(status(nodes={"": node("Running", "DAG"), ".a": node("Running")}))
    assert seen.states()[".a"] == "RUNNING"
    assert seen.live.progress.remaining_work_s == 90.0
    seen.see(
        status(
            nodes={
                "": node("Running", "DAG"),
                ".a": node("Succeeded"),
                ".b": node("Running"),
                ".c": node("Pending"),
            }
        )
    )
    assert seen.states() == {".a": "DONE", ".b": "RUNNING", ".c": "PENDING", ".d": "WAITING"}
    assert seen.live.progress.remaining_work_s == 80.0
    assert seen.live.progress.unfinished_parents.tolist() == [0, 0, 0, 2]


def test_the_same_status_again_costs_no_fact_but_the_end() -> None:
    seen = Followed(DIAMOND)
    now = status(nodes={"": node("Running", "DAG"), ".a": node("Succeeded"), ".b": node("Running")})
    seen.see(now)
    facts = seen.facts
    seen.see(now)
    assert seen.facts == facts + 1


def test_compressed_nodes_tell_the_same() -> None:
    now = status(nodes={"": node("Running", "DAG"), ".a": node("Succeeded"), ".b": node("Running")})
    plain, packed = Followed(DIAMOND), Followed(DIAMOND)
    plain.see(now)
    packed.see(compressed(now))
    assert packed.picture() == plain.picture()


def test_nodes_elsewhere_are_told_and_what_was_known_stays() -> None:
    seen = Followed(DIAMOND)
    seen.see(status(nodes={"": node("Running", "DAG"), ".a": node("Succeeded")}))
    before = seen.picture()
    reading = seen.see({"phase": "Running", "offloadNodeStatusVersion": "fnv:1"})
    assert "archive" in reading.nodes_problem
    assert seen.picture() == before
    reading = seen.see({"phase": "Running", "compressedNodes": "KLUv/QQA"})
    assert "zstd" in reading.nodes_problem
    assert seen.picture() == before


@pytest.mark.parametrize("phase", ["Succeeded", "Failed", "Error"])
def test_a_workflow_that_has_ended_has_nothing_left(phase: str) -> None:
    seen = Followed(DIAMOND, expected_of=TIMES)
    seen.see(status(phase, {"": node(phase, "DAG"), ".a": node("Failed")}))
    assert seen.states() == {".a": "FAILED", ".b": "SKIPPED", ".c": "SKIPPED", ".d": "SKIPPED"}
    assert seen.live.progress.remaining_work_s == 0.0
    assert seen.live.progress.is_finished
    assert seen.live.progress.has_failed


def test_a_retried_workflow_goes_back() -> None:
    seen = Followed(DIAMOND, expected_of=TIMES)
    seen.see(status("Failed", {"": node("Failed", "DAG"), ".a": node("Succeeded"), ".b": node("Failed")}))
    seen.see(status("Running", {"": node("Running", "DAG"), ".a": node("Succeeded")}))
    assert seen.states() == {".a": "DONE", ".b": "PENDING", ".c": "PENDING", ".d": "WAITING"}
    assert seen.live.progress.remaining_work_s == 80.0


def test_what_an_ended_template_did_not_begin_is_skipped() -> None:
    inner = workflow(
        dag("main", task("sub", "sub"), task("last", dependencies=["sub"])),
        dag("sub", task("x"), task("y", dependencies=["x"])),
        container("leaf"),
    )
    seen = Followed(inner)
    seen.see(
        status(nodes={"": node("Running", "DAG"), ".sub": node("Failed", "DAG"), ".sub.x": node("Failed")})
    )
    assert seen.states() == {".sub.x": "FAILED", ".sub.y": "SKIPPED", ".last": "PENDING"}
    assert seen.open() == {".last": 1}


@pytest.mark.parametrize("phase", ["Skipped", "Omitted"])
def test_a_template_whose_condition_does_not_hold_is_skipped_whole(phase: str) -> None:
    inner = workflow(
        dag("main", task("a"), task("sub", "sub", dependencies=["a"], when="{{tasks.a.status}} == Failed")),
        steps("sub", [task("x")], [task("y")]),
        container("leaf"),
    )
    seen = Followed(inner)
    seen.see(
        status(nodes={"": node("Running", "DAG"), ".a": node("Succeeded"), ".sub": node(phase, "Skipped")})
    )
    assert seen.states() == {".a": "DONE", ".sub[0].x": "SKIPPED", ".sub[1].y": "SKIPPED"}
    assert seen.live.progress.remaining_work_s == 0.0


def test_memoised_and_skipped_tasks_are_ended() -> None:
    seen = Followed(DIAMOND)
    seen.see(
        status(
            nodes={
                ".a": node("Succeeded", memoizationStatus={"hit": True}),
                ".b": node("Omitted", "Skipped"),
                ".c": node("Skipped", "Skipped"),
            }
        )
    )
    assert seen.states() == {".a": "DONE", ".b": "SKIPPED", ".c": "SKIPPED", ".d": "PENDING"}


def test_between_attempts_a_task_waits() -> None:
    retried = workflow(container("leaf", retryStrategy={"limit": "2"}))
    seen = Followed(retried)
    seen.see(status(nodes={"": node("Running", "Retry"), "(0)": node("Running")}))
    assert seen.states() == {"": "RUNNING"}
    seen.see(status(nodes={"": node("Running", "Retry"), "(0)": node("Failed")}))
    assert seen.states() == {"": "PENDING"}
    seen.see(status(nodes={"": node("Running", "Retry"), "(0)": node("Failed"), "(1)": node("Running")}))
    assert seen.states() == {"": "RUNNING"}
    assert seen.live.progress.remaining_work_s == 1.0
    seen.see(status(nodes={"": node("Succeeded", "Retry"), "(0)": node("Failed"), "(1)": node("Succeeded")}))
    assert seen.states() == {"": "DONE"}


def test_a_template_that_is_tried_again_begins_anew() -> None:
    again = workflow(
        dag("main", task("sub", "sub")),
        dag("sub", task("x"), task("y", dependencies=["x"]), retryStrategy={"limit": "2"}),
        container("leaf"),
    )
    first = {
        "": node("Running", "DAG"),
        ".sub": node("Running", "Retry"),
        ".sub(0)": node("Failed", "DAG"),
        ".sub(0).x": node("Succeeded"),
        ".sub(0).y": node("Failed"),
    }
    seen = Followed(again)
    seen.see(status(nodes=first))
    assert seen.states() == {".sub.x": "DONE", ".sub.y": "FAILED"}
    seen.see(status(nodes={**first, ".sub(1)": node("Running", "DAG"), ".sub(1).x": node("Running")}))
    assert seen.states() == {".sub.x": "RUNNING", ".sub.y": "WAITING"}
    assert seen.open() == {".sub.x": 1, ".sub.y": 1}


def test_a_hook_outlives_what_it_hangs_on() -> None:
    hooked = workflow(
        dag("main", task("sub", "sub", onExit="leaf")),
        dag("sub", task("x")),
        container("leaf"),
        onExit="leaf",
    )
    seen = Followed(hooked)
    ended = {"": node("Succeeded", "DAG"), ".sub": node("Succeeded", "DAG"), ".sub.x": node("Succeeded")}
    seen.see(status(nodes=ended))
    # The root encloses the hook of `sub`, but not its own.
    assert seen.open() == {".onExit": 1}
    seen.see(status(nodes={**ended, "": node("Running", "DAG")}))
    assert seen.open() == {".sub.onExit": 1, ".onExit": 1}


def test_a_daemon_is_over_for_others_as_soon_as_it_is_up() -> None:
    served = workflow(
        dag("main", task("server", "server"), task("use", dependencies=["server"])),
        container("server", daemon=True),
        container("leaf"),
    )
    seen = Followed(served)
    seen.see(status(nodes={".server": node("Running")}))
    assert seen.states() == {".server": "RUNNING", ".use": "WAITING"}
    seen.see(status(nodes={".server": node("Running", daemoned=True)}))
    assert seen.states() == {".server": "DONE", ".use": "PENDING"}


def test_a_task_that_ends_before_its_time_is_on_nobodys_way() -> None:
    seen = Followed(DIAMOND, expected_of=TIMES)
    seen.see(status(nodes={".a": node("Running"), ".b": node("Omitted", "Skipped")}))
    assert seen.ranks() == {".a": 30.0, ".c": 20.0, ".d": 10.0}


def test_names_that_are_not_of_the_graph_are_passed_over() -> None:
    seen = Followed(DIAMOND)
    seen.see(status(nodes={".a": node("Succeeded"), ".gone": node("Running"), " ?": node("Running")}))
    assert seen.states() == {".a": "DONE", ".b": "PENDING", ".c": "PENDING", ".d": "WAITING"}


def test_joins_that_stand_for_many_edges_end_with_what_is_before_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    many = workflow(
        steps("main", [task(f"a{n}") for n in range(4)], [task(f"b{n}") for n in range(4)], [task("c")]),
        container("leaf"),
    )
    plain = Followed(many)
    plain.see()
    monkeypatch.setattr(domain, "_MOST_EDGES", 8)
    joined = Followed(many)
    first = {f"[0].a{n}": node("Succeeded") for n in range(4)}
    for nodes in ({}, {"[0].a0": node("Running")}, first, {**first, "[1].b0": node("Failed")}):
        for seen in (plain, joined):
            seen.see(status(nodes=nodes))
        assert joined.states() == plain.states()
        assert joined.ranks() == plain.ranks()
        assert joined.live.progress.remaining_work_s == plain.live.progress.remaining_work_s
    assert joined.live.index.joins
    assert not plain.live.index.joins
