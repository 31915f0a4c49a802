"""Filter and preemption: only the operator's rule table refuses, and says why."""

import json
from dataclasses import replace
from typing import Any

from stowplan.core.constraints import RuleTable
from tests.unit.extender.cases import Bench, live_pod, manifest, question

RULES = RuleTable.parse(
    {
        "version": 1,
        "rules": [
            {"name": "ml-in-a", "tasks": {"labels": {"app": "x"}}, "require": {"zone": "a"}},
            {"name": "not-old", "tasks": {"namespaces": ["ns"]}, "forbid": {"labels": {"age": "old"}}},
            {"name": "others", "tasks": {"namespaces": ["other"]}, "forbid": {"node": "*"}},
        ],
    }
)
ZONE = "topology.kubernetes.io/zone"


def bench() -> Bench:
    made = Bench("heft", nodes={}, rules=RULES)
    made.set_node("good", labels={ZONE: "a"})
    made.set_node("elsewhere", labels={ZONE: "b"})
    made.set_node("old", labels={"age": "old", ZONE: "a"})
    made.set_node("both", labels={"age": "old", ZONE: "b"})
    return made


def filtered(made: Bench, body: bytes) -> dict[str, Any]:
    return json.loads(made.extender.filter(body))


NAMES = ["good", "elsewhere", "old", "both", "unknown"]


def test_refused_nodes_are_named_with_their_reasons_and_no_preemption_helps() -> None:
    made = bench()
    pod = made.arrive(live_pod("p"))
    assert filtered(made, question(pod, NAMES)) == {
        "Nodes": None,
        "NodeNames": ["good", "unknown"],
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {
            "elsewhere": "rule 'ml-in-a' does not allow this node",
            "old": "rule 'not-old' forbids this node",
            "both": "rule 'ml-in-a' does not allow this node; rule 'not-old' forbids this node",
        },
        "Error": "",
    }
    assert made.counted("refused_nodes_total") == 3


def test_what_kube_scheduler_filters_itself_is_not_filtered_again() -> None:
    made = bench()
    pod = made.arrive(live_pod("p", cpu=10**6))  # fits nowhere, as we see it
    assert filtered(made, question(pod, ["good"]))["NodeNames"] == ["good"]


def test_pods_that_no_rule_is_about_and_tables_without_rules_pass_everywhere() -> None:
    made = bench()
    free = live_pod("p")
    free = made.arrive(replace(free, shape=replace(free.shape, labels=(), namespace="free")))
    assert filtered(made, question(free, NAMES))["NodeNames"] == NAMES
    without = Bench("heft", nodes=1)
    assert filtered(without, question(live_pod("not-known"), NAMES))["NodeNames"] == NAMES
    assert without.read == [], "no rules, no need to read the pod"


def test_a_rule_that_cannot_be_judged_refuses_nothing() -> None:
    made = bench()
    assert filtered(made, question(live_pod("unreadable"), NAMES))["NodeNames"] == NAMES
    assert made.counted("neutral_answers_total", cause="pod_unreadable") == 1
    made.feed.is_settled = False
    assert filtered(made, question(made.arrive(live_pod("p")), NAMES))["NodeNames"] == NAMES
    assert made.counted("neutral_answers_total", cause="not_settled") == 1


def test_whole_nodes_are_sent_back_whole() -> None:
    made = bench()
    pod = made.arrive(live_pod("p"))
    nodes = [{"metadata": {"name": name}, "status": {"marker": name}} for name in NAMES]
    body = json.dumps({"Pod": manifest(pod), "Nodes": {"items": nodes}, "NodeNames": None}).encode()
    answer = filtered(made, body)
    assert answer["Nodes"]["items"] == [nodes[0], nodes[4]]
    assert answer["NodeNames"] is None
    assert set(answer["FailedAndUnresolvableNodes"]) == {"elsewhere", "old", "both"}


def test_no_pods_are_ended_for_a_node_that_is_refused_afterwards() -> None:
    made = bench()
    pod = made.arrive(live_pod("p"))
    victims = {name: {"Pods": [{"UID": f"uid-{name}"}], "NumPDBViolations": 1} for name in NAMES}
    body = json.dumps({"Pod": manifest(pod), "NodeNameToMetaVictims": victims}).encode()
    answer = json.loads(made.extender.preempt(body))
    assert answer == {"NodeNameToMetaVictims": {name: victims[name] for name in ("good", "unknown")}}


def test_a_refused_node_is_the_last_choice_even_where_filter_is_not_asked() -> None:
    made = bench()
    levels = made.prioritize(made.arrive(live_pod("p")), ["both", "good", "old"])
    assert levels == {"both": 0, "good": 10, "old": 0}
