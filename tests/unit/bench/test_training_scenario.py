"""The load and the cluster of the training comparison: what the benchmark says of them holds."""

import pytest

from bench.training.scenario import DATA, JOBS, MEAN_GAP_S, MODELS, POD_GPUS, SERVICES, cluster, workload
from bench.training_gpus import VARIANTS, Outcome, bounds, lower, rows_of
from stowplan.core.policy import make_policy

needs_data = pytest.mark.skipif(
    not (DATA / "sia").is_dir(), reason=f"the public data are not at {DATA}; set STOWPLAN_DATA"
)


def test_the_cluster_has_eight_nodes_of_two_root_complexes() -> None:
    nodes = cluster().nodes
    assert [len(node.hardware.gpus) for node in nodes] == [8] * 8
    assert all(len({gpu.root_complex for gpu in node.hardware.gpus}) == 2 for node in nodes)


@needs_data
def test_jobs_ask_for_gangs_and_services_for_half_a_gpu() -> None:
    submissions = workload().submissions
    jobs = [s.workflow for s in submissions if s.workflow.family == "training"]
    services = [s.workflow for s in submissions if s.workflow.family == "streaming"]
    assert (len(jobs), len(services)) == (JOBS, SERVICES)
    asked_s = 0.0
    for workflow in [*jobs, *services]:
        for task in workflow.tasks:
            gpu = task.shape.gpu
            assert gpu is not None
            asked_s += gpu.count * gpu.milli / 1000 * task.work.alone_s
            assert (task.gang is not None) == (workflow in jobs)
            assert gpu.count <= POD_GPUS
    assert {workflow.tasks[0].template for workflow in jobs} == set(MODELS)
    assert asked_s / (64 * MEAN_GAP_S * len(submissions)) == pytest.approx(1.45, abs=0.01)


@needs_data
def test_bounds_are_shares() -> None:
    assert all(0.0 < row.median < 100.0 for row in bounds())


def test_policies_of_all_variants_exist() -> None:
    for variant in VARIANTS:
        make_policy(variant.policy, **dict(variant.options))


def test_only_jobs_that_ran_under_both_are_compared_by_their_geometric_mean() -> None:
    base = {"a": 2.0, "b": 8.0, "only-there": 1.0}
    assert lower({"a": 1.0, "b": 1.0, "only-here": 9.0}, base) == pytest.approx(100.0 * (1.0 - 0.25))


def test_a_sample_is_the_difference_of_a_pair_of_one_seed() -> None:
    def outcome(seconds: float) -> Outcome:
        times = {"job": seconds}
        return Outcome(0.5, 0.75, times, times, times, times)

    base, better = [outcome(4.0), outcome(40.0)], [outcome(3.0), outcome(20.0)]
    runs = {variant.name: better for variant in VARIANTS} | {VARIANTS[0].name: base}
    rows = {row.name: row for row in rows_of(runs)}
    assert rows["training-gpus/gangs-step"].median == pytest.approx((25.0 + 50.0) / 2)
    assert rows["training-gpus/gangs-computing"].median == pytest.approx(50.0)
    assert f"training-gpus/{VARIANTS[0].name}-step" not in rows
