"""The operator's rule table: what it accepts, what it decides, and how it complains."""

from typing import Any

import pytest

from stowplan.core.constraints import CompiledFilters, RuleTable
from stowplan.core.domain import ClusterState, Gpu, Hardware, Node, NodeSet, PodShape, Resources
from stowplan.errors import InvalidInput, UnknownName


def cluster() -> ClusterState:
    state = ClusterState()
    for name, labels, gpus, cpu in (
        ("big", {"topology.kubernetes.io/zone": "z1", "disk": "ssd"}, (Gpu("A100"),) * 4, 64_000),
        ("small", {"topology.kubernetes.io/zone": "z2", "nvidia.com/gpu.product": "T4"}, (), 8_000),
        ("plain", {"topology.stowplan.io/rack": "r1"}, (), 4_000),
    ):
        state.apply(
            NodeSet(
                Node(
                    name,
                    Resources({"cpu": cpu, "memory": 1000, "pods": 10}),
                    labels=tuple(sorted(labels.items())),
                    hardware=Hardware(gpus=gpus),
                )
            )
        )
    return state


def table(**rule: object) -> RuleTable:
    return RuleTable.parse({"version": 1, "rules": [{"name": "the-rule", **rule}]})


def feasible(rules: RuleTable, shape: PodShape) -> set[str]:
    state = cluster()
    compiled = CompiledFilters(state, shape, rules=rules)
    return {name for name, row in state.rows() if compiled.feasible[row]}


ML = PodShape(labels=(("team", "ml"),), namespace="research", template="train-step")


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ({"gpu_model": ["A100", "H100*"]}, {"big"}),
        ({"gpu_model": "T*"}, {"small"}),
        ({"gpu_count": ">= 4"}, {"big"}),
        ({"zone": ["z1", "z2"]}, {"big", "small"}),
        ({"rack": "r?"}, {"plain"}),
        ({"node": "*l*"}, {"small", "plain"}),
        ({"allocatable": {"cpu": ">= 8", "memory": "< 1001"}}, {"big", "small"}),
        ({"allocatable": {"cpu": "!= 8"}}, {"big", "plain"}),
        ({"allocatable": {"example.com/none": "> 0"}}, set()),
        ({"labels": {"disk": "ssd"}}, {"big"}),
        ({"expressions": [{"key": "disk", "operator": "DoesNotExist"}]}, {"small", "plain"}),
        ({"zone": "z1", "gpu_count": "< 4"}, set()),
    ],
)
def test_require_accepts_and_forbid_refuses_the_nodes_that_meet_every_condition(
    condition: dict[str, Any], expected: set[str]
) -> None:
    everything = {"big", "small", "plain"}
    assert feasible(table(require=condition), ML) == expected
    assert feasible(table(forbid=condition), ML) == everything - expected


@pytest.mark.parametrize(
    ("tasks", "is_about"),
    [
        ({}, True),
        ({"labels": {"team": "ml"}}, True),
        ({"labels": {"team": "web"}}, False),
        ({"namespaces": ["res*"]}, True),
        ({"namespaces": ["default"]}, False),
        ({"templates": ["train*"], "namespaces": ["research"]}, True),
        ({"templates": ["train"]}, False),
        ({"expressions": [{"key": "team", "operator": "NotIn", "values": ["ml"]}]}, False),
    ],
)
def test_a_rule_is_about_the_pods_that_meet_every_condition(tasks: dict[str, Any], is_about: bool) -> None:
    assert len(table(tasks=tasks, require={"zone": "z1"}).rules_for(ML)) == int(is_about)


def test_a_refusal_names_the_rule() -> None:
    state = cluster()
    compiled = CompiledFilters(state, ML, rules=table(forbid={"zone": "z1"}))
    assert compiled.all_refusing(state.row("big")) == ("RuleTable",)
    assert compiled.reason(state.row("big")) == "rule 'the-rule' forbids this node"
    assert not CompiledFilters(state, ML, rules=table(require={"node": "ghost"})).could_ever_fit()


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (None, ["rule table", "None", "mapping"]),
        ({"version": 2, "rules": []}, ["version", "2"]),
        ({"version": 1, "rules": {}}, ["rules", "list"]),
        ({"version": 1, "rules": [{"require": {"zone": "a"}}]}, ["rule 1", "name"]),
        ({"version": 1, "rules": [{"name": "r"}]}, ["'r'", "require", "forbid"]),
        ({"version": 1, "rules": [{"name": "r", "require": {}}]}, ["'r'", "empty"]),
        ({"version": 1, "rules": [{"name": "r", "require": {"zone": []}}]}, ["'r'", "zone", "empty"]),
        ({"version": 1, "rules": [{"name": "r", "require": {"zone": [3]}}]}, ["'r'", "zone", "3"]),
        (
            {"version": 1, "rules": [{"name": "r", "require": {"gpu_count": 4}}]},
            ["'r'", "gpu_count", "4", ">="],
        ),
        (
            {"version": 1, "rules": [{"name": "r", "require": {"allocatable": {"cpu": ">= 4x"}}}]},
            ["'r'", "allocatable.cpu", "4x"],
        ),
        (
            {"version": 1, "rules": [{"name": "r", "require": {"labels": {"a": True}}}]},
            ["'r'", "labels.a", "True"],
        ),
        (
            {
                "version": 1,
                "rules": [{"name": "r", "forbid": {"expressions": [{"key": "a", "operator": "Is"}]}}],
            },
            ["'r'", "operator", "'Is'", "NotIn"],
        ),
        (
            {
                "version": 1,
                "rules": [{"name": "r", "forbid": {"expressions": [{"key": "a", "operator": "In"}]}}],
            },
            ["'r'", "'a'", "at least one value"],
        ),
        ({"version": 1, "rules": [{"name": "r", "forbid": {"zone": "a"}}] * 2}, ["'r'", "2 times"]),
    ],
)
def test_a_document_that_cannot_be_used_is_refused_with_the_mend(document: object, words: list[str]) -> None:
    with pytest.raises(InvalidInput) as caught:
        RuleTable.parse(document)
    for word in words:
        assert word in str(caught.value)


def test_an_unknown_field_is_named_with_the_nearest() -> None:
    with pytest.raises(UnknownName, match="did you mean 'zone'"):
        table(require={"zones": "z1"})
    with pytest.raises(UnknownName, match="'namespaces'"):
        table(tasks={"namespace": ["a"]}, require={"zone": "a"})
