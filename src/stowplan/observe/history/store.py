"""The history in its database: records in, and the questions that are asked of them.

Every call here waits for the disk or the network. The scheduler writes through `HistoryWriter`, which has a
thread for that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import sqlalchemy as sa

from stowplan.errors import InvalidInput
from stowplan.observe.history.engine import Database
from stowplan.observe.history.migrate import migrate
from stowplan.observe.history.observations import Observation
from stowplan.observe.history.reading import (
    decision_of,
    execution_of,
    observation_of,
    snapshot_of,
    workflow_of,
)
from stowplan.observe.history.records import (
    Decision,
    Execution,
    ExecutionStatus,
    Record,
    Snapshot,
    WorkflowRun,
)
from stowplan.observe.history.tables import DECISIONS, EXECUTIONS, METADATA, SNAPSHOTS, WORKFLOWS
from stowplan.observe.history.upsert import row_of, statement

__all__ = ["HistoryStore", "Retention"]

_CUT_OFF: Final = (ExecutionStatus.EVICTED.value, ExecutionStatus.NODE_LOST.value)


@dataclass(frozen=True, slots=True)
class Retention:
    """What is kept: records of the last `age_s` seconds, and of them the newest `rows` of each table."""

    age_s: float = 90 * 86400.0
    rows: int = 1_000_000

    def __post_init__(self) -> None:
        """Refuse to keep nothing.

        Raises:
            InvalidInput: a limit is not positive.
        """
        if not (self.age_s > 0.0 and self.rows > 0):
            raise InvalidInput(f"retention of {self.age_s} s and {self.rows} rows; both must be positive")


class HistoryStore:
    """One history. Safe to use from several threads; each call is a transaction."""

    def __init__(self, database: Database) -> None:
        """Use `database`, which has our schema; `open` makes sure of that."""
        self._database = database

    @classmethod
    def open(cls, url: str, *, lock_wait_s: float = 5.0) -> Self:
        """Open the history at `url`, made or brought to this version as needed.

        Args:
            url: `sqlite:///FILE` (relative) or `sqlite:////FILE` (absolute), or `postgresql://USER@HOST/NAME`.
            lock_wait_s: how long to wait for another process that holds it.

        Raises:
            InvalidInput: the URL is unusable.
            HistoryError: see `errors`; the database is as it was before.
        """
        database = Database(url, lock_wait_s=lock_wait_s)
        try:
            with database.writing() as connection:
                migrate(connection, database.where)
        except BaseException:
            database.close()
            raise
        return cls(database)

    @property
    def where(self) -> str:
        """The URL without its password."""
        return self._database.where

    def close(self) -> None:
        """Close the connections."""
        self._database.close()

    def write(self, records: Iterable[Record], now_s: float) -> int:
        """Add `records` in one transaction; return how many. All are written, or none.

        Raises:
            HistoryError: the database fails.
        """
        rows: dict[sa.Table, list[Mapping[str, object]]] = {}
        for record in records:
            table, row = row_of(record, now_s)
            rows.setdefault(table, []).append(row)
        if not rows:
            return 0
        with self._database.writing() as connection:
            for table, of_table in rows.items():
                connection.execute(statement(table, connection.dialect.name), of_table)
        return sum(map(len, rows.values()))

    def prune(self, retention: Retention, now_s: float) -> dict[str, int]:
        """Remove what `retention` does not keep at `now_s`; return the rows removed by table.

        Raises:
            HistoryError: the database fails.
        """
        ages = {
            DECISIONS: DECISIONS.c.decided_s,
            EXECUTIONS: sa.func.coalesce(EXECUTIONS.c.finished_s, EXECUTIONS.c.noted_s),
            WORKFLOWS: sa.func.coalesce(WORKFLOWS.c.finished_s, WORKFLOWS.c.noted_s),
        }
        removed: dict[str, int] = {}
        for table, age in ages.items():
            (key,) = table.primary_key.columns
            surplus = sa.select(key).order_by(age.desc(), key).offset(retention.rows).limit(-1)
            if not self._database.is_sqlite:
                surplus = surplus.limit(None)
            too_old = age < now_s - retention.age_s
            with self._database.writing() as connection:
                done = connection.execute(sa.delete(table).where(sa.or_(too_old, key.in_(surplus))))
                removed[table.name] = done.rowcount
        used = sa.select(DECISIONS.c.snapshot_sha256).where(DECISIONS.c.snapshot_sha256.is_not(None))
        # One that no decision names yet may be about to be named; and all stand on those before them.
        is_young = SNAPSHOTS.c.taken_s >= now_s - min(3600.0, retention.age_s)
        kept = _with_ancestors(sa.or_(is_young, SNAPSHOTS.c.sha256.in_(used)))
        with self._database.writing() as connection:
            unused = sa.delete(SNAPSHOTS).where(SNAPSHOTS.c.sha256.not_in(sa.select(kept.c.sha256)))
            removed[SNAPSHOTS.name] = connection.execute(unused).rowcount
        return removed

    def counts(self) -> dict[str, int]:
        """Return the rows of each table.

        Raises:
            HistoryError: the database fails.
        """
        with self._database.reading() as connection:
            return {
                name: connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
                for name, table in METADATA.tables.items()
            }

    def decision(self, decision_id: str) -> Decision | None:
        """Return a decision, None where it is not kept.

        Raises:
            HistoryError: the database fails.
        """
        found = self._rows(sa.select(DECISIONS).where(DECISIONS.c.decision_id == decision_id))
        return decision_of(found[0]) if found else None

    def decisions_of_pod(self, namespace: str, pod: str, *, most: int = 20) -> list[Decision]:
        """Return the decisions on a pod's name, newest first, at most `most`.

        Raises:
            HistoryError: the database fails.
        """
        query = (
            sa.select(DECISIONS)
            .where(DECISIONS.c.namespace == namespace, DECISIONS.c.pod == pod)
            .order_by(DECISIONS.c.decided_s.desc(), DECISIONS.c.decision_id)
            .limit(most)
        )
        return [decision_of(row) for row in self._rows(query)]

    def snapshot(self, sha256: str) -> Snapshot | None:
        """Return a snapshot, None where it is not kept.

        Raises:
            HistoryError: the database fails.
        """
        found = self._rows(sa.select(SNAPSHOTS).where(SNAPSHOTS.c.sha256 == sha256))
        return snapshot_of(found[0]) if found else None

    def snapshot_chain(self, sha256: str) -> list[Snapshot]:
        """Return a snapshot and all that it stands on, the first first; empty where it is not kept.

        Raises:
            HistoryError: the database fails.
        """
        chain = _with_ancestors(SNAPSHOTS.c.sha256 == sha256)
        query = sa.select(SNAPSHOTS).join(chain, SNAPSHOTS.c.sha256 == chain.c.sha256)
        found = {snapshot.sha256: snapshot for snapshot in map(snapshot_of, self._rows(query))}
        links: list[Snapshot] = []
        name: str | None = sha256
        while name is not None and name in found:
            links.append(found.pop(name))
            name = links[-1].parent_sha256
        return links[::-1]

    def latest_decisions(self, pod_uids: Collection[str]) -> dict[str, Decision]:
        """Return the newest decision on each pod, by uid, as far as there is one.

        Raises:
            HistoryError: the database fails.
        """
        wanted, latest = sorted(pod_uids), dict[str, Decision]()
        for start in range(0, len(wanted), 500):
            query = (
                sa.select(DECISIONS)
                .where(DECISIONS.c.pod_uid.in_(wanted[start : start + 500]))
                .order_by(DECISIONS.c.decided_s, DECISIONS.c.decision_id)
            )
            latest |= {decision.pod_uid: decision for decision in map(decision_of, self._rows(query))}
        return latest

    def execution(self, pod_uid: str) -> Execution | None:
        """Return what is known of a pod's run, None where nothing is.

        Raises:
            HistoryError: the database fails.
        """
        found = self._rows(sa.select(EXECUTIONS).where(EXECUTIONS.c.pod_uid == pod_uid))
        return execution_of(found[0]) if found else None

    def executions_of_workflow(self, workflow_uid: str) -> list[Execution]:
        """Return the attempts of a workflow run, in the order in which their pods came.

        Raises:
            HistoryError: the database fails.
        """
        query = (
            sa.select(EXECUTIONS)
            .where(EXECUTIONS.c.workflow_uid == workflow_uid)
            .order_by(EXECUTIONS.c.ready_s, EXECUTIONS.c.pod_uid)
        )
        return [execution_of(row) for row in self._rows(query)]

    def workflow(self, namespace: str, name: str) -> WorkflowRun | None:
        """Return the newest run of a workflow's name, None where none is kept.

        Raises:
            HistoryError: the database fails.
        """
        query = (
            sa.select(WORKFLOWS)
            .where(WORKFLOWS.c.namespace == namespace, WORKFLOWS.c.workflow == name)
            .order_by(WORKFLOWS.c.noted_s.desc(), WORKFLOWS.c.workflow_uid)
            .limit(1)
        )
        found = self._rows(query)
        return workflow_of(found[0]) if found else None

    def newest_workflows(self, most: int) -> list[WorkflowRun]:
        """Return the workflow runs that were first noted last, newest first, at most `most`.

        Raises:
            HistoryError: the database fails.
        """
        query = (
            sa.select(WORKFLOWS)
            .order_by(WORKFLOWS.c.noted_s.desc(), WORKFLOWS.c.submitted_s.desc(), WORKFLOWS.c.workflow_uid)
            .limit(most)
        )
        return [workflow_of(row) for row in self._rows(query)]

    def observations(
        self, now_s: float, *, running: Collection[str] = (), per_class: int = 200
    ) -> list[Observation]:
        """Return what the duration model learns from: of each class the newest `per_class` runs.

        Args:
            now_s: the time, for how long running pods have been running.
            running: uids of the pods that are known to run now. A row without an end that is not among them
                ended unseen, and says nothing.
            per_class: bound of the answer's size.

        Raises:
            HistoryError: the database fails.
        """
        e = EXECUTIONS.c
        said = [ExecutionStatus.DONE.value, *_CUT_OFF]
        number = sa.func.row_number().over(
            partition_by=[e.class_origin, e.class_template, e.class_place],
            order_by=[e.finished_s.desc(), e.pod_uid],
        )
        ended = sa.select(e.pod_uid.label("uid"), number.label("number")).where(
            e.status.in_(said), e.started_s.is_not(None), e.finished_s.is_not(None)
        )
        newest = ended.subquery()
        columns = [
            e.class_origin, e.class_template, e.class_place, e.item, e.node_class, e.image, e.command,
            e.cpu_request_cores, e.memory_request_bytes, e.workflow_uid, e.pod_uid, e.started_s, e.finished_s,
            e.status,
        ]  # fmt: skip
        query = (
            sa.select(*columns).join(newest, newest.c.uid == e.pod_uid).where(newest.c.number <= per_class)
        )
        found = [observation_of(row, now_s) for row in self._rows(query)]
        live = sorted(running)
        for start in range(0, len(live), 500):  # SQLite takes 32,766 parameters, older ones 999
            query = sa.select(*columns).where(
                e.pod_uid.in_(live[start : start + 500]), e.status.is_(None), e.started_s.is_not(None)
            )
            found += [observation_of(row, now_s) for row in self._rows(query)]
        return found

    def _rows(self, query: sa.Select[Any]) -> Sequence[sa.RowMapping]:
        with self._database.reading() as connection:
            return connection.execute(query).mappings().all()


def _with_ancestors(which: sa.ColumnElement[bool]) -> sa.CTE:
    """Return the snapshots of which `which` holds, and all that they stand on."""
    # Nested, because SQLite counts the deleted rows only of statements that begin with DELETE.
    some = (
        sa.select(SNAPSHOTS.c.sha256, SNAPSHOTS.c.parent_sha256)
        .where(which)
        .cte("kept", recursive=True, nesting=True)
    )
    older = SNAPSHOTS.alias("older")
    return some.union(
        sa.select(older.c.sha256, older.c.parent_sha256).join(some, older.c.sha256 == some.c.parent_sha256)
    )
