"""Records as tensors: cycles filled up to one size, decisions one after the other, and what is said of them.

Rows of nodes are not filled up: all that occur in a batch stand in one table, which the node side reads once,
and cycles and decisions name rows of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stowplan.learn.network import PolicyNetwork
from stowplan.learn.network_decision import choice_logits, log_slowdown, log_spread, orders, pointers
from stowplan.learn.records import CycleRecord

__all__ = ["Batch", "Said", "batches", "collate", "say"]

_NEVER = -1e30  # score of a group that only fills up: finite, so that gradients are


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """B cycles of at most G groups and N nodes, with D decisions and R rows of nodes.

    Attributes:
        task_features, position: (B, G, …) as in `CycleRecord`.
        order_prior: (B, G).
        cluster_features: (B, FC).
        is_group: (B, G) bool.
        nodes: (R, FN).
        first_rows: (B, N) rows of `nodes` as each cycle began; 0 where `is_node` is False.
        is_node: (B, N) bool.
        order: (B, G) groups in the order in which they were taken, what fills up last.
        is_step: (B, G) bool; whether that step of the order mattered.
        order_log_prob: (B, G) of those steps when they were drawn.
        blocked: (B, G), NaN: not known.
        advantage, reward_to_go: (B,).
        cycle, group: (D,) of each decision.
        rows: (D, N) rows of `nodes` when it was made.
        is_feasible: (D, N) bool.
        may_wait: (D,) bool.
        choice: (D,) position of the node, N to wait.
        log_prob: (D,) when it was drawn.
        log_slowdown: (D,), NaN: not known.
        log_prior: (D, N).
    """

    task_features: Tensor
    position: Tensor
    order_prior: Tensor
    cluster_features: Tensor
    is_group: Tensor
    nodes: Tensor
    first_rows: Tensor
    is_node: Tensor
    order: Tensor
    is_step: Tensor
    order_log_prob: Tensor
    blocked: Tensor
    advantage: Tensor
    reward_to_go: Tensor
    cycle: Tensor
    group: Tensor
    rows: Tensor
    is_feasible: Tensor
    may_wait: Tensor
    choice: Tensor
    log_prob: Tensor
    log_slowdown: Tensor
    log_prior: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What the network says of a batch.

    Attributes:
        step_log_prob: (B, G) of each step of the order that was taken.
        choice_log_probs: (D, N + 1) of every choice, −inf where it is not feasible.
        log_slowdown, log_spread: (D,) of the node that was chosen; of no meaning where it was to wait.
        blocking: (B, G) logits.
        value: (B,).
    """

    step_log_prob: Tensor
    choice_log_probs: Tensor
    log_slowdown: Tensor
    log_spread: Tensor
    blocking: Tensor
    value: Tensor


def batches(cycles: Sequence[CycleRecord], size: int, rng: np.random.Generator) -> Iterator[Batch]:
    """Yield all cycles once, in random order, `size` at a time."""
    order: list[int] = rng.permutation(len(cycles)).tolist()
    for begin in range(0, len(order), size):
        yield collate([cycles[index] for index in order[begin : begin + size]])


def collate(cycles: Sequence[CycleRecord]) -> Batch:
    """Return the batch of some cycles, at least one."""
    most_groups = max(len(cycle.keys) for cycle in cycles)
    most_nodes = max(cycle.nodes for cycle in cycles)
    count = len(cycles)
    decisions = [(number, decision) for number, cycle in enumerate(cycles) for decision in cycle.decisions]
    first_row = np.cumsum([0, *(len(cycle.node_features) for cycle in cycles)])
    rows = np.zeros((len(decisions), most_nodes), dtype=np.int64)
    is_feasible = np.zeros((len(decisions), most_nodes), dtype=np.bool_)
    log_prior = np.zeros((len(decisions), most_nodes), dtype=np.float32)
    choice = np.empty(len(decisions), dtype=np.int64)
    for place, (number, decision) in enumerate(decisions):
        nodes = len(decision.rows)
        rows[place, :nodes] = decision.rows + first_row[number]
        is_feasible[place, :nodes] = decision.is_feasible
        log_prior[place, :nodes] = decision.log_prior
        choice[place] = most_nodes if decision.choice == nodes else decision.choice
    first_rows = np.zeros((count, most_nodes), dtype=np.int64)
    is_node = np.zeros((count, most_nodes), dtype=np.bool_)
    order = np.tile(np.arange(most_groups), (count, 1))
    is_step = np.zeros((count, most_groups), dtype=np.bool_)
    for number, cycle in enumerate(cycles):
        nodes = cycle.nodes
        first_rows[number, :nodes] = first_row[number] + np.arange(nodes)
        is_node[number, :nodes] = True
        order[number, : len(cycle.order)] = cycle.order
        is_step[number, : cycle.ordered] = True
    groups = (most_groups,)
    return Batch(
        task_features=_filled([cycle.task_features for cycle in cycles], groups),
        position=_filled([cycle.position for cycle in cycles], groups),
        order_prior=_filled([cycle.order_prior for cycle in cycles], groups),
        cluster_features=_tensor(np.stack([cycle.cluster_features for cycle in cycles])),
        is_group=_filled([np.ones(len(cycle.keys), dtype=np.bool_) for cycle in cycles], groups),
        nodes=_tensor(np.concatenate([cycle.node_features for cycle in cycles])),
        first_rows=_tensor(first_rows),
        is_node=_tensor(is_node),
        order=_tensor(order),
        is_step=_tensor(is_step),
        order_log_prob=_filled([cycle.order_log_prob.astype(np.float32) for cycle in cycles], groups),
        blocked=_filled([cycle.blocked.astype(np.float32) for cycle in cycles], groups, with_value=np.nan),
        advantage=_tensor(np.array([cycle.advantage for cycle in cycles], dtype=np.float32)),
        reward_to_go=_tensor(np.array([cycle.reward_to_go for cycle in cycles], dtype=np.float32)),
        cycle=_tensor(np.array([number for number, _ in decisions], dtype=np.int64)),
        group=_tensor(np.array([decision.group for _, decision in decisions], dtype=np.int64)),
        rows=_tensor(rows),
        is_feasible=_tensor(is_feasible),
        may_wait=_tensor(np.array([decision.may_wait for _, decision in decisions], dtype=np.bool_)),
        choice=_tensor(choice),
        log_prob=_tensor(np.array([decision.log_prob for _, decision in decisions], dtype=np.float32)),
        log_slowdown=_tensor(
            np.array([decision.log_slowdown for _, decision in decisions], dtype=np.float32)
        ),
        log_prior=_tensor(log_prior),
    )


def say(network: PolicyNetwork, batch: Batch, *, order_temperature: float, choice_temperature: float) -> Said:
    """Return what the network says of a batch, with gradients.

    Args:
        network: the network.
        batch: what it is asked about.
        order_temperature: by which the scores of groups are divided, above 0.
        choice_temperature: the same of the logits of nodes and of waiting.
    """
    sizes = network.sizes
    rows = network.node_side(batch.nodes)
    pooled = network.pool(rows[batch.first_rows], batch.is_node)
    said = network.task_side(
        batch.task_features, batch.position, batch.cluster_features, pooled, batch.is_group
    )
    scores = orders(sizes, said.groups, batch.order_prior) / order_temperature
    taken = scores.masked_fill(~batch.is_group, _NEVER).gather(1, batch.order)
    left = torch.logcumsumexp(taken.flip(1), dim=1).flip(1)
    groups = said.groups[batch.cycle, batch.group][:, None, :]
    nodes = rows[batch.rows]
    pointer = pointers(sizes, groups, nodes, batch.log_prior[:, None, :])
    logits = choice_logits(sizes, groups, pointer, batch.is_feasible[:, None, :], batch.may_wait)[:, 0]
    chosen = nodes.gather(1, _chosen(batch, nodes.shape[2]))
    return Said(
        step_log_prob=taken - left,
        choice_log_probs=torch.log_softmax(logits / choice_temperature, dim=-1),
        log_slowdown=log_slowdown(sizes, groups, chosen)[:, 0, 0],
        log_spread=log_spread(sizes, groups, chosen)[:, 0, 0],
        blocking=said.groups[..., sizes.group_columns["blocking"]].squeeze(-1),
        value=said.value,
    )


def _chosen(batch: Batch, width: int) -> Tensor:
    """Return the index that gathers the chosen node of each decision, (D, 1, width); the last for a wait."""
    place = batch.choice.clamp(max=batch.rows.shape[1] - 1)
    return place[:, None, None].expand(-1, 1, width)


def _filled(arrays: Sequence[NDArray[np.generic]], to: tuple[int], *, with_value: float = 0.0) -> Tensor:
    """Return arrays stacked, the first axis of each filled up."""
    first = arrays[0]
    stacked = np.full((len(arrays), *to, *first.shape[1:]), with_value, dtype=first.dtype)
    for number, array in enumerate(arrays):
        stacked[number, : len(array)] = array
    return _tensor(stacked)


def _tensor(array: NDArray[np.generic]) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array))
