"""The process of the scheduler killed, cut off, refused and led by another: nothing is lost, nothing twice.

`bench/live_chaos.py` does the same for longer and measures it.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.live import outages
from bench.live.chaos import (
    Arena,
    audited_bed,
    bound,
    kill_again_and_again,
    overcommitted,
    seen_by,
    there_are,
)
from testbed.cluster import Cluster
from testbed.errors import MissingPrerequisite
from testbed.faults import Fault, FaultyProxy
from testbed.spec import Json
from testbed.stowplan import PORT, Scheduler
from testbed.waiting import wait_for

ALONE: dict[str, Json] = {"scheduler": {"mode": "binder"}, "lease": {"enable": False}}
TAKEN_OVER_S = 60.0  # generous: how fast it is, is measured elsewhere


@pytest.fixture(scope="module")
def bed(repository: Path) -> Iterator[Cluster]:
    try:
        with audited_bed(40, logs_on_failure=repository / "out" / "cluster-logs") as running:
            yield running
    except MissingPrerequisite as missing:
        pytest.skip(str(missing))


@pytest.fixture
def arena(bed: Cluster, request: pytest.FixtureRequest) -> Iterator[Arena]:
    """Pods of the test, in a namespace of its own, drawn the same every time."""
    words = request.node.name.removeprefix("test_").replace("_", "-")[:40].strip("-")
    arena = Arena(bed, words, "stowplan")
    yield arena
    arena.remove()


@pytest.mark.timeout(400)
def test_killed_in_the_middle_of_binding_it_loses_nothing_and_binds_nothing_twice(
    bed: Cluster, arena: Arena
) -> None:
    scheduler = Scheduler(bed.plane, ALONE)
    kill_again_and_again(arena, scheduler, 5, waiting=80)
    with scheduler.running():
        arena.wait_until_all_bound()
        outages.wait_until_views_agree(scheduler, bed)

    verdict = arena.verdict()
    assert verdict.pods >= 80
    assert verdict.faults == 0, verdict


@pytest.mark.timeout(400)
def test_requests_that_are_refused_lost_or_cut_change_nothing_in_the_end(bed: Cluster, arena: Arena) -> None:
    with (
        FaultyProxy(bed.plane, seed=3) as proxy,
        Scheduler(bed.plane, ALONE, server=proxy.address).running() as scheduler,
    ):
        outages.under_faults(arena, proxy, scheduler, 6, pods=30)

    verdict = arena.verdict()
    assert verdict.faults == 0, verdict
    assert set(proxy.done) >= {Fault.TOO_MANY, Fault.FAILED, Fault.LOST_ANSWER, Fault.CUT}


@pytest.mark.timeout(400)
def test_when_the_api_server_is_back_it_goes_on_and_sees_what_went_meanwhile(
    bed: Cluster, arena: Arena
) -> None:
    with (
        FaultyProxy(bed.plane) as proxy,
        Scheduler(bed.plane, ALONE, server=proxy.address).running() as scheduler,
    ):
        before = seen_by(scheduler)["nodes"]
        outages.recover_from_restart(arena, scheduler, down_s=2.0, pods=40)
        outages.recover_from_cut(arena, proxy, scheduler, pods=40, node="small-00000")
        assert seen_by(scheduler) == there_are(bed)
        assert seen_by(scheduler)["nodes"] == before - 1

    verdict = arena.verdict()
    assert verdict.faults == 0, verdict


@pytest.mark.timeout(400)
def test_of_two_replicas_one_leads_and_the_other_takes_over_when_it_is_killed_or_ends(
    bed: Cluster, arena: Arena
) -> None:
    lease = {"duration_s": 6.0, "renew_s": 4.0, "retry_s": 1.0}
    config = {"scheduler": {"mode": "binder"}, "lease": lease}
    replicas = [
        Scheduler(bed.plane, config, name=f"stowplan-{letter}", port=PORT + number)
        for number, letter in enumerate("ab")
    ]
    for replica in replicas:
        replica.start()
    killed_s = outages.change_leader(arena, replicas, Scheduler.kill, pods=40)
    ended_s = outages.change_leader(arena, replicas, Scheduler.end, pods=40)
    for replica in replicas:
        replica.end()

    verdict = arena.verdict()
    assert verdict.faults == 0, verdict
    # Killed, its lease has to run out; ended in order, it was given back.
    assert killed_s < TAKEN_OVER_S
    assert ended_s < killed_s


def test_sigterm_waits_for_bindings_under_way(bed: Cluster, arena: Arena) -> None:
    with Scheduler(bed.plane, ALONE).running() as scheduler:
        arena.create(150)
        wait_for("it binds", lambda: bound(scheduler) > 0, 60.0)
        daemon = scheduler.daemon
    left = arena.waiting()
    assert daemon.process.returncode == 0
    assert '"drains"' in scheduler.log

    verdict = arena.verdict()
    assert len(verdict.lost) == left, "a pod without a node is one that waits, and no more"
    assert not verdict.bound_twice
    assert set(verdict.refused) == set(), "no binding was cut off and tried again"
    with Scheduler(bed.plane, ALONE).running():
        arena.wait_until_all_bound()
    assert arena.verdict().faults == 0


def test_without_argo_it_says_so_and_goes_on(bed: Cluster, arena: Arena) -> None:
    with Scheduler(bed.plane, ALONE).running() as scheduler:
        arena.create(5)
        arena.wait_until_all_bound()
        # It goes on before it has looked at how the watches fare, and says so then.
        wait_for("it says so", lambda: '"argo is not installed"' in scheduler.log, TAKEN_OVER_S)
        assert scheduler.ask("/v1/status")["workflows"]["argo"] == "not installed"


def test_a_node_with_too_much_is_seen_by_the_tests_themselves() -> None:
    nodes = [
        {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "2"}}}
    ]

    def pod(cpu: str, phase: str = "Running") -> Json:
        resources = {"requests": {"cpu": cpu, "memory": "1Mi"}}
        return {
            "spec": {"nodeName": "n", "containers": [{"resources": resources}]},
            "status": {"phase": phase},
        }

    assert overcommitted([pod("500m"), pod("500m"), pod("1", "Succeeded")], nodes) == set()
    assert overcommitted([pod("500m"), pod("501m")], nodes) == {"n: cpu 1.001 of 1"}
    assert overcommitted([pod("1m"), pod("1m"), pod("1m")], nodes) == {"n: pods 3 of 2"}
