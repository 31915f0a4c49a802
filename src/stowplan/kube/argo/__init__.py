"""Argo workflows as values: task graphs out of manifests, the status, and pods matched to both.

    graph = read_graph(open_object(raw), source=Shelf(templates))
    view = to_domain(graph, expected_s=lambda node: history.seconds(history_key(graph, node)))

Nothing here does I/O or reads a clock, and raw objects are never changed.
"""

from stowplan.kube.argo.depends import Depends, DependsError, Result, parse_depends
from stowplan.kube.argo.domain import DomainView, default_work, to_domain
from stowplan.kube.argo.effective import ControllerSettings
from stowplan.kube.argo.fanout import Fanout, Item
from stowplan.kube.argo.graph import Call, Chance, Hook, Node, NodeKind, PodPlan, TaskGraph, UnknownField
from stowplan.kube.argo.matching import (
    AgentPod,
    PodMatch,
    TaskPod,
    history_key,
    identify_pod,
    match_path,
    match_pod,
)
from stowplan.kube.argo.names import NodePath, Segment, node_id, parse_node_name, pod_name
from stowplan.kube.argo.objects import ArgoObject, Shelf, TemplateSource, is_argo_object, open_object
from stowplan.kube.argo.problems import MalformedWorkflow, Problem
from stowplan.kube.argo.read import check_object, origin_of, read_graph
from stowplan.kube.argo.retry import Backoff, Retry
from stowplan.kube.argo.spots import ReadLimits
from stowplan.kube.argo.status import (
    NodesHere,
    NodesOffloaded,
    NodeStatus,
    NodesUnreadable,
    WorkflowStatus,
    read_status,
)

__all__ = [
    "AgentPod",
    "ArgoObject",
    "Backoff",
    "Call",
    "Chance",
    "ControllerSettings",
    "Depends",
    "DependsError",
    "DomainView",
    "Fanout",
    "Hook",
    "Item",
    "MalformedWorkflow",
    "Node",
    "NodeKind",
    "NodePath",
    "NodeStatus",
    "NodesHere",
    "NodesOffloaded",
    "NodesUnreadable",
    "PodMatch",
    "PodPlan",
    "Problem",
    "ReadLimits",
    "Result",
    "Retry",
    "Segment",
    "Shelf",
    "TaskGraph",
    "TaskPod",
    "TemplateSource",
    "UnknownField",
    "WorkflowStatus",
    "check_object",
    "default_work",
    "history_key",
    "identify_pod",
    "is_argo_object",
    "match_path",
    "match_pod",
    "node_id",
    "open_object",
    "origin_of",
    "parse_depends",
    "parse_node_name",
    "pod_name",
    "read_graph",
    "read_status",
    "to_domain",
]
