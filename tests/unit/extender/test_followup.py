"""What the watch says afterwards: decisions with reasons, and whether kube-scheduler asks at all."""

from dataclasses import replace

import pytest

from stowplan.observe.history.records import DecisionMode
from stowplan.serve.extender.answers import Answer, Answers
from stowplan.serve.extender.settings import ExtenderSettings
from tests.unit.extender.cases import Bench, live_pod


def test_a_binding_makes_the_answer_a_decision() -> None:
    answers: list[Answer] = []
    bench = Bench(
        "heft", nodes={"n0": 8000, "n1": 4000, "tiny": 100}, on_answer=lambda _, a: answers.append(a)
    )
    busy = bench.arrive(live_pod("busy", cpu=2000))
    bench.bind(busy, "n1")
    pod = bench.arrive(live_pod("p"))
    bench.prioritize(pod)
    (answer,) = answers
    assert (answer.key, answer.uid, answer.answered_s) == ("ns/p", "uid-p", 1e9 + 100.0)
    assert [one.node_name for one in answer.best] == ["n0", "n1"]
    assert bench.decisions == []
    bench.bind(pod, "n0")
    (decision,) = bench.decisions
    assert (decision.pod_uid, decision.namespace, decision.pod, decision.node) == ("uid-p", "ns", "p", "n0")
    assert (decision.mode, decision.policy, decision.policy_version) == (DecisionMode.LIVE, "heft", "1")
    assert (decision.candidates, dict(decision.refused)) == (2, {"NodeResourcesFit": 1})
    assert (decision.runner_up, decision.expected_s) == ("n1", 60.0)
    assert decision.margin == pytest.approx(answer.best[0].score - answer.best[1].score)
    assert decision.margin is not None
    assert decision.margin > 0
    assert decision.explanation["followed"] is True
    assert (
        decision.explanation["reason"] == "kube-scheduler took the best of 2 nodes by the extender's scores"
    )
    assert decision.explanation["levels"] == {"n0": 10, "n1": 9}
    assert bench.counted("bindings_total", result="best") == 1


def test_where_kube_scheduler_chose_otherwise_the_decision_says_so() -> None:
    bench = Bench("heft", nodes={"n0": 8000, "n1": 8000})
    pod = bench.arrive(live_pod("p"))
    bench.prioritize(pod)
    bench.bind(pod, "n1")
    (decision,) = bench.decisions
    assert (decision.node, decision.runner_up, decision.expected_s) == ("n1", "n0", None)
    assert decision.margin is not None
    assert decision.margin <= 0
    assert (decision.explanation["best"], decision.explanation["followed"]) == ("n0", False)
    reason = "kube-scheduler took n1, which had level 9 of 10 by the extender; it preferred n0"
    assert decision.explanation["reason"] == reason
    assert bench.counted("bindings_total", result="other") == 1


def test_a_node_that_was_not_among_the_best_has_no_margin() -> None:
    bench = Bench("heft", nodes={"n0": 8000, "n1": 8000, "tiny": 100})
    pod = bench.arrive(live_pod("p"))
    bench.prioritize(pod)
    bench.bind(pod, "tiny")
    assert bench.decisions[0].margin is None


def test_a_neutral_answer_makes_no_decision() -> None:
    bench = Bench("heft")
    bench.feed.is_settled = False
    pod = bench.arrive(live_pod("p"))
    bench.prioritize(pod)
    bench.feed.is_settled = True
    bench.bind(pod, "n0")
    assert bench.decisions == []
    assert bench.counted("bindings_total", result="neutral") == 1


def test_a_decision_is_made_once_and_for_the_latest_answer() -> None:
    bench = Bench("heft")
    pod = bench.arrive(live_pod("p"))
    bench.prioritize(pod, ["n0", "n1"])
    bench.prioritize(pod, ["n1", "n2"])
    bound = bench.bind(pod, "n1")
    bench.extender.listener.pod_set(bound, replace(bound, phase="Running"))
    assert [one.runner_up for one in bench.decisions] == ["n2"]


def test_a_pod_first_seen_when_it_was_bound_already_is_a_decision_too() -> None:
    bench = Bench("heft")
    pod = live_pod("p")
    bench.readable["p"] = pod
    bench.prioritize(pod)
    bench.bind(pod, "n0")
    assert len(bench.decisions) == 1


def bind_unasked(bench: Bench, count: int, scheduler: str = "default-scheduler") -> None:
    for number in range(count):
        bench.bind(
            bench.arrive(live_pod(f"unasked-{bench.now_s}-{number}", cpu=100, scheduler=scheduler)), "n0"
        )
    bench.now_s += 1.0


def test_pods_bound_without_a_question_show_that_kube_scheduler_does_not_ask() -> None:
    bench = Bench("heft", settings=ExtenderSettings(silent_after=3))
    bench.prioritize(bench.arrive(live_pod("first")))
    bind_unasked(bench, 2)
    assert bench.extender.degraded == ""
    bind_unasked(bench, 2)
    assert "gave the last 4 pods a node without asking" in bench.extender.degraded
    assert bench.counted("bindings_total", result="unasked") == 4
    bench.prioritize(bench.arrive(live_pod("p")))
    assert bench.extender.degraded == ""
    assert bench.extender.status["bound_unasked"] == 4


def test_pods_without_a_choice_or_of_another_scheduler_are_not_asked_about() -> None:
    bench = Bench("heft", nodes={"n0": 8000, "tiny": 10})  # kube-scheduler does not score a single node
    bench.prioritize(bench.arrive(live_pod("p")))
    bind_unasked(bench, 5)
    assert bench.extender.degraded == ""
    bench = Bench("heft")
    bench.prioritize(bench.arrive(live_pod("p")))
    bind_unasked(bench, 5, scheduler="other")
    for number in range(5):  # seen bound from the start
        bench.bind(live_pod(f"old-{number}", cpu=100), "n0")
    assert bench.extender.degraded == ""
    assert bench.counted("bindings_total", result="unasked") == 0


def test_an_extender_that_stands_by_is_not_troubled_by_silence() -> None:
    bench = Bench("heft")
    bind_unasked(bench, 10)  # never asked: another kube-scheduler leads
    assert bench.extender.degraded == ""
    assert bench.extender.status["asked_s_ago"] is None
    bench.prioritize(bench.arrive(live_pod("p")))
    bind_unasked(bench, 10)
    assert bench.extender.degraded != ""
    bench.now_s += 600.0  # nor any more
    assert bench.extender.degraded == ""
    assert bench.extender.status["asked_s_ago"] == 601.0
    bench = Bench("heft", settings=ExtenderSettings(silent_after=0))
    bench.prioritize(bench.arrive(live_pod("p")))
    bind_unasked(bench, 10)
    assert bench.extender.degraded == ""


def test_answers_are_kept_for_so_many_pods_and_forgotten_with_them() -> None:
    answers = Answers(most=2)
    for uid in "abc":
        answers.keep(Answer(key=uid, uid=uid, answered_s=0.0, took_s=0.0))
    assert (len(answers), answers.take("a")) == (2, None)
    bench = Bench("heft")
    for number in range(50):
        pod = bench.arrive(live_pod(f"p{number}"))
        bench.prioritize(pod)
        bench.extender.listener.pod_gone(bench.feed.pods.pop(pod.key))
    assert bench.extender.status["awaiting_binding"] == 0
