"""Nextflow traces: rows with their traps, the drawn graph, and the dependencies inferred from both."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.errors import InvalidFile
from stowplan.simulate.clusters import load_cluster
from stowplan.simulate.workloads import load_workload
from stowplan.simulate.workloads.nextflow import node_factors, workflow_of
from stowplan.simulate.workloads.nextflow_graph import infer_edges, name_tasks, parse_process_graph
from stowplan.simulate.workloads.nextflow_trace import TraceRow, parse_trace

HEADER = (
    "task_id;hostname;process;tag;name;status;cpus;memory;submit;start;complete;realtime;%cpu;peak_rss;"
    "read_bytes;write_bytes\n"
)


def line(identifier: int, process: str, tag: str, submit: int, complete: int, **other: str) -> str:
    """One line of a trace; times in seconds, the task runs for the second before it completes."""
    fields = {
        "hostname": "n1", "status": "COMPLETED", "cpus": "2", "memory": "1073741824", "realtime": "1000",
        "%cpu": "150.0", "peak_rss": "500000000", "read_bytes": "4096", "write_bytes": "8192", **other,
    }  # fmt: skip
    name = process if tag == "-" else f"{process} ({tag})"
    values = (
        identifier, fields["hostname"], process, tag, name, fields["status"], fields["cpus"],
        fields["memory"], 1000 * submit, 1000 * (complete - 1), 1000 * complete, fields["realtime"],
        fields["%cpu"], fields["peak_rss"], fields["read_bytes"], fields["write_bytes"],
    )  # fmt: skip
    return ";".join(map(str, values)) + "\n"


def graph(*edges: tuple[str, str], operators: tuple[str, ...] = ()) -> str:
    """The Cytoscape elements of a drawn graph; what is no operator is a process."""
    names = list(dict.fromkeys(name for edge in edges for name in edge))
    kinds = {name: "OPERATOR" if name in operators else "PROCESS" for name in names}
    nodes = [f"{{ data: {{ id: '{n}', label: '{n}'}}, classes: '{kinds[n]}' }}," for n in names]
    lines = [f"{{ data: {{ source: '{a}', target: '{b}'}} }}," for a, b in edges]
    drawn = "\n".join(nodes) + "],\nedges: [\n" + "\n".join(lines)
    return "<html> cytoscape elements: {\nnodes: [\n" + drawn + "]}</html>"


def edges_of(trace: str, drawn: str) -> set[tuple[str, str]]:
    rows, _ = parse_trace(HEADER + trace, "t")
    return set(infer_edges(name_tasks(rows), parse_process_graph(drawn, "g")))


# ---- rows -------------------------------------------------------------------------------------------


def test_a_row_has_its_values_in_seconds_and_cores() -> None:
    (row,), notes = parse_trace(HEADER + line(1, "A", "x", 10, 20), "t")
    assert row == TraceRow(
        task_id="1", process="A", tag="x", name="A (x)", node="n1", is_completed=True, cores=2.0,
        memory_bytes=1073741824.0, submit_s=10.0, start_s=19.0, complete_s=20.0, runtime_s=1.0,
        mean_cores=1.5, peak_memory_bytes=5e8, read_bytes=4096.0, written_bytes=8192.0,
    )  # fmt: skip
    assert notes == ()


def test_a_separator_inside_the_tag_is_repaired() -> None:
    (row,), _ = parse_trace(HEADER + line(1, "A", "x:1;y:2;z", 0, 5), "t")
    assert (row.tag, row.name) == ("x:1;y:2;z", "A (x:1;y:2;z)")
    assert row.complete_s == 5.0


def test_a_truncated_line_is_refused() -> None:
    with pytest.raises(InvalidFile, match="t: line 3 has 6 fields, the header 16; the file is truncated"):
        parse_trace(HEADER + line(1, "A", "x", 0, 5) + "2;n1;A;x;A (x);COMPLETED\n", "t")


def test_rounded_values_are_refused_with_what_to_do() -> None:
    with pytest.raises(
        InvalidFile, match=r"memory is '2\.3 GB', not a raw number; run Nextflow with trace\.raw = true"
    ):
        parse_trace(HEADER + line(1, "A", "x", 0, 5, memory="2.3 GB"), "t")


@pytest.mark.parametrize("written", ["-1", "nan", "inf"])
def test_unusable_numbers_are_refused(written: str) -> None:
    with pytest.raises(InvalidFile, match=f"t: line 2: realtime is '{written}'"):
        parse_trace(HEADER + line(1, "A", "x", 0, 5, realtime=written), "t")


def test_what_did_not_run_is_left_out_and_said() -> None:
    text = HEADER + line(1, "A", "x", 0, 5) + line(2, "A", "y", 0, 5, status="CACHED")
    text += line(3, "A", "z", 0, 5, status="FAILED", realtime="-")
    rows, notes = parse_trace(text, "t")
    assert [row.task_id for row in rows] == ["1"]
    assert notes == (
        "left out: 1 tasks that failed without a run time",
        "left out: 1 tasks that were cached and did not run",
    )
    with pytest.raises(InvalidFile, match="no task in it ran"):
        parse_trace(HEADER + line(2, "A", "y", 0, 5, status="CACHED"), "t")


def test_an_unknown_status_and_a_missing_column_are_refused() -> None:
    with pytest.raises(InvalidFile, match="status is 'DONE'"):
        parse_trace(HEADER + line(1, "A", "x", 0, 5, status="DONE"), "t")
    with pytest.raises(InvalidFile, match=r"has no column 'peak_rss'; add it to trace\.fields"):
        parse_trace(HEADER.replace("peak_rss", "rss") + line(1, "A", "x", 0, 5), "t")


# ---- graph ------------------------------------------------------------------------------------------


def test_operators_are_contracted_and_barriers_kept() -> None:
    drawn = graph(("A", "map"), ("map", "B"), ("A", "groupTuple"), ("groupTuple", "C"), ("B", "C"),
                  operators=("map", "groupTuple"))  # fmt: skip
    assert parse_process_graph(drawn, "g") == {"A": {}, "B": {"A": False}, "C": {"A": True, "B": False}}


def test_a_cycle_of_operators_ends() -> None:
    drawn = graph(("A", "x"), ("x", "y"), ("y", "x"), ("y", "B"), operators=("x", "y"))
    assert parse_process_graph(drawn, "g") == {"A": {}, "B": {"A": False}}


def test_unusable_graphs_are_refused() -> None:
    with pytest.raises(InvalidFile, match="draws no process"):
        parse_process_graph("<html></html>", "g")
    with pytest.raises(InvalidFile, match="names 'B', which is not drawn"):
        parse_process_graph(graph(("A", "B")).replace("id: 'B'", "id: 'Z'"), "g")


# ---- dependencies -----------------------------------------------------------------------------------


def test_one_task_feeds_all_and_all_feed_one() -> None:
    trace = (
        line(1, "A", "-", 0, 10)
        + line(2, "B", "x", 12, 20)
        + line(3, "B", "y", 12, 30)
        + line(4, "C", "-", 32, 40)
    )
    assert edges_of(trace, graph(("A", "B"), ("B", "C"))) == {
        ("A", "B (x)"), ("A", "B (y)"), ("B (x)", "C"), ("B (y)", "C"),
    }  # fmt: skip


def test_only_what_was_complete_can_be_a_parent() -> None:
    trace = line(1, "A", "x", 0, 10) + line(2, "A", "y", 0, 90) + line(3, "C", "-", 12, 20)
    assert edges_of(trace, graph(("A", "C"))) == {("A (x)", "C")}


def test_tags_pair_tasks_and_names_of_samples_do_too() -> None:
    trace = line(1, "A", "s1", 0, 10) + line(2, "A", "s2", 0, 10) + line(3, "B", "s1", 12, 20)
    trace += line(4, "B", "s2", 12, 20) + line(5, "C", "s1_L7", 22, 30) + line(6, "C", "s2_L7", 22, 30)
    assert edges_of(trace, graph(("A", "B"), ("B", "C"))) == {
        ("A (s1)", "B (s1)"), ("A (s2)", "B (s2)"), ("B (s1)", "C (s1_L7)"), ("B (s2)", "C (s2_L7)"),
    }  # fmt: skip


def test_a_barrier_collects_despite_tags() -> None:
    drawn = graph(("A", "groupTuple"), ("groupTuple", "B"), operators=("groupTuple",))
    trace = (
        line(1, "A", "s1", 0, 10)
        + line(2, "A", "s2", 0, 15)
        + line(3, "B", "s1", 17, 20)
        + line(4, "B", "s2", 17, 20)
    )
    assert edges_of(trace, drawn) == {(f"A ({a})", f"B ({b})") for a in ("s1", "s2") for b in ("s1", "s2")}


def test_a_barrier_that_time_contradicts_is_none() -> None:
    drawn = graph(("A", "groupTuple"), ("groupTuple", "B"), operators=("groupTuple",))
    trace = (
        line(1, "A", "s1", 0, 10)
        + line(2, "A", "s2", 0, 50)
        + line(3, "B", "s1", 12, 20)
        + line(4, "B", "s2", 52, 60)
    )
    assert edges_of(trace, drawn) == {("A (s1)", "B (s1)"), ("A (s2)", "B (s2)")}


def test_tasks_without_tags_pair_up_in_order() -> None:
    trace = (
        line(1, "A", "-", 0, 20)
        + line(2, "A", "-", 0, 10)
        + line(3, "B", "-", 12, 15)
        + line(4, "B", "-", 22, 25)
    )
    assert edges_of(trace, graph(("A", "B"))) == {("A #2", "B"), ("A", "B #2")}


def test_an_edge_that_the_drawing_lost_is_found_by_sample_and_time() -> None:
    trace = line(1, "A", "s1", 0, 10) + line(2, "A", "s2", 0, 19) + line(3, "B", "s1", 20, 25)
    assert edges_of(trace, graph(("A", "X"), ("X", "B")) + graph(("A", "X"))) == {("A (s1)", "B (s1)")}


@given(st.data())
def test_no_graph_and_no_times_give_a_cycle(data: st.DataObject) -> None:
    processes = ("A", "B", "C")
    trace = ""
    for number in range(data.draw(st.integers(1, 12))):
        submit = data.draw(st.integers(0, 12))
        complete = submit + 1 + data.draw(st.integers(0, 3))
        process, tag = (
            data.draw(st.sampled_from(processes)),
            data.draw(st.sampled_from(("-", "s1", "s2", "s1_x"))),
        )
        trace += line(number, process, tag, submit, complete)
    drawn = data.draw(
        st.lists(st.tuples(st.sampled_from(processes), st.sampled_from((*processes, "groupTuple"))))
    )
    rows, _ = parse_trace(HEADER + trace, "t")
    named = name_tasks(rows)
    before = parse_process_graph(
        graph(("A", "B"), ("groupTuple", "C"), *drawn, operators=("groupTuple",)), "g"
    )
    workflow = workflow_of("w", named, before, {})  # refuses cycles, dangling and double edges
    for parent, child in workflow.edges:
        assert named[parent].complete_s <= named[child].submit_s + 1.0


# ---- whole workloads --------------------------------------------------------------------------------


def test_a_trace_with_its_graph_is_one_workflow(tmp_path: Path) -> None:
    trace = tmp_path / "1-trace.csv"
    trace.write_text(
        HEADER + line(1, "A", "-", 0, 10) + line(2, "B", "-", 12, 20, peak_rss="-", **{"%cpu": "-"})
    )
    (tmp_path / "1-dag.html").write_text(graph(("A", "B")))
    workload = load_workload(trace)
    (submission,) = workload.submissions
    assert submission.workflow.edges == (("A", "B"),)
    first, second = submission.workflow.tasks
    assert dict(first.shape.requests) == {"cpu": 2000, "memory": 1 << 30}
    assert first.work.alone_s == pytest.approx(1.0)
    assert second.work.anon_bytes == 256 << 20
    assert any("not measured" in note and "1 of 2" in note for note in workload.notes)
    assert any("inferred from" in note for note in workload.notes)


def test_a_trace_alone_arrives_as_recorded(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text(HEADER + line(1, "A", "-", 100, 110) + line(2, "B", "-", 112, 120))
    workload = load_workload(trace)
    assert [(s.time_s, s.workflow.name) for s in workload.submissions] == [(0.0, "1-A"), (12.0, "2-B")]
    assert any("no process graph" in note for note in workload.notes)


def test_node_speeds_are_medians_over_the_same_work() -> None:
    slow = "".join(line(n, "A", f"s{n}", 0, 10, hostname="slow", realtime="6000") for n in range(3))
    fast = "".join(line(n, "A", f"s{n}", 0, 10, hostname="fast", realtime="2000") for n in range(3, 6))
    rows, _ = parse_trace(HEADER + slow + fast, "t")
    assert node_factors([name_tasks(rows)]) == {"fast": 0.5, "slow": 1.5}  # the median of both is 4 s


def test_nodes_have_what_they_were_seen_to_hold(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    # Tasks start a second before they complete: the first two overlap, the third begins as they end.
    trace.write_text(
        HEADER + line(1, "A", "a", 0, 10) + line(2, "A", "b", 0, 10) + line(3, "A", "c", 0, 11, cpus="3")
    )
    cluster = load_cluster(trace)
    (node,) = cluster.nodes
    assert dict(node.allocatable) == {"cpu": 4000, "memory": 2 << 30, "pods": 110}
    assert any("lower bound" in note for note in cluster.notes)
