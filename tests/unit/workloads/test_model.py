"""Workloads and clusters as values: their order, copies, and what they refuse."""

import numpy as np
import pytest

from stowplan.core.domain import (
    MACHINE_TYPE_LABEL,
    RACK_LABEL,
    ZONE_LABEL,
    Node,
    Phase,
    Resources,
    Task,
    Workflow,
    WorkProfile,
)
from stowplan.core.physics.vocabulary import LinkClass, Resource
from stowplan.errors import InvalidInput, InvalidObject, InvalidWorkflow
from stowplan.simulate.clusters import BackgroundTenant, Cluster, Drift, Fabric, Link
from stowplan.simulate.work_rules import pod_shape
from stowplan.simulate.workloads import Poisson, Submission, Workload


def workflow(name: str, template: str = "t") -> Workflow:
    task = Task("only", pod_shape(1000, 1 << 30), WorkProfile((Phase(10.0),)), 10.0, template=template)
    return Workflow(name, (task,))


def node(name: str, **labels: str) -> Node:
    keys = {"zone": ZONE_LABEL, "rack": RACK_LABEL, "type": MACHINE_TYPE_LABEL}
    return Node(
        name, Resources({"cpu": 1000}), labels=tuple((keys[key], text) for key, text in labels.items())
    )


def test_submissions_are_sorted_and_ties_keep_their_order() -> None:
    names = [("c", 5.0), ("a", 1.0), ("b", 1.0)]
    workload = Workload("w", tuple(Submission(time, workflow(name)) for name, time in names))
    assert [s.workflow.name for s in workload.submissions] == ["a", "b", "c"]
    assert (len(workload), workload.task_count, workload.alone_s) == (3, 3, 30.0)


@pytest.mark.parametrize("time_s", [-1.0, float("nan"), float("inf")])
def test_a_time_that_no_clock_shows_is_refused(time_s: float) -> None:
    with pytest.raises(InvalidInput, match="workflow 'a' is submitted at"):
        Submission(time_s, workflow("a"))


def test_an_empty_workload_and_twins_are_refused() -> None:
    with pytest.raises(InvalidWorkflow, match="workload 'w' is empty"):
        Workload("w", ())
    with pytest.raises(InvalidWorkflow, match="workflow 'a' occurs twice"):
        Workload("w", (Submission(0.0, workflow("a")), Submission(1.0, workflow("a"))))


def test_copies_have_numbered_names() -> None:
    workload = Workload("w", (Submission(2.0, workflow("a")), Submission(3.0, workflow("b"))))
    assert workload.replicated(1) is workload
    assert [(s.workflow.name, s.time_s) for s in workload.replicated(2).submissions] == [
        ("a-1", 2.0), ("a-2", 2.0), ("b-1", 3.0), ("b-2", 3.0),
    ]  # fmt: skip
    with pytest.raises(InvalidInput, match="0 copies"):
        workload.replicated(0)


def test_arriving_draws_the_own_or_the_given_arrivals() -> None:
    plain = Workload("w", (Submission(2.0, workflow("a")), Submission(3.0, workflow("b"))))
    assert plain.arriving(np.random.default_rng(0)) is plain
    own = Workload("w", plain.submissions, arrivals=Poisson(10.0))
    drawn = own.arriving(np.random.default_rng(0))
    assert drawn.recorded_s != (2.0, 3.0)
    assert drawn.arrivals is None
    assert drawn.recorded_s == plain.arriving(np.random.default_rng(0), Poisson(10.0)).recorded_s
    with pytest.raises(InvalidInput, match="2 submissions but 1 arrival times"):
        plain.at_times([1.0])


def test_machine_factors_go_to_their_template_only() -> None:
    workload = Workload("w", (Submission(0.0, workflow("a", "x")), Submission(0.0, workflow("b", "y"))))
    changed = workload.with_machine_factors({"x": (("old", 2.0),)})
    factors = [s.workflow.tasks[0].work.machine_factors for s in changed.submissions]
    assert factors == [(("old", 2.0),), ()]
    assert changed.submissions[0].workflow.tasks[0].work.alone_on_s("old") == 20.0


def test_distances() -> None:
    here = node("n1", zone="a", rack="r1")
    assert Cluster.distance(here, here) is LinkClass.SAME_NODE
    assert Cluster.distance(here, node("n2", zone="a", rack="r1")) is LinkClass.SAME_RACK
    assert Cluster.distance(here, node("n3", zone="a", rack="r2")) is LinkClass.SAME_ZONE
    assert Cluster.distance(here, node("n4", zone="b", rack="r1")) is LinkClass.OTHER_ZONE
    assert Cluster.distance(node("x"), node("y")) is LinkClass.SAME_RACK


def test_fabric_answers_by_distance() -> None:
    links = [Link(float(rate), 0.0) for rate in range(1, 6)]
    fabric = Fabric(
        same_root_complex=links[0],
        same_node=links[1],
        same_rack=links[2],
        same_zone=links[3],
        other_zone=links[4],
    )
    assert [fabric.link(distance) for distance in LinkClass] == links
    with pytest.raises(InvalidInput, match="latency_s is -1"):
        Link(1.0, -1.0)
    with pytest.raises(InvalidInput, match="rack_uplink_bytes_per_s is nan"):
        Fabric(rack_uplink_bytes_per_s=float("nan"))


def test_cluster_refuses_nobody_twins_and_strangers() -> None:
    with pytest.raises(InvalidObject, match="cluster 'c' has no nodes"):
        Cluster("c", ())
    with pytest.raises(InvalidObject, match="node 'n' occurs twice"):
        Cluster("c", (node("n"), node("n")))
    tenant = BackgroundTenant("backup", "m", WorkProfile((Phase(1.0),)))
    with pytest.raises(InvalidObject, match="tenant 'backup' is on the unknown node 'm'"):
        Cluster("c", (node("n"),), background=(tenant,))
    drift = Drift(nodes=("m",), resource=Resource.DISK, mean_normal_s=1.0, mean_degraded_s=1.0)
    with pytest.raises(InvalidObject, match="drift of DISK names unknown 'm'"):
        Cluster("c", (node("n"),), drift=(drift,))


def test_tenant_begins_as_often_as_it_says() -> None:
    work = WorkProfile((Phase(1.0),))
    assert list(BackgroundTenant("b", "n", work, 5.0, 10.0).starts_s(30.0)) == [5.0, 15.0, 25.0]
    assert list(BackgroundTenant("b", "n", work, 5.0).starts_s(30.0)) == [5.0]
    assert list(BackgroundTenant("b", "n", work, 5.0).starts_s(5.0)) == []


def test_drift_alternates_and_is_degraded_as_often_as_it_says() -> None:
    drift = Drift(
        nodes=("m", "n"), resource=Resource.DISK, mean_normal_s=90.0, mean_degraded_s=10.0, levels=(0.1, 0.2)
    )
    until_s = 200_000.0
    changes = drift.changes(np.random.default_rng(4), until_s)
    assert changes == drift.changes(np.random.default_rng(4), until_s)
    assert [c.time_s for c in changes] == sorted(c.time_s for c in changes)
    for name in ("m", "n"):
        own = [c for c in changes if c.node == name]
        assert all((c.factor == 1.0) == (index % 2 == 1) for index, c in enumerate(own))
        assert {c.factor for c in own} == {0.1, 0.2, 1.0}
        times = [c.time_s for c in own] + [until_s] * (len(own) % 2)
        degraded_s = sum(end - begin for begin, end in zip(times[::2], times[1::2], strict=True))
        assert degraded_s / until_s == pytest.approx(0.1, rel=0.15)
