"""The parts of a scheduler that follow from its configuration alone: rules, policies, engine, selection."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from stowplan import __version__
from stowplan.core.constraints import RuleTable
from stowplan.core.domain import ClusterState
from stowplan.core.engine import Engine
from stowplan.core.lookahead import LookAhead, Timed
from stowplan.core.policy import Policy, make_policy
from stowplan.core.record import Setup
from stowplan.errors import InvalidInput
from stowplan.kube.live.pod import LivePod
from stowplan.kube.plan import GATE
from stowplan.registry import pinned_options, resolved_options
from stowplan.serve.scheduler.interface import Mode
from stowplan.serve.sections import SchedulerConfig

__all__ = ["make_engine", "make_policies", "rules_with_pool", "selection", "setup_of"]

_LOOK_AHEAD: Final = "look-ahead"


def rules_with_pool(config: SchedulerConfig, rules: RuleTable) -> RuleTable:
    """Return the operator's rules, and the node pool as one more.

    Raises:
        InvalidInput: the labels of the pool cannot be used.
    """
    if not config.node_pool:
        return rules
    document = {
        "version": 1,
        "rules": [{"name": "node-pool", "require": {"labels": config.node_pool}}],
    }
    try:
        pool = RuleTable.parse(document)
    except InvalidInput as error:
        raise InvalidInput(f"scheduler.node_pool: {error}") from None
    return RuleTable((*rules.rules, *pool.rules))


def make_policies(config: SchedulerConfig) -> tuple[Policy, Policy | None]:
    """Return the configured policy itself, and what decides when it fails.

    Raises:
        InvalidInput: a name or an option is not known; or there is no fallback, and the policy's model cannot
            be used.
    """
    try:
        policy = _made(config, config.policy, config.policy_options)
        fallback = make_policy(config.fallback) if config.fallback else None
    except InvalidInput as error:
        raise InvalidInput(f"scheduler.policy: {error}") from None
    return policy, fallback


def _made(config: SchedulerConfig, name: str, options: Mapping[str, Any]) -> Policy:
    """Make a policy. Where there is a fallback, that a model cannot be used is told by each decision."""
    return make_policy(name, **resolved_options(name, options, defers=bool(config.fallback)))


def setup_of(config: SchedulerConfig, rules: RuleTable) -> Setup:
    """Return who decides, as records keep it: the configured policy, looked ahead with if so wished.

    Raises:
        InvalidInput: the labels of the pool cannot be used.
    """
    name, options = config.policy, pinned_options(config.policy, config.policy_options)
    if config.look_ahead.enable and name != _LOOK_AHEAD:
        others = [other for other in config.look_ahead.alternatives if other != name]
        name, options = _LOOK_AHEAD, {"policy": name, "options": options, "alternatives": others}
    return Setup(
        version=__version__,
        policy=name,
        options=options,
        fallback=config.fallback,
        rules=rules_with_pool(config, rules),
    )


def make_engine(config: SchedulerConfig, state: ClusterState, setup: Setup) -> Engine:
    """Return an engine over `state` that decides as `setup` says, within the configured time.

    Raises:
        InvalidInput: a name or an option cannot be used.
    """
    _, fallback = make_policies(config)
    try:
        policy = _made(config, setup.policy, setup.options)
    except InvalidInput as error:
        section = "policy" if setup.policy == config.policy else "look_ahead"
        raise InvalidInput(f"scheduler.{section}: {error}") from None
    if isinstance(policy, LookAhead):
        budget_s = config.look_ahead.budget_ms / 1000
        policy.make_budget = lambda: Timed(budget_s, time.monotonic)
    return Engine(
        state,
        policy,
        rng=np.random.Generator(np.random.PCG64(config.seed)),
        rules=setup.rules,
        fallback=fallback,
        explains=setup.explains,
    )


def selection(config: SchedulerConfig) -> Callable[[LivePod], bool]:
    """Return what tells which pods are ours to decide on, in the configured mode."""
    name = config.name

    def named(pod: LivePod) -> bool:
        return pod.shape.scheduler_name == name

    def gated(pod: LivePod) -> bool:
        return GATE in pod.shape.scheduling_gates

    def each(pod: LivePod) -> bool:
        del pod
        return True

    match config.mode:
        case Mode.BINDER:
            return named
        case Mode.GATE | Mode.EXTENDER:
            return gated
        case Mode.SHADOW:
            return each
