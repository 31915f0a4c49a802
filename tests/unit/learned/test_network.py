"""The network in PyTorch: how it begins, that what fills up a batch has no effect, and the same in NumPy."""

import math
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.core.policy.learned.decision import Groups, Pointers, joined_keys
from stowplan.core.policy.learned.sizes import NetworkSizes
from stowplan.errors import InvalidInput
from tests.learned_cases import NO_TORCH

torch = pytest.importorskip("torch", reason=NO_TORCH)
from torch import Tensor  # noqa: E402

from stowplan.learn.network import (  # noqa: E402
    FIRST_ALPHA,
    FIRST_SPREAD,
    FIRST_WAIT,
    PolicyNetwork,
    TaskSide,
)
from stowplan.learn.network_decision import (  # noqa: E402
    choice_logits,
    log_slowdown,
    log_spread,
    orders,
    pointers,
)

SIZES = NetworkSizes(
    task_features=9, cluster_features=5, node_features=7, width=16, heads=2, feed_forward=24, node_hidden=20
)


def network(*, is_trained: bool = True) -> PolicyNetwork:
    torch.manual_seed(3)
    made = PolicyNetwork(SIZES).eval()
    if is_trained:
        with torch.no_grad():
            torch.nn.init.normal_(made.group_head.weight, std=0.3)
            torch.nn.init.normal_(made.value_head.weight, std=0.3)
    return made


class Cycle(NamedTuple):
    tasks: Tensor
    position: Tensor
    cluster: Tensor
    nodes: Tensor

    def said(
        self, made: PolicyNetwork, is_group: Tensor | None = None, is_node: Tensor | None = None
    ) -> tuple[Tensor, TaskSide]:
        """Return the rows of the nodes, and what is said of the groups."""
        rows = made.node_side(self.nodes)
        pooled = made.pool(rows, is_node)
        return rows, made.task_side(self.tasks, self.position, self.cluster, pooled, is_group)


def cycle(groups: int, nodes: int, batch: int = 1) -> Cycle:
    torch.manual_seed(0)
    return Cycle(
        torch.randn(batch, groups, SIZES.task_features),
        torch.randint(0, 50, (batch, groups, 4)).float(),
        torch.randn(batch, SIZES.cluster_features),
        torch.randn(batch, nodes, SIZES.node_features),
    )


def test_untrained_it_orders_by_remaining_work_and_takes_the_node_that_the_prior_prefers() -> None:
    with torch.inference_mode():
        nodes, said = cycle(6, 11).said(network(is_trained=False))
        prior = torch.randn(1, 6)
        known = torch.rand(1, 6, 11)
        assert torch.equal(orders(SIZES, said.groups, prior), prior)
        assert torch.equal(log_slowdown(SIZES, said.groups, nodes), torch.zeros(1, 6, 11))
        pointer = pointers(SIZES, said.groups, nodes, known)
        assert torch.allclose(pointer, -FIRST_ALPHA * known)
        spread = log_spread(SIZES, said.groups, nodes)
        assert torch.allclose(spread, torch.full((1, 6, 11), math.log(FIRST_SPREAD)))
        assert torch.equal(said.groups[..., SIZES.group_columns["wait"]], torch.full((1, 6, 1), FIRST_WAIT))
        assert torch.equal(said.value, torch.zeros(1))


def test_what_is_learned_of_slowdowns_alone_leaves_placing_as_it_is() -> None:
    made = network(is_trained=False)
    seen, known = cycle(6, 11), torch.rand(1, 6, 11)
    optimizer = torch.optim.Adam(made.parameters(), 0.01)
    for _ in range(20):
        nodes, said = seen.said(made)
        optimizer.zero_grad()
        (log_slowdown(SIZES, said.groups, nodes) - 1.0).square().mean().backward()
        optimizer.step()
    with torch.inference_mode():
        nodes, said = seen.said(made)
        assert log_slowdown(SIZES, said.groups, nodes).min() > 0.1
        assert torch.allclose(pointers(SIZES, said.groups, nodes, known), -FIRST_ALPHA * known, rtol=1e-4)


def filled(rows: Tensor) -> Tensor:
    """Return three more rows, of no meaning."""
    return torch.cat((rows, torch.full((1, 3, rows.shape[2]), 7.0)), dim=1)


def test_what_fills_up_a_batch_changes_nothing() -> None:
    made = network()
    seen = cycle(5, 4)
    with torch.inference_mode():
        rows, alone = seen.said(made)
        tasks, position, nodes = (filled(one) for one in (seen.tasks, seen.position, seen.nodes))
        is_group, is_node = torch.arange(8)[None] < 5, torch.arange(7)[None] < 4
        more_rows, more = Cycle(tasks, position, seen.cluster, nodes).said(made, is_group, is_node)
    assert torch.allclose(more_rows[:, :4], rows, atol=1e-6)
    assert torch.allclose(more.groups[:, :5], alone.groups, atol=1e-5)
    assert torch.allclose(more.value, alone.value, atol=1e-5)


def test_groups_see_one_another_and_nodes_do_not() -> None:
    made = network()
    seen = cycle(4, 3)
    with torch.inference_mode():
        rows, said = seen.said(made)
        seen.tasks[0, 3] += 1.0
        seen.nodes[0, 2] += 1.0
        other_rows, _ = seen.said(made)
        other = made.task_side(seen.tasks, seen.position, seen.cluster, made.pool(rows))
    assert not torch.allclose(other.groups[0, 0], said.groups[0, 0])
    assert torch.allclose(other_rows[0, :2], rows[0, :2], atol=1e-6)


def test_the_order_of_groups_and_of_nodes_does_not_matter() -> None:
    made = network()
    tasks, position, cluster, nodes = seen = cycle(6, 8)
    groups, places = torch.randperm(6), torch.randperm(8)
    with torch.inference_mode():
        _, said = seen.said(made)
        _, other = Cycle(tasks[:, groups], position[:, groups], cluster, nodes[:, places]).said(made)
    assert torch.allclose(other.groups, said.groups[:, groups], atol=1e-5)


def test_a_cycle_without_nodes_pools_to_zeros() -> None:
    made = network()
    with torch.inference_mode():
        rows = made.node_side(torch.zeros(2, 0, SIZES.node_features))
        assert torch.equal(made.pool(rows), torch.zeros(2, SIZES.pooled_width))
        rows = made.node_side(torch.randn(1, 3, SIZES.node_features))
        none = torch.zeros(1, 3, dtype=torch.bool)
        assert torch.equal(made.pool(rows, none), torch.zeros(1, SIZES.pooled_width))


def test_what_is_not_feasible_is_impossible_and_a_wait_is_always_left() -> None:
    groups = torch.zeros(1, 3, SIZES.group_width)
    groups[..., SIZES.group_columns["wait"]] = -1.0
    pointer = torch.tensor([[[1.0, 2.0, 3.0]] * 3])
    feasible = torch.tensor([[[True, True, False], [False, False, False], [True, True, True]]])
    free = choice_logits(SIZES, groups, pointer, feasible, torch.tensor([True]))
    assert free[0, 0].tolist() == [1.0, 2.0, -math.inf, 1.0]
    assert free[0, 1].tolist() == [-math.inf] * 3 + [-1.0]
    assert free[0, 2].tolist() == [1.0, 2.0, 3.0, 2.0]
    bound = choice_logits(SIZES, groups, pointer, feasible, torch.tensor([False]))
    assert bound[0, 0].tolist() == [1.0, 2.0, -math.inf, -math.inf]
    assert bound[0, 1].softmax(-1).tolist() == [0.0, 0.0, 0.0, 1.0]
    none = choice_logits(SIZES, groups, pointer[..., :0], feasible[..., :0], torch.tensor([False]))
    assert none.softmax(-1).tolist() == [[[1.0]] * 3]


def test_every_parameter_learns() -> None:
    made = network()
    nodes, said = cycle(6, 5, batch=2).said(made)
    spread = log_spread(SIZES, said.groups, nodes).sum()
    pointer = pointers(SIZES, said.groups, nodes, torch.rand(2, 6, 5)).square().sum()
    order = orders(SIZES, said.groups, torch.zeros(2, 6)).square().sum()
    rest = said.groups[..., SIZES.group_columns["wait"].start :].square().sum()
    (pointer + spread + order + rest + said.value.square().sum()).backward()
    idle = [name for name, one in made.named_parameters() if one.grad is None or not one.grad.abs().sum()]
    assert idle == []


@settings(max_examples=40)
@given(groups=st.integers(1, 40), nodes=st.integers(0, 30), seed=st.integers(0, 999))
def test_numpy_says_what_pytorch_says(groups: int, nodes: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(groups, SIZES.group_width)).astype(np.float32)
    node_rows = rng.normal(size=(nodes, SIZES.node_width)).astype(np.float32)
    known = rng.normal(size=(groups, nodes)).astype(np.float32)
    asked = torch.from_numpy(rows)[None], torch.from_numpy(node_rows)[None]
    served = Groups(SIZES, rows)
    pointer = pointers(SIZES, *asked, torch.from_numpy(known)[None])[0].numpy()
    assert Pointers(served).of(joined_keys(SIZES, node_rows), known) == pytest.approx(pointer, abs=1e-4)
    slowdown, spread = log_slowdown(SIZES, *asked)[0].numpy(), log_spread(SIZES, *asked)[0].exp().numpy()
    for group, node in zip(range(groups), range(nodes), strict=False):
        assert served.log_slowdown(group, node_rows[node]) == pytest.approx(slowdown[group, node], abs=1e-4)
        assert served.spread(group, node_rows[node]) == pytest.approx(spread[group, node], rel=1e-4)
    prior = torch.zeros(1, groups)
    assert served.order == pytest.approx(orders(SIZES, asked[0], prior)[0].numpy())


def test_sizes_that_no_network_can_have_are_refused() -> None:
    with pytest.raises(InvalidInput, match="network: layers is 0; it must be at least 1"):
        NetworkSizes(task_features=1, cluster_features=1, node_features=1, layers=0)
    with pytest.raises(InvalidInput, match="3 heads cannot share a width of 64"):
        NetworkSizes(task_features=1, cluster_features=1, node_features=1, heads=3)
