"""The parts of a scheduler that follow from its configuration alone: rules, policies, engine, selection."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from stowplan.core.constraints import RuleTable
from stowplan.core.domain import ClusterState
from stowplan.core.engine import Engine
from stowplan.core.policy import Policy, make_policy
from stowplan.errors import InvalidInput
from stowplan.kube.live.pod import LivePod
from stowplan.kube.plan import GATE
from stowplan.serve.config import SchedulerConfig
from stowplan.serve.scheduler.interface import Mode

__all__ = ["make_engine", "make_policies", "rules_with_pool", "selection"]


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
    """Return the policy, and what decides when it fails.

    Raises:
        InvalidInput: a name or an option is not known.
    """
    try:
        policy = make_policy(config.policy, **config.policy_options)
        fallback = make_policy(config.fallback) if config.fallback else None
    except InvalidInput as error:
        raise InvalidInput(f"scheduler.policy: {error}") from None
    return policy, fallback


def make_engine(config: SchedulerConfig, state: ClusterState, rules: RuleTable) -> Engine:
    """Return an engine over `state` with the configured policy and its fallback.

    Raises:
        InvalidInput: a name, an option or the pool cannot be used.
    """
    policy, fallback = make_policies(config)
    return Engine(
        state,
        policy,
        rng=np.random.Generator(np.random.PCG64(config.seed)),
        rules=rules_with_pool(config, rules),
        fallback=fallback,
        explains=True,
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
