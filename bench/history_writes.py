"""The history's write path: what a `put` costs the scheduler, and how many records a second the store takes.

The cost of `put` is measured while somebody else holds the database, the worst time there is: the queue takes
what the disk does not. Written are executions with all their facts, in transactions of 500 to SQLite on this
machine's disk; and the same ones again, which is what a restart does.
"""

import sqlite3
import statistics
import tempfile
from pathlib import Path
from time import perf_counter

from bench.harness import Row, measure, median_ci95
from stowplan.observe.history import (
    ClassKey,
    Execution,
    ExecutionStatus,
    HistoryStore,
    HistoryWriter,
    Neighbour,
    QueueLimits,
    WorkShape,
)

BATCH = 500


def execution(number: int) -> Execution:
    """Return one pod's whole life, of one of 50 classes."""
    key = ClassKey("variant-calling", f"step-{number % 50}", f"/step-{number % 50}")
    return Execution(
        pod_uid=f"0d6e2f4a-0000-4000-8000-{number:012d}",
        key=key,
        namespace="lab",
        pod=f"variant-calling-{number}",
        workflow_uid=f"workflow-{number // 100}",
        node=f"node-{number % 40}",
        node_class="c5.xlarge",
        shape=WorkShape("bwa:0.7", "bwa mem -t 4", 4.0, 8 * 2**30),
        ready_s=1.7e9 + number,
        placed_s=1.7e9 + number + 0.5,
        started_s=1.7e9 + number + 3.0,
        finished_s=1.7e9 + number + 60.0,
        status=ExecutionStatus.DONE,
        exit_code=0,
        peak_memory_bytes=5 * 2**30,
        cpu_time_s=140.0,
        neighbours=(Neighbour(key, 3),),
    )


def put_times_s(url: str, file: Path, records: list[Execution]) -> list[float]:
    """Return the seconds of each `put` while the database is held by somebody else."""
    store = HistoryStore.open(url, lock_wait_s=0.05)
    holder = sqlite3.connect(file, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    writer = HistoryWriter(store, lambda: 1.7e9, limits=QueueLimits(records=len(records)))
    writer.start()
    times_s: list[float] = []
    for record in records:
        start_s = perf_counter()
        writer.put(record)
        times_s.append(perf_counter() - start_s)
    holder.execute("ROLLBACK")
    holder.close()
    state = writer.stop(60.0)
    store.close()
    if state.written != len(records):
        raise RuntimeError(f"the writer lost records: {state}")
    return times_s


def run(*, quick: bool) -> list[Row]:
    """Measure; `quick` writes little."""
    count = 1000 if quick else 10_000
    repeats = 2 if quick else 7
    records = [execution(number) for number in range(count)]

    def write(url: str) -> None:
        store = HistoryStore.open(url)
        for start in range(0, count, BATCH):
            store.write(records[start : start + BATCH], 1.7e9)
        store.close()

    with tempfile.TemporaryDirectory() as folder:
        numbers = iter(range(10**6))
        first = measure(lambda: write(f"sqlite:///{folder}/{next(numbers)}.db"), repeats=repeats)
        again = measure(lambda: write(f"sqlite:///{folder}/0.db"), repeats=repeats)
        file = Path(folder) / "0.db"
        size_bytes = file.stat().st_size
        puts_s = put_times_s(f"sqlite:///{file}", file, records)
    p99_s = statistics.quantiles(puts_s, n=100)[98]
    return [
        Row.exact(
            1e6 * p99_s, name="history/put-p99", what="put while the database is locked, p99", unit="µs"
        ),
        Row.of(
            median_ci95([1e6 * s for s in puts_s]), name="history/put", what="the same, median", unit="µs"
        ),
        Row.exact(
            count / first.median,
            name="history/write",
            what=f"new executions, in {BATCH}s, SQLite",
            unit="rows/s",
        ),
        Row.exact(
            count / again.median, name="history/write-again", what="the same ones once more", unit="rows/s"
        ),
        Row.exact(size_bytes / count, name="history/row-size", what="an execution on disk", unit="bytes"),
    ]
