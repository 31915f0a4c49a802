"""The comparison with the real kube-scheduler tells every kind of difference, and only those."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from testbed.differential.oracle import Invalid, InvalidObject, PodVerdict, Refusal, Verdicts
from testbed.differential.real_comparison import compare_real, expected_reasons, reasons_in
from testbed.differential.real_scheduler import Outcome, RealAnswer, RealVerdict, Refused
from testbed.differential.real_scores import ScoreLog, totals_in

NODES = ("n0", "n1", "n2")
PLUGINS = ("SchedulingGates", "NodeAffinity", "NodeResourcesFit", "VolumeBinding")
_DEVICES = "DynamicResources"
FIT = PLUGINS.index("NodeResourcesFit") + 1


def bitmap(*nodes: str) -> bytes:
    return np.packbits([name in nodes for name in NODES], bitorder="little").tobytes()


def node(name: str, cpu: str) -> dict[str, Any]:
    room = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"allocatable": room}}


def objects(cpu: str = "1", **status: str) -> list[dict[str, Any]]:
    """Three nodes, of which n0 has no room for the pod; n2 has the most."""
    resources = {"requests": {"cpu": cpu, "memory": "1Gi"}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "img", "resources": resources}]},
        "status": status,
    }
    return [node("n0", "500m"), node("n1", "4"), node("n2", "8"), pod]


NO_ROOM = Refusal("NodeResourcesFit", "Filter", "Unschedulable", "Insufficient cpu", bitmap("n0"))
# TaintToleration, then NodeResourcesFit (CPU and memory left in per cent, the mean), then their balance.
TOTALS = {"n1": 300 + 81 + 71, "n2": 300 + 87 + 75}
ORACLE = PodVerdict(
    refused={"NodeResourcesFit": bitmap("n0")},
    first=bytes([FIT, 0, 0]),
    feasible=bitmap("n1", "n2"),
    total=tuple(TOTALS.values()),
    reasons=(NO_ROOM,),
)
REAL = RealVerdict(Outcome.CHOSEN, frozenset({"n1", "n2"}), "n2", "recorded and not bound", TOTALS)


def kinds(
    real: RealVerdict = REAL,
    oracle: PodVerdict = ORACLE,
    *,
    written: list[dict[str, Any]] | None = None,
    held: list[dict[str, Any]] | None = None,
) -> list[str]:
    case = written or objects()
    answer = RealAnswer({"default/p": real}, tuple(held or case))
    tally = compare_real(case, answer, Verdicts(NODES, PLUGINS, {"default/p": oracle}))
    assert tally.cases == 1
    assert tally.different == len(tally.mismatches)
    return [mismatch.kind for mismatch in tally.mismatches]


def test_where_all_agree_nothing_is_told_and_all_is_counted() -> None:
    answer = RealAnswer({"default/p": REAL}, tuple(objects()))
    tally = compare_real(objects(), answer, Verdicts(NODES, PLUGINS, {"default/p": ORACLE}))
    assert tally.mismatches == []
    assert (tally.judgements, tally.feasible, tally.outcomes) == (3, 2, {"CHOSEN": 1})
    assert (tally.chosen, tally.chosen_in_our_best, tally.chosen_in_oracle_best) == (1, 1, 1)
    assert (tally.scored, tally.our_totals_equal) == (1, 1)


def test_a_node_that_only_the_real_one_refuses_is_told_of_all_three() -> None:
    real = replace(REAL, feasible=frozenset({"n2", "n1"} - {"n1"}), totals={})
    assert kinds(real) == ["feasible", "held", "oracle"]


def test_what_differs_only_as_the_server_held_it_is_told_apart() -> None:
    held = objects()
    held[0]["status"]["allocatable"]["cpu"] = "4"
    assert kinds(held=held) == ["held"]


def test_an_oracle_that_refuses_another_node_is_told() -> None:
    oracle = msgspec.structs.replace(ORACLE, feasible=bitmap("n2"), total=(TOTALS["n2"],))
    assert kinds(oracle=oracle) == ["oracle", "oracle-scores"]


def test_a_choice_that_is_not_the_best_is_told_of_both() -> None:
    assert kinds(replace(REAL, chosen="n1")) == ["oracle-best", "best"]


def test_one_score_that_is_not_the_oracles_is_told() -> None:
    assert kinds(replace(REAL, totals=TOTALS | {"n1": TOTALS["n1"] + 1})) == ["oracle-scores"]


def test_where_the_nominated_node_fits_ours_must_be_that_one_and_no_other() -> None:
    nominated = replace(REAL, nominated="n1")  # of all, kube-scheduler would take n2
    assert kinds(nominated, written=objects(nominatedNodeName="n1")) == []
    assert kinds(nominated) == ["best"]


@pytest.mark.parametrize(
    ("outcome", "differs"),
    [
        (Outcome.NEVER_QUEUED, ["outcome"]),
        (Outcome.GAVE_UP, ["outcome"]),
        (Outcome.UNSCHEDULABLE, ["outcome", "words"]),
    ],
)
def test_what_becomes_of_the_pod_is_told(outcome: Outcome, differs: list[str]) -> None:
    real = RealVerdict(outcome, frozenset({"n1", "n2"}), None, "")
    assert kinds(real) == differs


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        (Outcome.GAVE_UP, {"failed": "no region"}),
        (Outcome.GAVE_UP, {"unscored": "running PreScore plugin"}),
        (Outcome.CRASHED, {"unscored": "panicked: nil pointer"}),
    ],
)
def test_an_error_or_a_crash_is_expected_where_the_oracle_has_one(
    outcome: Outcome, said: dict[str, str]
) -> None:
    """No node is known to have passed then, where kube-scheduler did not come as far as its extender."""
    ended = RealVerdict(outcome, frozenset(), None, "it said why")
    oracle = msgspec.structs.replace(ORACLE, **said)
    assert kinds(ended, oracle) == []
    assert kinds(replace(ended, feasible=REAL.feasible), oracle) == []
    assert kinds(replace(ended, feasible=frozenset({"n2"})), oracle) == ["feasible", "held", "oracle"]
    assert kinds(ended) == ["outcome"]
    assert kinds(REAL, oracle) == ["outcome"]


def _first(verdict: PodVerdict, refusal: Refusal, *nodes: str) -> PodVerdict:
    number = PLUGINS.index(refusal.plugin) + 1
    first = bytes(number if name in nodes else was for name, was in zip(NODES, verdict.first, strict=True))
    return msgspec.structs.replace(verdict, first=first, reasons=(*verdict.reasons, refusal))


def test_a_pod_that_is_kept_out_of_the_queue_fits_nowhere() -> None:
    gated = objects()
    gated[-1]["spec"]["schedulingGates"] = [{"name": "example.com/later"}]
    gate = Refusal("SchedulingGates", "PreEnqueue", "Unschedulable", "waiting", bitmap(*NODES))
    oracle = PodVerdict(
        refused={"SchedulingGates": bitmap(*NODES)},
        first=bytes([1, 1, 1]),
        feasible=bitmap(),
        reasons=(gate,),
    )
    out = RealVerdict(Outcome.NEVER_QUEUED, frozenset(), None, "")
    assert kinds(out, oracle, written=gated) == []
    assert "feasible" in kinds(out, oracle)


def test_devices_that_kube_scheduler_sees_to_are_left_alone() -> None:
    """We refuse such pods everywhere on purpose; where kube-scheduler does so itself, that is compared."""
    claiming = objects()
    claiming[-1]["spec"]["resourceClaims"] = [{"name": "d", "resourceClaimName": "gpu"}]
    assert kinds(written=claiming) == []
    assert (
        kinds(REAL, msgspec.structs.replace(ORACLE, refused={_DEVICES: bitmap("n0")}), written=claiming) == []
    )
    nowhere = PodVerdict(refused={_DEVICES: bitmap(*NODES)}, first=bytes([4] * 3), feasible=bitmap())
    none = RealVerdict(Outcome.UNSCHEDULABLE, frozenset(), None, "")
    assert "feasible" not in kinds(none, nowhere, written=claiming)
    assert "feasible" in kinds(none, nowhere)


def test_other_counts_of_reasons_are_told() -> None:
    nowhere = msgspec.structs.replace(
        ORACLE,
        first=bytes([FIT] * 3),
        feasible=bitmap(),
        total=(),
        reasons=(msgspec.structs.replace(NO_ROOM, nodes=bitmap(*NODES)),),
    )
    said = "0/3 nodes are available: {} Insufficient cpu."
    real = RealVerdict(Outcome.UNSCHEDULABLE, frozenset(), None, said.format(3))
    assert kinds(real, nowhere, written=objects(cpu="9")) == []
    assert kinds(replace(real, message=said.format(2)), nowhere, written=objects(cpu="9")) == ["words"]


def test_what_only_one_of_them_takes_is_told() -> None:
    invalid = Invalid((InvalidObject("Node", "n0", "bad label"),))
    verdicts = Verdicts(NODES, PLUGINS, {"default/p": ORACLE})
    answer = RealAnswer({"default/p": REAL}, tuple(objects()))
    assert compare_real(objects(), Refused("bad label"), invalid).mismatches == []
    assert [one.kind for one in compare_real(objects(), Refused("bad label"), verdicts).mismatches] == [
        "refused"
    ]
    assert [one.kind for one in compare_real(objects(), answer, invalid).mismatches] == ["refused"]


def test_sums_add_up() -> None:
    answer = RealAnswer({"default/p": replace(REAL, chosen="n1")}, tuple(objects()))
    verdicts = Verdicts(NODES, PLUGINS, {"default/p": ORACLE})
    tally = compare_real(objects(), answer, verdicts)
    tally.add(compare_real(objects(), answer, verdicts))
    assert (tally.clusters, tally.cases, tally.judgements, tally.outcomes) == (2, 2, 6, {"CHOSEN": 2})
    assert tally.differing == {"best": 2, "oracle-best": 2}
    assert len(tally.mismatches) == tally.different == 4


# ---- words and scores ----


def test_reasons_are_read_from_the_message() -> None:
    message = (
        "0/50 nodes are available: 1 Too many pods, 3 node(s) had untolerated taint(s), 46 Insufficient cpu."
    )
    assert reasons_in(message) == {
        "Too many pods": 1,
        "node(s) had untolerated taint(s)": 3,
        "Insufficient cpu": 46,
    }
    whole = "0/50 nodes are available: pod has unbound immediate PersistentVolumeClaims."
    assert reasons_in(whole) == {"pod has unbound immediate PersistentVolumeClaims": 1}


def test_the_reasons_to_expect_are_those_of_the_filter_that_comes_first() -> None:
    late = Refusal("VolumeBinding", "Filter", "Unschedulable", "node(s) had conflict", bitmap("n0", "n1"))
    two = msgspec.structs.replace(NO_ROOM, reason="Insufficient cpu, Insufficient memory")
    oracle = _first(msgspec.structs.replace(ORACLE, reasons=(two,)), late, "n1")
    expected = {"Insufficient cpu": 1, "Insufficient memory": 1, "node(s) had conflict": 1}
    assert expected_reasons(Verdicts(NODES, PLUGINS, {}), oracle) == expected


def test_nodes_that_were_left_out_have_one_reason_with_the_plugins_that_did() -> None:
    left_out = Refusal("NodeAffinity", "PreFilterResult", "x", "node is left out", bitmap("n1", "n2"))
    oracle = msgspec.structs.replace(
        _first(ORACLE, left_out, "n1", "n2"), ruled_out={"NodeAffinity": bitmap("n1", "n2")}
    )
    expected = {"Insufficient cpu": 1, "node(s) didn't satisfy plugin(s) [NodeAffinity]": 2}
    assert expected_reasons(Verdicts(NODES, PLUGINS, {}), oracle) == expected


def test_words_are_not_compared_where_the_nominated_node_was_left_out_and_tried_all_the_same() -> None:
    everywhere = bitmap(*NODES)
    left_out = Refusal("NodeAffinity", "PreFilterResult", "x", "node is left out", everywhere)
    nowhere = msgspec.structs.replace(
        _first(ORACLE, left_out, *NODES), feasible=bitmap(), total=(), ruled_out={"NodeAffinity": everywhere}
    )
    said = (
        "0/3 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, "
        "2 node(s) didn't satisfy plugin(s) [NodeAffinity]."
    )
    real = RealVerdict(Outcome.UNSCHEDULABLE, frozenset(), None, said)
    assert kinds(real, nowhere, written=objects(cpu="9", nominatedNodeName="n1")) == []
    assert kinds(real, nowhere, written=objects(cpu="9")) == ["words"]


def test_a_pod_refused_as_a_whole_has_its_reason_once() -> None:
    whole = Refusal("VolumeBinding", "PreFilter", "x", "pod has unbound immediate claims", bitmap(*NODES))
    oracle = _first(ORACLE, whole, *NODES)
    assert expected_reasons(Verdicts(NODES, PLUGINS, {}), oracle) == Counter({whole.reason: 1})


LINE = (
    'I1130 16:48:34.200226   14492 schedule_one.go:1052] "Calculated node\'s final score for pod" '
    'pod="{}" node="{}" score={}\n'
)


def test_scores_are_read_from_the_log_by_pod() -> None:
    text = (
        LINE.format("red/p", "n1", 714)
        + 'I1130 16:48:34.198875 14492 schedule_one.go:984] "Plugin scored node for pod" pod="red/p" '
        'plugin="TaintToleration" node="n1" score=300\n'
        + LINE.format("red/p", "n2", 695)
        + LINE.format("red/other", "n1", 1)
    )
    assert totals_in(text, "red/p") == {"n1": 714, "n2": 695}
    assert totals_in(text, "red/third") == {}


def test_a_log_is_read_on_from_where_it_was_left(tmp_path: Path) -> None:
    log = tmp_path / "log"
    before = ScoreLog(log)
    log.write_text(LINE.format("red/p", "n1", 1))
    assert before.totals("red/p") == {"n1": 1}
    assert ScoreLog(log).totals("red/p") == {}  # begun after that line
    with log.open("a") as opened:
        opened.write(LINE.format("red/p", "n1", 2))
    assert before.totals("red/p") == {"n1": 2}
