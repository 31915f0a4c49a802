"""Records of the history's tests."""

from stowplan.observe.history import (
    ClassKey,
    Decision,
    DecisionMode,
    Execution,
    ExecutionStatus,
    Neighbour,
    Observation,
    Snapshot,
    WorkflowRun,
    WorkShape,
)

ALIGN = ClassKey("variant-calling", "align", "/align")
SORT = ClassKey("variant-calling", "sort", "/sort")
SHAPE = WorkShape("bwa:0.7", "bwa mem -t 4", 4.0, 8 * 2**30)


def seen(
    elapsed_s: float,
    *,
    key: ClassKey = ALIGN,
    run: str = "w1",
    seen_s: float = 1000.0,
    is_complete: bool = True,
    item: str = "",
    node_class: str = "",
    shape: WorkShape | None = None,
) -> Observation:
    return Observation(
        key=key,
        elapsed_s=elapsed_s,
        run=run,
        seen_s=seen_s,
        is_complete=is_complete,
        item=item,
        node_class=node_class,
        shape=shape,
    )


def execution(
    pod_uid: str = "pod-1",
    *,
    key: ClassKey = ALIGN,
    started_s: float | None = 110.0,
    finished_s: float | None = 150.5,
    status: ExecutionStatus | None = ExecutionStatus.DONE,
    workflow_uid: str | None = "wf-1",
) -> Execution:
    """A whole life, every column with a value of its own."""
    return Execution(
        pod_uid=pod_uid,
        key=key,
        namespace="lab",
        pod=f"variant-calling-{pod_uid}",
        workflow_uid=workflow_uid,
        item="3",
        attempt=1,
        node="n7",
        node_class="c5.xlarge",
        shape=SHAPE,
        ready_s=100.25,
        placed_s=100.5,
        started_s=started_s,
        finished_s=finished_s,
        status=status,
        exit_code=0,
        reason="Completed",
        peak_memory_bytes=5 * 2**30,
        cpu_time_s=140.125,
        read_bytes=7 * 10**9,
        written_bytes=3,
        neighbours=(Neighbour(SORT, 2), Neighbour(ALIGN, 1)),
        expected_s=42.5,
        expected_source="class",
    )


def decision(decision_id: str = "d-1", *, decided_s: float = 100.4, snapshot: str | None = None) -> Decision:
    return Decision(
        decision_id=decision_id,
        decided_s=decided_s,
        policy="heft",
        policy_version="1",
        mode=DecisionMode.SHADOW,
        pod_uid="pod-1",
        namespace="lab",
        pod="variant-calling-pod-1",
        snapshot_sha256=snapshot,
        node="n7",
        candidates=3,
        refused={"NodeResourcesFit": 4},
        expected_s=40.0,
        expected_low_s=30.0,
        expected_high_s=55.0,
        expected_source="class",
        runner_up="n2",
        margin=0.125,
        explanation={"contributions": [["finish", -40.0]], "umlaut": "Größe"},
    )


def snapshot(sha256: str = "5e1f", *, taken_s: float = 100.0, parent: str | None = None) -> Snapshot:
    return Snapshot(
        sha256=sha256, format="test/1", content=b"\x00\xff bytes", taken_s=taken_s, parent_sha256=parent
    )


def workflow(
    phase: str = "Running", *, workflow_uid: str = "wf-1", finished_s: float | None = None
) -> WorkflowRun:
    return WorkflowRun(
        workflow_uid=workflow_uid,
        namespace="lab",
        workflow="variant-calling-x7",
        origin="variant-calling",
        phase=phase,
        submitted_s=90.0,
        started_s=91.0,
        finished_s=finished_s,
    )
