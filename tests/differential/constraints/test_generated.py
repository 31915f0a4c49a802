"""A slice of the differential test; `python -m testbed.differential` judges as many cases as one likes."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from stowplan.core.preemption import BudgetBook
from testbed.differential.findings import keep_findings
from testbed.differential.generator import EMPHASES, generate
from testbed.differential.kept import expected_of, ours, read_case
from testbed.differential.oracle import Oracle, Verdicts
from testbed.differential.run import run_chunk
from testbed.differential.tally import Mismatch, Tally
from testbed.errors import MissingPrerequisite

pytestmark = pytest.mark.cluster  # it needs a program of the test cluster, though no root

KEPT = sorted((Path(__file__).parents[2] / "golden" / "constraints" / "shrunk").glob("*.json"))
ROUNDS = 3
"""How many clusters of each emphasis."""


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    try:
        with Oracle(has_preemptions=True) as running:
            yield running
    except MissingPrerequisite as missing:
        pytest.skip(str(missing))


def told(tally: Tally) -> str:
    return "\n".join(
        f"{one.kind} {one.filter} seed {one.seed}: {one.ours} | {one.theirs}" for one in tally.mismatches
    )


@pytest.mark.parametrize("part", range(ROUNDS))
def test_we_judge_as_kube_scheduler_does(oracle: Oracle, part: int) -> None:
    seeds = range(part * len(EMPHASES), (part + 1) * len(EMPHASES))
    tally = run_chunk(oracle, seeds, nodes=50)
    assert not tally.mismatches, told(tally)
    assert tally.cases > 90
    assert len(tally.decisive) >= 13  # all filters that an object can make decisive, but for a rare one
    assert tally.best_within == tally.scored > 0


@pytest.mark.parametrize("part", range(ROUNDS))
def test_we_preempt_as_kube_scheduler_does(oracle: Oracle, part: int) -> None:
    tally = run_chunk(oracle, range(25 * part, 25 * (part + 1)), 12, "preemption")
    assert not tally.mismatches, told(tally)
    assert tally.preemptions > 120
    assert tally.helped > 60
    assert tally.ineligible > 4
    assert tally.breaking > 10


def test_controllers_of_pods_spread_them_by_default(oracle: Oracle) -> None:
    tally = run_chunk(oracle, range(12), 50, "owners")
    assert not tally.mismatches, told(tally)
    assert tally.best_within == tally.scored > 30


def test_pods_with_devices_are_left_to_kube_scheduler(oracle: Oracle) -> None:
    """On purpose we refuse them all; what the other filters say of them is the same."""
    tally = run_chunk(oracle, range(12), 50, "devices")
    assert not tally.mismatches, told(tally)
    assert tally.left_alone > 10


def test_every_kind_of_object_and_pod_occurs(oracle: Oracle) -> None:
    """Also those that real clusters rarely have; the generator would else lose them unnoticed."""
    kinds: Counter[str] = Counter()
    pods: Counter[str] = Counter()
    for seed in range(2 * len(EMPHASES)):
        for one in generate(seed).objects:
            kinds[one["kind"]] += 1
            if one["kind"] == "Pod":
                pods += Counter((*one["spec"], *one.get("status", ())))
    assert {"CSINode", "CSIDriver", "CSIStorageCapacity", "VolumeAttachment", "PriorityClass"} <= set(kinds)
    assert {"nominatedNodeName", "containerStatuses", "overhead", "resources", "schedulingGates"} <= set(pods)
    assert oracle.resident_bytes > 0


@pytest.mark.parametrize("path", KEPT, ids=[path.stem for path in KEPT])
def test_kept_verdicts_are_still_those_of_kube_scheduler(oracle: Oracle, path: Path) -> None:
    case = read_case(path)
    answer = oracle.judge(case.objects)
    assert isinstance(answer, Verdicts)
    for key, said in expected_of(case.objects, answer).items():
        kept = case.pods[key]
        if kept.preemption is None or said.preemption is None:
            assert replace(said, preemption=kept.preemption) == kept
        else:
            assert set(said.preemption.chosen) <= set(said.preemption.victims)  # of equal ones any
            chosen = replace(said.preemption, chosen=kept.preemption.chosen)
            assert replace(said, preemption=chosen) == kept


def test_a_mismatch_becomes_a_file(oracle: Oracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """We pretend to take no notice of cordons; what differs is kept as one node and one pod."""
    del oracle  # built, or this is skipped
    monkeypatch.setattr(
        "stowplan.core.constraints.node_filters.NodeUnschedulable.is_needed", staticmethod(lambda _: False)
    )
    wrong = Mismatch(kind="filter", filter="NodeUnschedulable", seed=0, emphasis="NodeUnschedulable")
    (line,) = keep_findings([wrong], tmp_path, nodes=50)
    (path,) = tmp_path.iterdir()
    assert line.endswith(f"kept as {path}")
    case = read_case(path)
    assert [one["kind"] for one in case.objects] == ["Node", "Pod"]
    (expected,) = case.pods.values()
    assert list(expected.refused["NodeUnschedulable"]) == [case.objects[0]["metadata"]["name"]]


def test_a_mismatch_of_preemption_becomes_a_file(
    oracle: Oracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """We pretend to know no budgets; a node, a budget, and few pods are left."""
    monkeypatch.setattr(BudgetBook, "_covering_budgets", lambda *_: ())
    found = next(
        one
        for seed in range(60)
        for one in run_chunk(oracle, range(seed, seed + 1), 3, "preemption").mismatches
        if one.kind == "victims"
    )
    (line,) = keep_findings([found], tmp_path, nodes=3)
    (path,) = tmp_path.iterdir()
    assert line.endswith(f"kept as {path}")
    case = read_case(path)
    kinds = Counter(one["kind"] for one in case.objects)
    assert kinds["Node"] == kinds["PodDisruptionBudget"] == 1
    assert kinds["Pod"] <= 4
    monkeypatch.undo()
    said = ours(case.objects, has_preemptions=True)
    assert {key: one.preemption for key, one in said.items()} == {
        key: one.preemption for key, one in case.pods.items()
    }


def test_what_does_not_show_again_is_told_and_not_kept(oracle: Oracle, tmp_path: Path) -> None:
    del oracle  # built, or this is skipped
    gone = Mismatch(kind="filter", filter="NodePorts", seed=0, emphasis="NodePorts", pod="blue/p0")
    panic = Mismatch(kind="panic", seed=0, theirs="Filter X: nil")
    lines = list(keep_findings([gone, panic], tmp_path, nodes=5))
    assert "does not show a second time" in lines[0]
    assert lines[1].endswith("Filter X: nil")
    assert not list(tmp_path.iterdir())
