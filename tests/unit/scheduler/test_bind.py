"""Binder mode: volumes are claimed and waited for before the pod is bound, and given back when that fails."""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable

import pytest

from stowplan.core.decoder import Placed
from stowplan.core.domain import (
    AccessMode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageRemoved,
    StorageSet,
)
from stowplan.kube.api.binder import Binder, Bound, Gone, NotBound
from stowplan.kube.api.client import ApiClient
from stowplan.kube.live.listener import ClusterChange
from stowplan.serve.scheduler.bind import BinderActuator
from stowplan.serve.scheduler.interface import ActOutcome
from stowplan.serve.scheduler.volumes import VolumeClaimer
from tests.scheduler_cases import TableFeed, live_pod, until
from tests.unit.scheduler.api import ObjectServer

MODE = (AccessMode.READ_WRITE_ONCE,)
PV, PVC = "/api/v1/persistentvolumes/pv", "/api/v1/namespaces/default/persistentvolumeclaims/c"
CLAIM = PersistentVolumeClaim("default", "c", MODE, 5, "local", uid="uid-c")
FREE = PersistentVolume("pv", 10, MODE, storage_class="local")
RESERVED = dataclasses.replace(FREE, claim=("default", "c"), claim_uid="uid-c")
ORDERED = dataclasses.replace(CLAIM, selected_node="n1")
BOUND = dataclasses.replace(CLAIM, volume="pv", is_fully_bound=True)
POD = live_pod("p")
SELECTED = "volume.kubernetes.io/selected-node"


class Case:
    """A feed, a server and an actuator."""

    def __init__(self, server: ObjectServer, client: ApiClient, within_s: float) -> None:
        self.server = server
        self.feed = TableFeed()
        self.feed.set_node("n1")
        self.feed.set_pod(POD)
        self.feed.state.apply(StorageSet(CLAIM))
        self.feed.state.apply(StorageSet(FREE))
        server.keep(PV)
        server.keep(PVC)
        claimer = VolumeClaimer(client, self.feed, within_s=within_s)
        self.actuator = BinderActuator(Binder(client), claimer, annotations=lambda *_: (("a", "b"),))

    def show(self, item: PersistentVolume | PersistentVolumeClaim) -> None:
        """Have the watch show a storage object."""
        self.feed.state.apply(StorageSet(item))
        self.feed.changed(ClusterChange.STORAGE)

    def act(self, *storage: PersistentVolume | PersistentVolumeClaim) -> Awaitable[ActOutcome]:
        """Begin to carry out a placement with that storage, which the engine has assumed."""
        for item in storage:
            self.feed.state.apply(StorageSet(item))
        placed = Placed(POD.key, "n1", 0, 1.0, storage=storage)
        return asyncio.create_task(self.actuator.act(POD, placed))


def story(test: Callable[[Case], Awaitable[None]], within_s: float = 60.0) -> ObjectServer:
    async def run() -> ObjectServer:
        async with ObjectServer() as server, ApiClient(server.access) as client:
            await test(Case(server, client, within_s))
            return server

    return asyncio.run(run())


def test_a_pod_without_claims_is_bound_with_its_annotations() -> None:
    async def test(case: Case) -> None:
        assert await case.act() == Bound("n1")

    server = story(test)
    (binding,) = server.bound
    assert binding["target"]["name"] == "n1"
    assert binding["metadata"]["annotations"] == {"a": "b"}


def test_a_volume_is_reserved_and_the_pod_bound_only_when_its_claim_is() -> None:
    async def test(case: Case) -> None:
        acting = case.act(RESERVED)
        await until(lambda: case.server.patches)
        await asyncio.sleep(0.05)
        assert not case.server.bound
        case.show(BOUND)
        assert await acting == Bound("n1")

    server = story(test)
    assert server.kept[PV]["spec"]["claimRef"]["uid"] == "uid-c"
    assert server.kept[PV]["metadata"]["annotations"] == {"pv.kubernetes.io/bound-by-controller": "yes"}
    assert len(server.patches) == 1


def test_a_volume_is_ordered_for_the_chosen_node() -> None:
    async def test(case: Case) -> None:
        acting = case.act(ORDERED)
        await until(lambda: case.server.patches)
        case.show(CLAIM)  # old news, from before the order
        case.show(dataclasses.replace(ORDERED, request_bytes=6))  # the order is seen
        await asyncio.sleep(0.05)
        assert not case.server.bound
        case.show(BOUND)
        assert await acting == Bound("n1")

    server = story(test)
    assert server.kept[PVC]["metadata"]["annotations"] == {SELECTED: "n1"}


def test_an_order_that_its_provisioner_takes_back_fails_and_the_pod_is_placed_anew() -> None:
    async def test(case: Case) -> None:
        acting = case.act(ORDERED)
        await until(lambda: case.server.patches)
        case.show(dataclasses.replace(ORDERED, request_bytes=6))
        await asyncio.sleep(0.02)
        case.show(CLAIM)
        outcome = await acting
        assert isinstance(outcome, NotBound)
        assert outcome.is_transient
        assert "no volume could be made for claim default/c there" in str(outcome.error)

    assert not story(test).bound


def test_a_volume_that_another_claim_has_taken_gives_back_what_was_written_before_it() -> None:
    async def test(case: Case) -> None:
        case.server.kept[PV]["spec"]["claimRef"] = {"namespace": "x", "name": "y", "uid": "other"}
        outcome = await case.act(ORDERED, RESERVED)
        assert isinstance(outcome, NotBound)
        assert "volume pv was taken by claim x/y" in str(outcome.error)

    server = story(test)
    assert SELECTED not in server.kept[PVC]["metadata"]["annotations"]
    assert server.kept[PV]["spec"]["claimRef"]["uid"] == "other"
    assert not server.bound


def test_a_volume_that_is_not_bound_in_time_is_given_back_unless_the_controller_was_faster() -> None:
    async def test(case: Case) -> None:
        outcome = await case.act(RESERVED)
        assert isinstance(outcome, NotBound)
        assert "were not bound within 0.05 s" in str(outcome.error)

    assert "claimRef" not in story(test, within_s=0.05).kept[PV]["spec"]

    async def late(case: Case) -> None:
        case.server.kept[PVC]["spec"]["volumeName"] = "pv"
        assert isinstance(await case.act(RESERVED), NotBound)

    assert story(late, within_s=0.05).kept[PV]["spec"]["claimRef"]["uid"] == "uid-c"


@pytest.mark.parametrize("is_retry", [False, True])
def test_a_volume_that_was_reserved_before_is_not_reserved_again(is_retry: bool) -> None:
    async def test(case: Case) -> None:
        uid = {"uid": "uid-c"} if is_retry else {}  # else somebody reserved it by name, for this claim
        case.server.kept[PV]["spec"]["claimRef"] = {"namespace": "default", "name": "c", **uid}
        acting = case.act(RESERVED)
        await asyncio.sleep(0.02)
        case.show(BOUND)
        assert await acting == Bound("n1")

    server = story(test)
    assert len(server.patches) == (0 if is_retry else 1)
    assert "pv.kubernetes.io/bound-by-controller" not in server.kept[PV]["metadata"].get("annotations", {})


@pytest.mark.parametrize("what", ["pod", "node", "claim", "volume"])
def test_what_vanishes_while_volumes_are_waited_for_ends_the_wait(what: str) -> None:
    async def test(case: Case) -> None:
        acting = case.act(RESERVED)
        await until(lambda: case.server.patches)
        match what:
            case "pod":
                case.feed.delete_pod(POD.key)
            case "node":
                case.feed.remove_node("n1")
            case "claim":
                case.feed.state.apply(StorageRemoved(PersistentVolumeClaim, "default/c"))
            case _:
                case.feed.state.apply(StorageRemoved(PersistentVolume, "pv"))
        case.feed.changed(ClusterChange.STORAGE)
        outcome = await acting
        assert isinstance(outcome, Gone if what == "pod" else NotBound)

    assert not story(test).bound


@pytest.mark.parametrize(("code", "is_transient"), [(403, False), (409, True), (503, True)])
def test_a_write_that_is_refused_says_whether_to_try_again(code: int, is_transient: bool) -> None:
    async def test(case: Case) -> None:
        case.server.fault = lambda method, path: code if (method, path) == ("PATCH", PV) else None
        outcome = await case.act(ORDERED, RESERVED)
        assert isinstance(outcome, NotBound)
        assert outcome.is_transient is is_transient

    server = story(test)
    assert SELECTED not in server.kept[PVC]["metadata"]["annotations"]


def test_no_more_bindings_are_under_way_than_allowed_and_the_rest_is_the_backlog() -> None:
    async def run() -> None:
        feed, most, now = TableFeed(), [0], [0]
        gate = asyncio.Event()

        class Slow(Binder):
            async def bind(self, binding: object) -> Bound:
                del binding
                now[0] += 1
                most[0] = max(most[0], now[0])
                await gate.wait()
                now[0] -= 1
                return Bound("n1")

        async with ObjectServer() as server, ApiClient(server.access) as client:
            actuator = BinderActuator(Slow(client), VolumeClaimer(client, feed), at_once=3)
            acts = [asyncio.create_task(actuator.act(POD, Placed(POD.key, "n1", 0, 1.0))) for _ in range(10)]
            await until(lambda: actuator.backlog == 7)
            gate.set()
            await asyncio.gather(*acts)
            assert (most[0], actuator.backlog) == (3, 0)

    asyncio.run(run())
