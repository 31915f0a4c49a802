"""Drawn scenarios: equal for equal seeds, apart between splits, wide, and never of a test family."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stowplan.core.domain import CPU, Workflow
from stowplan.errors import InvalidFile, InvalidInput
from stowplan.learn.scenarios import TEST_FAMILIES, Ranges, Scenario, Split, draw_scenario, load_recordings
from stowplan.learn.scenarios.draw import seed_of
from stowplan.learn.scenarios.machines import draw_factors, draw_types
from stowplan.simulate.simulator import Simulation
from stowplan.simulate.work_rules import pod_shape

RECORDINGS = load_recordings(None, Split.TRAINING)


def draw(
    number: int, *, split: Split = Split.TRAINING, difficulty: float = 1.0, **ranges: object
) -> Scenario:
    return draw_scenario(
        RECORDINGS,
        Ranges(**{"most_tasks": 400, **ranges}),  # pyright: ignore[reportArgumentType]
        base_seed=1,
        split=split,
        number=number,
        difficulty=difficulty,
    )


def test_the_same_arguments_give_the_same_scenario() -> None:
    one, other = draw(3), draw(3)
    assert one.cluster == other.cluster
    assert one.workload == other.workload
    assert (one.seed, one.faults, one.options) == (other.seed, other.faults, other.options)


def test_numbers_and_splits_give_other_scenarios() -> None:
    seen = {draw(number).seed for number in range(20)}
    assert len(seen) == 20
    assert draw(0, split=Split.VALIDATION).seed not in seen
    keys = {seed_of(1, split, 5).spawn_key for split in Split}
    assert len(keys) == len(Split)


def test_no_recording_of_a_test_family_is_trained_on() -> None:
    trained = {w.family for workflows in RECORDINGS.values() for w in workflows}
    tested = {w.family for workflows in load_recordings(None, Split.TEST).values() for w in workflows}
    assert trained == {"1000genome", "srasearch", "blast", "montage"}
    assert tested == {"epigenomics", "bwa", "atacseq", "chipseq", "cutandrun", "mag", "methylseq"}
    assert not set(RECORDINGS) & set(TEST_FAMILIES)


def test_a_test_recording_in_a_training_folder_is_refused(shared_data: Path, tmp_path: Path) -> None:
    source = next((shared_data / "wfinstances" / "bwa").glob("*.json.gz"))
    (tmp_path / "blast").mkdir()
    shutil.copy(source, tmp_path / "blast")
    with pytest.raises(InvalidInput, match=r"family 'bwa', not 'blast'"):
        load_recordings(tmp_path, Split.TRAINING)


def test_the_public_recordings_are_split_by_family(shared_data: Path) -> None:
    found = load_recordings(shared_data / "wfinstances", Split.TRAINING)
    assert {"1000genome", "srasearch", "soykb", "montage"} <= set(found)
    assert not set(found) & set(TEST_FAMILIES)


def test_a_folder_without_a_family_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match="no folder of a training family"):
        load_recordings(tmp_path, Split.TRAINING)


@pytest.mark.parametrize("number", range(12))
def test_every_scenario_can_be_simulated(number: int) -> None:
    scenario = draw(number, gpu_share=0.5, fault_share=0.9)
    simulation = Simulation(
        scenario.cluster,
        scenario.workload,
        "srpt",
        seed=scenario.seed,
        faults=scenario.faults,
        options=scenario.options,
    )
    for _ in range(20):
        simulation.step()
    largest = max(node.allocatable[CPU] for node in scenario.cluster.nodes)
    assert all(
        task.shape.requests[CPU] <= largest
        for s in scenario.workload.submissions
        for task in s.workflow.tasks
    )
    assert scenario.workload.task_count <= 400
    assert scenario.time_scale_s > 0.0


def test_scenarios_are_wide() -> None:
    drawn = [draw(number, gpu_share=0.3) for number in range(40)]
    assert len({len(scenario.cluster) for scenario in drawn}) > 10
    assert any(scenario.cluster.background for scenario in drawn)
    assert any(scenario.cluster.drift for scenario in drawn)
    kinds = {rule.kind for scenario in drawn for rule in scenario.faults.rules}
    assert {"disk-stall", "rack-outage", "pcie-link-down"} <= {kind.value for kind in kinds}
    assert any(scenario.without for scenario in drawn)
    families = {s.workflow.family for scenario in drawn for s in scenario.workload.submissions}
    assert families == {"1000genome", "srasearch", "blast", "montage", "synthetic"}


def test_the_easy_end_has_nothing_hidden() -> None:
    for number in range(10):
        scenario = draw(number, difficulty=0.0)
        assert not scenario.cluster.background
        assert not scenario.cluster.drift
        assert not scenario.faults.rules
        assert not scenario.without
        assert len(scenario.cluster) == Ranges().nodes[0]


def test_expected_durations_are_the_works_unless_estimates_are_off() -> None:
    def off(scenario: Scenario) -> bool:
        tasks = (task for s in scenario.workload.submissions for task in s.workflow.tasks)
        return any(abs(task.expected_s - task.work.alone_s) > 1e-2 for task in tasks)

    assert not off(draw(1, estimate_error_share=0.0))
    assert off(draw(1, estimate_error_share=1.0))


def test_machine_factors_are_spread_as_measured_ones_are() -> None:
    rng = np.random.default_rng(0)
    types = draw_types(rng, Ranges(machine_types=(4, 4), heterogeneity=(0.3, 0.3)), has_gpus=False)
    factors = draw_factors(rng, types, 4000)
    quartiles = np.quantile(factors, (0.25, 0.5, 0.75), axis=0)
    spread = quartiles[2] / quartiles[0]
    assert ((spread > 1.1) & (spread < 2.5)).all()  # Lotaru's machines: 1.2 to 1.5
    slowest = int(np.argmin([kind.log_speed for kind in types]))
    assert quartiles[1].argmax() == slowest


@pytest.mark.parametrize(
    ("ranges", "message"),
    [
        ({"nodes": (8, 4)}, "nodes is 8 to 4"),
        ({"load": (0.0, 1.0)}, "load is 0.0 to 1.0"),
        ({"tenant_share": 1.5}, "tenant_share is 1.5"),
        ({"most_tasks": 0}, "most_tasks is 0"),
    ],
)
def test_ranges_that_hold_nothing_are_refused(ranges: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Ranges(**ranges)  # pyright: ignore[reportArgumentType]


def test_workflows_that_fit_nowhere_are_named() -> None:
    huge = next(iter(RECORDINGS["srasearch"]))
    with pytest.raises(InvalidInput, match="no workflow of srasearch fits"):
        draw_scenario(
            {"srasearch": (_with_cores(huge, 1000),)},
            Ranges(synthetic_share=0.0, redrawn_share=0.0, gpu_share=0.0),
            base_seed=1,
            split=Split.TRAINING,
            number=0,
        )


def _with_cores(workflow: Workflow, cores: int) -> Workflow:
    shape = pod_shape(1000 * cores, 1 << 30)
    return replace(workflow, tasks=tuple(replace(task, shape=shape) for task in workflow.tasks))
