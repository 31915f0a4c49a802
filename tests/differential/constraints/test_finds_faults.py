"""The differential test's own test: a fault put into our core on purpose is found within a few clusters."""

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from unittest.mock import patch

import pytest

from stowplan.core.constraints import (
    compiled,
    matching,
    node_filters,
    requests,
    room,
    spread,
    storage_tables,
    volume_limits,
    volume_use,
    volume_zone,
)
from stowplan.core.constraints.interpod import InterPodAffinity
from stowplan.core.constraints.relation_trial import RelationTrial
from stowplan.core.constraints.trial import RowTrial, Trial
from stowplan.core.domain import DisruptionBudget, LabelSelector, Operator, Requirement, TaintEffect
from stowplan.core.policy.kube import preferences
from stowplan.core.preemption import BudgetBook, choice
from stowplan.kube.manifest import pods, storage
from stowplan.kube.manifest.budgets import read_budget
from testbed.differential import preemption
from testbed.differential.oracle import Oracle
from testbed.differential.preemption import Crowd
from testbed.differential.run import run_chunk
from testbed.errors import MissingPrerequisite

pytestmark = pytest.mark.cluster  # it needs a program of the test cluster, though no root

CLUSTERS = 60
Fault = Callable[[], AbstractContextManager[object]]


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    try:
        with Oracle(has_reasons=False, has_preemptions=True) as running:
            yield running
    except MissingPrerequisite as missing:
        pytest.skip(str(missing))


def greater_or_equal() -> AbstractContextManager[object]:
    right = Requirement.matches_value

    def wrong(self: Requirement, label: str | None) -> bool:
        is_equal = self.operator is Operator.GT and label == self.values[0]
        return is_equal or right(self, label)

    return patch.object(Requirement, "matches_value", wrong)


def no_overhead() -> AbstractContextManager[object]:
    right = requests._finished
    return patch.object(
        requests, "_finished", lambda pod, total: right(dataclasses.replace(pod, overhead={}), total)
    )


def one_domain() -> AbstractContextManager[object]:
    right = pods._spread
    return patch.object(
        pods, "_spread", lambda cursor, labels: dataclasses.replace(right(cursor, labels), min_domains=1)
    )


def any_phase() -> AbstractContextManager[object]:
    right = storage.STORAGE_READERS["PersistentVolume"]
    wrong = {"PersistentVolume": lambda *a: dataclasses.replace(right(*a), is_available=True)}
    return patch.dict(storage.STORAGE_READERS, wrong)


def everywhere_room() -> AbstractContextManager[object]:
    right = storage.STORAGE_READERS["CSIStorageCapacity"]
    wrong = {"CSIStorageCapacity": lambda *a: dataclasses.replace(right(*a), node_topology=LabelSelector())}
    return patch.dict(storage.STORAGE_READERS, wrong)


def unmoved(trial: type[RowTrial | Trial]) -> Fault:
    return lambda: patch.object(trial, "count", lambda *_: None)


FAULTS: dict[str, tuple[str, Fault]] = {
    "NoExecute does not matter": (
        "TaintToleration",
        lambda: patch.object(matching, "_BLOCKING", (TaintEffect.NO_SCHEDULE,)),
    ),
    "cordons are never tolerated": (
        "NodeUnschedulable",
        lambda: patch.object(node_filters.NodeUnschedulable, "is_needed", staticmethod(lambda _: True)),
    ),
    "Gt is at least": ("NodeAffinity", greater_or_equal),
    "0.0.0.0 is an address like others": ("NodePorts", lambda: patch.object(room, "_EVERY_ADDRESS", "")),
    "no overhead": ("NodeResourcesFit", no_overhead),
    "sidecars are plain init containers": (
        "NodeResourcesFit",
        lambda: patch.object(pods, "_is_sidecar", lambda _: False),
    ),
    "a resize in place is not seen": (
        "NodeResourcesFit",
        lambda: patch.object(pods, "_with_status", lambda _cursor, wanted, _statuses: [wanted]),
    ),
    "claims of one pod only are shared": (
        "VolumeRestrictions",
        lambda: patch.object(volume_use.VolumeRestrictions, "_look_for_use", lambda _: False),
    ),
    "attachments do not count": (
        "NodeVolumeLimits",
        lambda: patch.object(storage_tables.StorageTables, "_read_attachments", lambda *_: None),
    ),
    "volumes of any phase are free": ("VolumeBinding", any_phase),
    "room is everywhere": ("VolumeBinding", everywhere_room),
    "beta labels are only compared with beta labels": (
        "VolumeZone",
        lambda: patch.object(volume_zone, "_STABLE", {}),
    ),
    "minDomains does not matter": ("PodTopologySpread", one_domain),
    "an empty selector counts": (
        "PodTopologySpread",
        lambda: patch.object(spread, "_counts", lambda one, labels: one is not None and one.matches(labels)),
    ),
    "a group cannot start": (
        "InterPodAffinity",
        lambda: patch.object(InterPodAffinity, "_may_start", lambda _: False),
    ),
    "nominated pods hold nothing": (
        "nominated",
        lambda: patch.object(compiled.CompiledFilters, "_nominated_for", lambda *_: []),
    ),
    "budgets do not matter": (
        "preemption",
        lambda: patch.object(BudgetBook, "_covering_budgets", lambda *_: ()),
    ),
    "disrupted pods count again": (
        "preemption",
        lambda: patch.object(
            preemption,
            "read_budget",
            lambda *read: dataclasses.replace(read_budget(*read), disrupted_pods=frozenset()),
        ),
    ),
    "an empty selector protects": (
        "preemption",
        lambda: patch.object(
            DisruptionBudget,
            "covers",
            lambda self, shape: (
                self.selector is not None
                and self.namespace == shape.namespace
                and self.selector.matches(dict(shape.labels))
            ),
        ),
    ),
    "priorities are added as they are": ("preemption", lambda: patch.object(choice, "_SHIFT", 0)),
    "all pods started at once": ("preemption", lambda: patch.object(Crowd, "_started", lambda *_: 0.0)),
    "hopeless nodes are tried": (
        "preemption",
        lambda: patch.object(compiled.CompiledFilters, "yielding", lambda self: ~self.feasible),
    ),
    "nobody waits for victims": (
        "preemption",
        lambda: patch.object(Crowd, "_read_conditions", lambda *_: None),
    ),
    "resources stay taken": ("preemption", unmoved(room._RoomTrial)),
    "ports stay taken": ("preemption", unmoved(room._PortTrial)),
    "disks stay mounted": ("preemption", unmoved(volume_use._UseTrial)),
    "volumes stay attached": ("preemption", unmoved(volume_limits._VolumesTrial)),
    "domains stay full": ("preemption", unmoved(spread._SpreadTrial)),
    "related pods stay": ("preemption", unmoved(RelationTrial)),
    "small images count": ("scores", lambda: patch.object(preferences, "_FEWEST_IMAGE_BYTES", 0)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(oracle: Oracle, fault: str) -> None:
    emphasis, put_in = FAULTS[fault]
    with put_in():
        found = any(
            run_chunk(oracle, range(seed, seed + 1), 50, emphasis).different for seed in range(CLUSTERS)
        )
    assert found
