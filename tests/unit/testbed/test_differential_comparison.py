"""The comparison against answers made by hand: it finds each kind of difference, and no other."""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from stowplan.core.constraints import FILTERS
from testbed.differential.comparison import compare
from testbed.differential.kept import Expected, expected_of, ours, read_case, write_case
from testbed.differential.oracle import Invalid, InvalidObject, Panicked, PodVerdict, Verdicts
from testbed.differential.run import Progress, read_progress, seeds_of, summary
from testbed.differential.tally import KEPT_MISMATCHES, Mismatch, Tally
from testbed.errors import BedError

PLUGINS = tuple(name for name in FILTERS if name not in ("SharedGpu", "RuleTable"))
FIT = PLUGINS.index("NodeResourcesFit") + 1


def node(name: str, cpu: str) -> dict[str, Any]:
    labels = {"kubernetes.io/hostname": name}
    allocatable = {"cpu": cpu, "memory": "8Gi", "pods": "10"}
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": allocatable},
    }


def pod(**spec: object) -> dict[str, Any]:
    container = {"name": "c", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}
    return {
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "x"},
        "spec": {"containers": [container], **spec},
    }


OBJECTS = [node("small", "1"), node("large", "8"), node("larger", "16"), pod()]


def bitmap(*places: int) -> bytes:
    mask = np.zeros(3, dtype=bool)
    mask[list(places)] = True
    return np.packbits(mask, bitorder="little").tobytes()


RIGHT = PodVerdict(
    refused={"NodeResourcesFit": bitmap(0)}, first=bytes([FIT, 0, 0]), feasible=bitmap(1, 2), total=(392, 399)
)


def verdicts(**changes: object) -> Verdicts:
    """The right answer about `OBJECTS`, with changes."""
    return Verdicts(("small", "large", "larger"), PLUGINS, {"x/p": msgspec.structs.replace(RIGHT, **changes)})


def kinds(tally: Tally) -> dict[str, int]:
    return tally.differing


def test_the_same_answer_is_no_mismatch() -> None:
    tally = compare(OBJECTS, verdicts())
    assert (tally.clusters, tally.cases, tally.judgements, tally.feasible) == (1, 1, 3, 2)
    assert tally.decisive == tally.decisive_cases == {"NodeResourcesFit": 1}
    assert (tally.scored, tally.best_equal, tally.best_within, tally.different) == (1, 1, 1, 0)


def test_each_kind_of_difference_is_found() -> None:
    other = verdicts(refused={"NodeResourcesFit": bitmap(0), "NodePorts": bitmap(1)})
    (mismatch,) = compare(OBJECTS, other).mismatches
    assert (mismatch.kind, mismatch.filter, mismatch.pod, mismatch.nodes) == (
        "filter",
        "NodePorts",
        "x/p",
        ("large",),
    )
    assert "refused by nothing" in mismatch.ours
    none = verdicts(refused={}, first=bytes(3), feasible=bitmap(0, 1, 2), total=())
    assert kinds(compare(OBJECTS, none)) == {"filter": 1, "feasible": 1, "first": 1}
    named = verdicts(first=bytes([FIT - 1, 0, 0]))
    assert kinds(compare(OBJECTS, named)) == {"first": 1}
    (best,) = compare(OBJECTS, verdicts(total=(399, 392))).mismatches
    assert (best.kind, best.nodes) == ("best", ("large",))


def test_a_filter_that_we_do_not_have_is_a_mismatch() -> None:
    unknown = verdicts(refused={"NodeResourcesFit": bitmap(0), "NewFilter": bitmap(2)})
    assert [one.filter for one in compare(OBJECTS, unknown).mismatches] == ["NewFilter"]


def test_pods_with_resource_claims_are_compared_without_that_filter() -> None:
    objects = [*OBJECTS[:3], pod(resourceClaims=[{"name": "d", "resourceClaimName": "c"}])]
    tally = compare(objects, verdicts(), has_scores=False)
    assert (tally.left_alone, tally.different, tally.decisive) == (1, 0, {"NodeResourcesFit": 1})
    refused = {"NodeResourcesFit": bitmap(0), "DynamicResources": bitmap(0, 1, 2)}
    number = PLUGINS.index("DynamicResources") + 1
    all_of_it = verdicts(refused=refused, first=bytes([number] * 3), feasible=bitmap(), total=())
    tally = compare(objects, all_of_it, has_scores=False)
    assert (tally.left_alone, tally.different, tally.decisive) == (0, 0, {"DynamicResources": 2})


def test_answers_that_are_no_verdict_are_told() -> None:
    invalid = Invalid((InvalidObject("Pod", "x/p", "bad"),))
    assert kinds(compare(OBJECTS, invalid)) == {"invalid": 1}
    assert kinds(compare(OBJECTS, Panicked("x/p", "Filter X n", "nil", ("frame",)))) == {"panic": 1}
    assert kinds(compare([*OBJECTS[:3], pod(priority="high")], verdicts())) == {"loading": 1}


def test_a_kept_case_holds_us_to_the_verdict(tmp_path: Path) -> None:
    answer = verdicts()
    path = write_case(tmp_path / "kept", Mismatch(kind="first", seed=7, nodes=("small",)), OBJECTS, answer)
    case = read_case(path)
    assert path.name == "first-7.json"
    assert case.pods == expected_of(OBJECTS, answer) == ours(case.objects)
    assert case.pods["x/p"] == Expected(
        {"NodeResourcesFit": ["small"]}, {"small": "NodeResourcesFit"}, ["larger"]
    )
    assert ours([*OBJECTS[1:3], pod()]) != case.pods


def test_tallies_add_up_and_keep_some_mismatches() -> None:
    total = Tally()
    for _ in range(KEPT_MISMATCHES + 1):
        one = Tally(cases=2, decisive={"A": 1})
        one.note(Mismatch(kind="first"))
        total.add(one)
    assert (total.cases, total.decisive) == (2 * KEPT_MISMATCHES + 2, {"A": KEPT_MISMATCHES + 1})
    assert total.different == KEPT_MISMATCHES + 1
    assert len(total.mismatches) == KEPT_MISMATCHES


def test_a_run_goes_on_only_from_its_own_tally(tmp_path: Path) -> None:
    path = tmp_path / "tally.json"
    assert read_progress(path, 1, 50).done == []
    known = Progress(seed=1, nodes=50, done=[0, 2], tally=Tally(cases=5))
    path.write_bytes(msgspec.json.encode(known))
    assert read_progress(path, 1, 50) == known
    with pytest.raises(BedError, match=r"is of seed 1 with 50 nodes, not of seed 2 with 50"):
        read_progress(path, 2, 50)
    with pytest.raises(BedError, match=r"with 50 nodes, not of seed 1 with 50 about preemption"):
        read_progress(path, 1, 50, "preemption")
    path.write_text("{")
    with pytest.raises(BedError, match=r"is not the tally of a run"):
        read_progress(path, 1, 50)
    assert "NodePorts" in summary(known)
    assert not set(seeds_of(1, 0)) & set(seeds_of(1, 1))
