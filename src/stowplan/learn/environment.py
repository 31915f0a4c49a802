"""The simulated cluster as a Gymnasium environment, for whoever brings an algorithm of their own.

Training here does not go through it: rollouts place task by task with live nodes, which one array of scores
for a whole cycle cannot. What it observes and how it is rewarded is the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from stowplan.core.constraints import CompiledFilters
from stowplan.core.encoder import SCHEMA, Encoded, Encoder
from stowplan.core.policy import CycleView
from stowplan.core.semantics import FrozenStatistics
from stowplan.errors import InvalidInput
from stowplan.learn.episodes import Reward, mean_costs, simulation_of, stays_of
from stowplan.learn.scenarios import Ranges, Split, draw_scenario, load_recordings
from stowplan.simulate.simulator import Simulation

__all__ = ["ClusterEnvironment"]

Observation = dict[str, NDArray[Any]]
_MOST: Final = 1e6


class ClusterEnvironment(gymnasium.Env[Observation, dict[str, NDArray[np.float32]]]):
    """One scheduling cycle per step, one drawn scenario per episode.

    **Observation**, a dictionary; G and N are the most groups and nodes, what is not there is 0:

    * `task_features` (G, FT) float32: standard scores and masks of groups of equal tasks (docs/ENCODER.md)
    * `position` (G, 4) float32: order, depth, parents, share of the longest way to an exit
    * `order_prior` (G,) float32: −log of the workflow's remaining expected seconds
    * `cluster_features` (FC,) float32: standard scores and masks of the cluster
    * `node_features` (N, FN) float32: the same of nodes
    * `log_prior` (G, N) float32: log of how long the group's tasks take on the node by physics and readings,
      over what is expected of them on the reference machine
    * `is_group` (G,) int8: 1 where there is a group
    * `is_feasible` (G, N) int8: 1 where a task of the group could be placed as the cycle begins

    **Action**, a dictionary of numbers in [−1, 1]: `order` (G,), groups with more go first; `node` (G,
    N), the feasible node with most is taken, looked up again for each task as nodes fill up; `wait` (G,),
    a group waits whose number is greater than that of every feasible node, unless nothing runs. Every
    action is legal: constraints are the decoder's.

    **Reward**: minus the integral, over the time until the next cycle, of the number of unfinished
    workflows, each weighing more with its age, over the number of all; in units of the scenario's mean
    critical path (`returns`). Its sum over an episode is minus the mean of C + w C² / 2 over the
    completion times C, counted from the first cycle on.

    **End**: `terminated` when every task has come to its end. `truncated` at the scenario's horizon, 20
    times the time that its work needs: what is left is not worth 0 then. The last observation is of no
    cycle.

    **Reset**: `seed` draws the scenarios of this environment from then on; `options={"number": n}` asks
    for the n-th of its split instead of one drawn. `info` says number, time (`now_s`) and, at the end,
    the mean `completion_s`.
    """

    def __init__(  # noqa: PLR0913  (each is one aspect of the environment)
        self,
        *,
        recordings: Path | None = None,
        ranges: Ranges | None = None,
        split: Split = Split.TRAINING,
        base_seed: int = 1,
        difficulty: float = 1.0,
        reward: Reward | None = None,
        statistics: FrozenStatistics | None = None,
        most_groups: int = 64,
        most_nodes: int = 64,
    ) -> None:
        """Draw scenarios of `split`; see `draw_scenario` and `Encoder` for the arguments.

        Raises:
            InvalidFile: the recordings cannot be read.
            InvalidInput: `most_groups` is not positive, or scenarios may have more than `most_nodes` nodes.
        """
        self._ranges = ranges or Ranges()
        if most_nodes < self._ranges.nodes[1]:
            raise InvalidInput(
                f"most_nodes is {most_nodes}, but scenarios have up to {self._ranges.nodes[1]} nodes"
            )
        self._recordings = load_recordings(recordings, split)
        self._split = split
        self._base_seed = base_seed
        self._difficulty = difficulty
        self._reward = reward or Reward()
        self._statistics = statistics
        self._most_groups, self._most_nodes = most_groups, most_nodes
        self._simulation: Simulation | None = None
        self._policy = _Scored()
        self._encoder = Encoder(statistics=statistics, most_groups=most_groups)
        self._scale_s = 1.0
        self._number = 0
        groups, nodes = most_groups, most_nodes
        self.metadata = {"render_modes": []}
        # Gymnasium's Dict is a space of dictionaries, but is not typed as one.
        self.observation_space = cast(
            "spaces.Space[Observation]",
            spaces.Dict(
                {
                    "task_features": _box(groups, SCHEMA.task.width),
                    "position": _box(groups, len(SCHEMA.position)),
                    "order_prior": _box(groups),
                    "cluster_features": _box(SCHEMA.cluster.width),
                    "node_features": _box(nodes, SCHEMA.node.width),
                    "log_prior": _box(groups, nodes),
                    "is_group": spaces.MultiBinary(groups),
                    "is_feasible": spaces.MultiBinary([groups, nodes]),
                }
            ),
        )
        self.action_space = cast(
            "spaces.Space[dict[str, NDArray[np.float32]]]",
            spaces.Dict(
                {
                    name: spaces.Box(-1.0, 1.0, shape, np.float32)
                    for name, shape in (("order", (groups,)), ("node", (groups, nodes)), ("wait", (groups,)))
                }
            ),
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode; see the class."""
        super().reset(seed=seed)
        number = (options or {}).get("number")
        self._number = int(self.np_random.integers(1 << 31)) if number is None else int(number)
        scenario = draw_scenario(
            self._recordings,
            self._ranges,
            base_seed=self._base_seed,
            split=self._split,
            number=self._number,
            difficulty=self._difficulty,
        )
        self._encoder = Encoder(
            statistics=self._statistics, off=scenario.without, most_groups=self._most_groups
        )
        self._policy = _Scored()
        self._simulation = simulation_of(scenario, self._policy)
        self._scale_s = scenario.time_scale_s
        self._go_on(self._simulation)
        return self._observe(self._simulation.view), self._info()

    def step(
        self, action: dict[str, NDArray[np.float32]]
    ) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Decide on the cycle that was observed, and go on to the next; see the class.

        Raises:
            InvalidInput: there was no `reset`, or the episode is over.
        """
        simulation = self._simulation
        if simulation is None or simulation.is_over:
            raise InvalidInput("the episode is over or has not begun; call reset first")
        began_s = simulation.now_s
        self._policy.action = action
        simulation.decide()
        self._go_on(simulation)
        edges_s = np.array([began_s, simulation.now_s])
        cost = mean_costs(stays_of(simulation), edges_s, self._reward, self._scale_s)
        is_done = simulation.is_complete
        observation = self._observe(simulation.view)
        return observation, -float(cost[0]), is_done, simulation.is_over and not is_done, self._info()

    def _go_on(self, simulation: Simulation) -> None:
        """Go to the next cycle that has something to decide, or to the end."""
        while not simulation.is_over and not simulation.advance():
            simulation.decide()

    def _observe(self, view: CycleView) -> Observation:
        encoded = self._encoder.encode(view)
        self._policy.encoded = encoded
        groups, nodes = len(encoded.members), len(encoded.node_rows)
        is_group = np.zeros(self._most_groups, dtype=np.int8)
        is_group[:groups] = 1
        is_feasible = np.zeros((self._most_groups, self._most_nodes), dtype=np.int8)
        if view.filters_of is not None:
            for group, members in enumerate(encoded.members):
                filters = view.filters_of(view.pending[members[0]].task.shape)
                is_feasible[group, :nodes] = filters.feasible[encoded.node_rows]
        sizes = (self._most_groups, self._most_nodes)
        return {
            "task_features": _filled(encoded.task_features, sizes[:1]),
            "position": _filled(encoded.position, sizes[:1]),
            "order_prior": _filled(encoded.order_prior, sizes[:1]),
            "cluster_features": _filled(encoded.cluster_features, ()),
            "node_features": _filled(encoded.node_features, sizes[1:]),
            "log_prior": _filled(encoded.log_prior(), sizes),
            "is_group": is_group,
            "is_feasible": is_feasible,
        }

    def _info(self) -> dict[str, Any]:
        simulation = self._simulation
        if simulation is None:
            return {}
        info: dict[str, Any] = {"number": self._number, "now_s": simulation.now_s}
        if simulation.is_over:
            stays = stays_of(simulation)
            spent_s = np.minimum(stays.until_s, simulation.now_s) - stays.from_s
            info["completion_s"] = float(np.maximum(spent_s, 0.0).mean())
        return info


class _Scored:
    """The policy of an environment: it does what the action says.

    Attributes:
        encoded: what was observed of the cycle that is decided on.
        action: what is to be done with it.
    """

    reads_nodes = True
    name = "environment"

    def __init__(self) -> None:
        self.encoded: Encoded | None = None
        self.action: Mapping[str, NDArray[np.float32]] = {}

    def plan(self, view: CycleView) -> _Plan:
        """Return the plan that the action means.

        Raises:
            InvalidInput: nothing was observed.
        """
        if self.encoded is None or not self.action:
            raise InvalidInput("a cycle is to be decided on that nobody observed; call reset, then step")
        return _Plan(view, self.encoded, self.action)


class _Plan:
    """Order and nodes by the numbers of an action."""

    breaks_ties_randomly = False

    def __init__(self, view: CycleView, encoded: Encoded, action: Mapping[str, NDArray[np.float32]]) -> None:
        by_rank = map(int, np.lexsort((-action["order"][: len(encoded.members)], -encoded.priority)))
        self.order = np.array([index for group in by_rank for index in encoded.members[group]], dtype=np.intp)
        self._view = view
        self._encoded = encoded
        self._action = action

    def scores(self, index: int, filters: CompiledFilters) -> NDArray[np.float64]:
        """Return the numbers of the nodes; all −inf when waiting has more than every feasible one."""
        rows = self._encoded.node_rows
        group = int(self._encoded.group_of[index])
        found = np.full(self._view.state.capacity, -np.inf)
        liked = self._action["node"][group, : rows.size].astype(np.float64)
        may_wait = bool(self._view.running)
        if not may_wait or liked[filters.feasible[rows]].max(initial=-np.inf) >= self._action["wait"][group]:
            found[rows] = liked
        return found

    def choose_gpus(self, index: int, row: int) -> tuple[int, ...] | None:
        """Leave the choice to the decoder."""
        del index, row
        return None

    def expected_duration_s(self, index: int, row: int) -> float:
        """Return what is expected of the task on the node, as the cycle began."""
        node = int(np.searchsorted(self._encoded.node_rows, row))
        group = int(self._encoded.group_of[index])
        log_prior = self._encoded.log_prior_at(group, node)
        return self._view.pending[index].task.expected_s * float(np.exp(log_prior))

    def contributions(self, index: int, row: int) -> Mapping[str, float]:
        """Return nothing: an action does not say why."""
        del index, row
        return {}


def _box(*shape: int) -> spaces.Box:
    return spaces.Box(-_MOST, _MOST, shape, np.float32)


def _filled(array: NDArray[np.float32], sizes: tuple[int, ...]) -> NDArray[np.float32]:
    """Return the array with its first axes filled up to `sizes`, within the bounds of the space."""
    padding = [(0, size - have) for size, have in zip(sizes, array.shape, strict=False)]
    padding += [(0, 0)] * (array.ndim - len(sizes))
    return np.clip(np.pad(array, padding), -_MOST, _MOST).astype(np.float32)
