"""Argo Workflows on the test cluster: its controller, and what tests do with workflows."""

from testbed.argo.controller import METRICS_PORT, restarts, start
from testbed.argo.workflows import (
    Workflow,
    nodes,
    phase_of,
    pod_nodes,
    prepare_namespace,
    submit,
    wait_for_end,
)

__all__ = [
    "METRICS_PORT",
    "Workflow",
    "nodes",
    "phase_of",
    "pod_nodes",
    "prepare_namespace",
    "restarts",
    "start",
    "submit",
    "wait_for_end",
]
