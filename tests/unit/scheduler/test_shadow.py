"""Shadow mode: nothing is bound or reserved; where pods went is compared with where they would have gone."""

import asyncio

import pytest

from stowplan.kube.live.pod import LivePod
from stowplan.observe.history import DecisionMode
from stowplan.serve.scheduler.interface import ShadowComparison
from stowplan.serve.scheduler.shadow import ShadowActuator, as_decision
from tests.scheduler_cases import Bench, live_pod, running, shape, until


def bench(compared: list[ShadowComparison]) -> Bench:
    made = Bench()
    made.feed.set_node("n1", 2000)
    made.feed.set_node("n2", 1000)
    made.more["actuator"] = ShadowActuator(made.feed, made.engine, made.tasks, compared.append)
    return made


def test_a_shadow_decides_holds_nothing_and_compares_when_others_have_bound() -> None:
    compared: list[ShadowComparison] = []

    async def run() -> None:
        b = bench(compared)
        b.tasks.seconds = {"p": 30.0}
        async with running(b):
            for name in ("p", "q", "gone"):
                b.feed.set_pod(live_pod(name, shape(900)))
            await until(lambda: b.scheduler.status.under_way == 3)
            assert not b.feed.state.pods
            assert not b.feed.state.requested.any()
            b.feed.bind("default/p", "n2")
            b.feed.bind("default/q", "n1")
            b.feed.delete_pod("default/gone")
            await until(lambda: not b.scheduler.status.under_way)
        assert b.value("lost_bindings_total", reason="elsewhere") == 0

    asyncio.run(run())
    by_name = {comparison.pod.name: comparison for comparison in compared}
    assert set(by_name) == {"p", "q"}
    comparison = by_name["p"]
    assert (comparison.node, comparison.actual_node) == ("n1", "n2")
    assert (comparison.expected_s, comparison.actual_expected_s, comparison.saved_s) == (30.0, 30.0, 0.0)


def test_a_shadow_that_lost_and_regained_the_lease_compares_once() -> None:
    compared: list[ShadowComparison] = []

    async def run() -> None:
        b = bench(compared)
        scheduler = b.make()
        b.feed.set_pod(live_pod("p"))
        first = asyncio.create_task(scheduler.run())
        await until(lambda: scheduler.status.under_way == 1)
        first.cancel()
        await asyncio.wait({first})
        cycle = scheduler.status.last_cycle
        second = asyncio.create_task(scheduler.run())
        await until(lambda: scheduler.status.last_cycle is not cycle and scheduler.status.under_way == 1)
        b.feed.bind("default/p", "n2")
        await until(lambda: not scheduler.status.under_way)
        second.cancel()
        await asyncio.wait({second})

    asyncio.run(run())
    assert len(compared) == 1


def test_a_comparison_is_kept_as_a_decision_of_its_pod() -> None:
    pod: LivePod = live_pod("p", node_name="n2")
    decision = as_decision(ShadowComparison(pod, "n1", "n2", 10.0, 14.0, 100.0, 101.0, "srpt"), "3")
    assert (decision.mode, decision.pod_uid, decision.node) == (DecisionMode.SHADOW, "uid-p", "n1")
    assert (decision.policy, decision.policy_version, decision.expected_s) == ("srpt", "3", 10.0)
    assert decision.explanation == {
        "actual_node": "n2",
        "actual_expected_s": 14.0,
        "saved_s": pytest.approx(4.0),
        "bound_s": 101.0,
    }


def test_a_node_that_is_gone_by_then_leaves_nothing_to_compare() -> None:
    compared: list[ShadowComparison] = []

    async def run() -> None:
        b = bench(compared)
        async with running(b):
            b.feed.set_pod(live_pod("p"))
            await until(lambda: b.scheduler.status.under_way == 1)
            b.feed.remove_node("n1")
            b.feed.bind("default/p", "n2")
            await until(lambda: not b.scheduler.status.under_way)

    asyncio.run(run())
    assert compared == []
