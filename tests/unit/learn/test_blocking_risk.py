"""Blocked tasks: what they are, against the simulator's own results, and models that foretell them."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from stowplan.core.encoder import SCHEMA, Encoder
from stowplan.core.policy.learned.sizes import NetworkShape
from stowplan.errors import InvalidInput
from stowplan.learn.ablations.fitting import fit, foretell
from stowplan.learn.ablations.models import OURS, PEER, VARIANTS, make_risk
from stowplan.learn.ablations.observations import (
    Observations,
    joined,
    load_observations,
    save_observations,
)
from stowplan.learn.ablations.scores import accuracy, auroc, drawn_again
from stowplan.learn.ablations.watching import Watcher, observe
from stowplan.learn.blocked import LEAST_MARGIN_S, allowed_s, is_blocked
from stowplan.learn.episodes import simulation_of
from stowplan.learn.export import sizes_of_schema
from stowplan.learn.rollouts import Job, Worker
from stowplan.learn.rules import make_rule
from stowplan.learn.settings import Settings

RULE = "srpt-fastest"


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Networks this small only wait for each other on more."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def seen(worker: Worker) -> Observations:
    return observe(worker.scenario(Job(number=5)), make_rule(RULE), Encoder(), 10_000)


def raw(**known: float) -> np.ndarray:
    row = np.full((1, len(SCHEMA.task.columns)), np.nan)
    for name, value in known.items():
        row[0, SCHEMA.task.places[name]] = value
    return row


def test_a_task_may_use_its_slack_and_a_tenth_of_the_path() -> None:
    bar_s = allowed_s(raw(expected_s=100.0, slack_s=60.0, critical_path_s=400.0, mean_factor=2.0))
    assert bar_s.item() == pytest.approx(2.0 * (100.0 + 60.0 + 40.0))


def test_a_short_path_has_the_least_margin_and_no_factor_is_one() -> None:
    bar_s = allowed_s(raw(expected_s=3.0, slack_s=0.0, critical_path_s=4.0))
    assert bar_s.item() == pytest.approx(3.0 + LEAST_MARGIN_S)


def test_what_did_not_end_is_blocked_once_it_is_late_and_unknown_before() -> None:
    took_s = np.array([5.0, 15.0, np.nan, np.nan, 15.0])
    bar_s = np.array([10.0, 10.0, 10.0, 30.0, np.nan])
    assert_array_equal(is_blocked(took_s, 20.0, bar_s), [0.0, 1.0, 1.0, np.nan, np.nan])


def test_labels_are_those_of_the_simulators_own_frame(worker: Worker) -> None:
    scenario = worker.scenario(Job(number=5))
    watcher = Watcher(make_rule(RULE), Encoder(), np.random.default_rng(1), 1.0)
    simulation = simulation_of(scenario, watcher)
    while not simulation.is_over:
        simulation.step()
    found = observe(scenario, make_rule(RULE), Encoder(), 10_000)
    frame = simulation_of(scenario, make_rule(RULE)).run().tasks
    end_s = {
        f"{row['workflow']}/{row['task']}": row["finished_s"]
        for row in frame.iter_rows(named=True)
        if row["status"] == "done"
    }
    expected = [
        end_s[key] - one.time_s > bar_s
        for one in watcher.seen
        for key, bar_s in zip(one.keys, one.bar_s.tolist(), strict=True)
    ]
    assert_array_equal(found.blocked, expected)
    assert 0.0 < found.blocked.mean() < 1.0


def test_groups_stand_in_order_of_arrival(seen: Observations) -> None:
    """Who waits longest stands first."""
    ends = np.cumsum(seen.groups)
    waiting = seen.task_features[:, SCHEMA.task.places["waiting_s"]]
    assert seen.groups.max() > 2
    for begin, end in zip(ends - seen.groups, ends, strict=True):
        assert (np.diff(waiting[begin:end]) <= 1e-6).all()


def test_observations_come_back_from_disk(seen: Observations, tmp_path: Path) -> None:
    path = tmp_path / "runs" / "one.npz"
    save_observations(seen, path)
    back = load_observations(path)
    assert_array_equal(back.blocked, seen.blocked)
    assert_array_equal(back.node_features, seen.node_features)
    assert [file.name for file in path.parent.iterdir()] == ["one.npz"]


def test_joined_runs_share_no_workflow(seen: Observations) -> None:
    both = joined([seen, seen])
    half = len(seen.blocked)
    assert not set(both.workflow[:half]) & set(both.workflow[half:])
    assert_array_equal(both.groups[len(seen.groups) :], seen.groups)
    with pytest.raises(InvalidInput, match="at least one run"):
        joined([])


@pytest.mark.parametrize("name", VARIANTS)
def test_what_fills_up_a_batch_changes_nothing(name: str, seen: Observations, settings: Settings) -> None:
    torch.manual_seed(1)
    model = make_risk(name, settings.sizes).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.2)
        largest = int(seen.groups.argmax())
        smallest = int(np.flatnonzero(seen.groups < seen.groups[largest])[0])
        alone = model(seen.batch([smallest]))
        together = model(seen.batch([smallest, largest]))
    torch.testing.assert_close(together[0, : alone.shape[1]], alone[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("name", "sees"), [(OURS, True), ("no-position", False), (PEER, False)])
def test_only_ours_sees_the_position(name: str, sees: bool, seen: Observations, settings: Settings) -> None:
    torch.manual_seed(1)
    model = make_risk(name, settings.sizes).eval()
    batch = seen.batch([int(seen.groups.argmax())])
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.2)
        before = model(batch)
        batch.position.add_(3.0)
        assert torch.equal(before, model(batch)) is not sees


def test_without_topology_no_feature_of_the_graph_matters(seen: Observations, settings: Settings) -> None:
    model = make_risk("no-topology", settings.sizes).eval()
    batch = seen.batch([int(seen.groups.argmax())])
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.2)
        before = model(batch)
        batch.task_features[..., SCHEMA.task.places["slack_s"]] += 3.0
        batch.task_features[..., SCHEMA.task.places["children"]] += 3.0
        assert torch.equal(before, model(batch))
        batch.task_features[..., SCHEMA.task.places["waiting_s"]] += 3.0
        assert not torch.equal(before, model(batch))


def test_variants_have_equally_many_parameters() -> None:
    sizes = sizes_of_schema(NetworkShape())
    counts = [
        sum(parameter.numel() for parameter in make_risk(name, sizes).parameters())
        for name in VARIANTS
        if name != "logistic"
    ]
    assert max(counts) / min(counts) < 1.01


@pytest.mark.parametrize("name", [OURS, PEER, "logistic"])
def test_a_model_learns_and_the_same_seed_learns_the_same(
    name: str, seen: Observations, settings: Settings
) -> None:
    known = ~np.isnan(seen.blocked)
    truth = seen.blocked[known] > 0.5
    sizes = settings.sizes
    first = foretell(fit(name, sizes, seen, seed=1, steps=40, batch_cycles=8), seen)
    again = foretell(fit(name, sizes, seen, seed=1, steps=40, batch_cycles=8), seen)
    assert_array_equal(first, again)
    assert auroc(first[known], truth) > 0.7


@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans(), st.integers(0, 3)), min_size=1, max_size=25))
def test_auroc_is_the_share_of_pairs_in_order(rows: list[tuple[int, bool, int]]) -> None:
    scores, truth, counts = (np.array(column) for column in zip(*rows, strict=True))
    pairs = [
        (0.5 if own == other else float(own > other), times * others)
        for own, is_own, times in rows
        for other, is_other, others in rows
        if is_own and not is_other
    ]
    total = sum(weight for _, weight in pairs)
    found = auroc(scores.astype(float), truth, counts.astype(float))
    if total == 0:
        assert np.isnan(found)
    else:
        assert found == pytest.approx(sum(value * weight for value, weight in pairs) / total)


def test_accuracy_counts_rows_as_often_as_they_were_drawn() -> None:
    logits, truth = np.array([1.0, -1.0, 2.0]), np.array([True, True, False])
    assert accuracy(logits, truth) == pytest.approx(1 / 3)
    assert accuracy(logits, truth, np.array([2.0, 1.0, 1.0])) == pytest.approx(0.5)


def test_intervals_hold_seeds_and_whole_workflows() -> None:
    """Rows of one workflow come and go together: of two workflows, one all right and one all wrong."""
    workflow = np.repeat(np.arange(2), 50)
    right = workflow == 0
    centre, low, high = drawn_again(
        lambda _seed, weights: float(np.average(right, weights=weights)),
        seeds=2,
        workflow=workflow,
        draws=200,
        rng=np.random.default_rng(1),
    )
    assert (centre, low, high) == (0.5, 0.0, 1.0)
    _, low, high = drawn_again(
        lambda seed, _weights: float(seed),
        seeds=2,
        workflow=workflow,
        draws=200,
        rng=np.random.default_rng(1),
    )
    assert (low, high) == (0.0, 1.0)
