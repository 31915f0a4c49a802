"""Snapshot and DAG → arrays (R5, R11): what a network sees of a cycle, with topology-aware positions.

* `schema`, `columns`: what each column is; a model is bound to them by `Schema.id`.
* `groups`, `workflows`, `tasks`: pending tasks that are alike, their places in their workflows, their rows.
* `occupants`, `nodes`, `cluster`: what runs where, rows of nodes and of the cluster.
* `scoring`: standard scores and masks; `encoded`, `encoder`: the arrays, and what makes them.
"""

from stowplan.core.encoder.columns import SCHEMA
from stowplan.core.encoder.encoded import Encoded
from stowplan.core.encoder.encoder import MOST_GROUPS, Encoder
from stowplan.core.encoder.schema import (
    Column,
    FeatureGroup,
    Schema,
    Table,
    difference,
    schema_from_bytes,
    schema_to_bytes,
)
from stowplan.core.encoder.scoring import nominal_statistics

__all__ = [
    "MOST_GROUPS",
    "SCHEMA",
    "Column",
    "Encoded",
    "Encoder",
    "FeatureGroup",
    "Schema",
    "Table",
    "difference",
    "nominal_statistics",
    "schema_from_bytes",
    "schema_to_bytes",
]
