"""Gate mode: one patch takes the gate off and names the node; room is kept until the pod is bound."""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from stowplan.core.decoder import Placed
from stowplan.kube.api.binder import Bound, Elsewhere, Gone, NotBound, Unknown
from stowplan.kube.api.client import ApiClient
from stowplan.kube.plan import GATE
from stowplan.serve.scheduler.gate import GateActuator, Placement
from stowplan.serve.scheduler.interface import ActOutcome, Released
from tests.scheduler_cases import TableFeed, live_pod, shape, until
from tests.unit.scheduler.api import ObjectServer

Json = dict[str, Any]

PATH = "/api/v1/namespaces/default/pods/p"
GATED = live_pod("p", shape(scheduling_gates=("other", GATE)))
PLACED = Placed(GATED.key, "n1", 0, 1.0)
IS_N1 = {"key": "metadata.name", "operator": "In", "values": ["n1"]}


class Case:
    def __init__(self, server: ObjectServer, client: ApiClient, **options: Any) -> None:  # noqa: ANN401 - passed on
        self.server, self.feed = server, TableFeed()
        for node in ("n1", "n2"):
            self.feed.set_node(node)
        self.feed.set_pod(GATED)
        server.keep(PATH, spec={"schedulingGates": [{"name": "other"}, {"name": GATE}]})
        self.actuator = GateActuator(client, self.feed, **options)

    def act(self) -> "asyncio.Task[ActOutcome]":
        return asyncio.create_task(self.actuator.act(self.actuator.seen(GATED), PLACED))

    async def let_go(self) -> "asyncio.Task[ActOutcome]":
        """Begin, and wait until the patch is through."""
        acting = self.act()
        await until(lambda: self.server.patches)
        return acting


def story(test: Callable[[Case], Awaitable[None]], **options: Any) -> Json:  # noqa: ANN401 - passed on
    """Run a test; return the pod's spec as it is then."""

    async def run() -> Json:
        async with ObjectServer() as server, ApiClient(server.access, request_timeout_s=1.0) as client:
            await test(Case(server, client, **options))
            return server.kept[PATH]["spec"] if PATH in server.kept else {}

    return asyncio.run(run())


def test_the_gate_goes_the_node_is_preferred_and_the_outcome_is_where_the_pod_was_bound() -> None:
    async def test(case: Case) -> None:
        acting = await case.let_go()
        _, patch = case.server.patches[0]
        assert [one["op"] for one in patch] == ["test", "test", "remove", "add"]
        assert [one["path"] for one in patch[:2]] == ["/metadata/uid", "/metadata/resourceVersion"]
        await asyncio.sleep(0.02)
        assert not acting.done()
        case.feed.bind(GATED.key, "n1")
        assert await acting == Bound("n1")

    spec = story(test)
    assert spec["schedulingGates"] == [{"name": "other"}]
    (term,) = spec["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert term == {"weight": 100, "preference": {"matchFields": [IS_N1]}}


def test_what_the_pod_preferred_before_it_prefers_still() -> None:
    mine = {"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}
    field = "preferredDuringSchedulingIgnoredDuringExecution"

    async def test(case: Case) -> None:
        spec = case.server.kept[PATH]["spec"]
        spec["affinity"] = {"nodeAffinity": {field: [mine]}, "podAffinity": {"x": 1}}
        acting = await case.let_go()
        case.feed.bind(GATED.key, "n2")
        assert await acting == Elsewhere("n2")

    affinity = story(test)["affinity"]
    assert affinity["nodeAffinity"][field][0] == mine
    assert len(affinity["nodeAffinity"][field]) == 2
    assert affinity["podAffinity"] == {"x": 1}


def test_a_required_node_narrows_every_term_that_was_required() -> None:
    field = "requiredDuringSchedulingIgnoredDuringExecution"
    zones = [{"matchExpressions": [{"key": zone, "operator": "Exists"}]} for zone in ("a", "b")]

    async def test(case: Case) -> None:
        affinity = {"nodeAffinity": {field: {"nodeSelectorTerms": zones}}}
        case.server.kept[PATH]["spec"]["affinity"] = affinity
        acting = await case.let_go()
        case.feed.bind(GATED.key, "n1")
        await acting

    terms = story(test, placement="require")["affinity"]["nodeAffinity"][field]["nodeSelectorTerms"]
    assert terms == [{**zone, "matchFields": [IS_N1]} for zone in zones]


@pytest.mark.parametrize("has_claims", [False, True])
def test_without_a_placement_only_the_gate_goes(has_claims: bool) -> None:
    async def test(case: Case) -> None:
        if has_claims:
            case.feed.change_pod(GATED.key, shape=dataclasses.replace(GATED.shape, resource_claims=("gpu",)))
        acting = await case.let_go()
        case.feed.bind(GATED.key, "n2")
        assert await acting == (Elsewhere("n2") if has_claims else Bound("n2"))

    spec = story(test, placement=Placement.PREFER if has_claims else Placement.NONE)
    assert "affinity" not in spec
    assert spec["schedulingGates"] == [{"name": "other"}]


def test_what_is_decided_on_has_neither_our_gate_nor_claims_and_equal_shapes_stay_one_object() -> None:
    async def test(case: Case) -> None:
        pod = dataclasses.replace(GATED, shape=dataclasses.replace(GATED.shape, resource_claims=("gpu",)))
        seen = case.actuator.seen(pod)
        assert (seen.shape.scheduling_gates, seen.shape.resource_claims) == (("other",), ())
        assert case.actuator.seen(pod).shape is seen.shape

    story(test)


def test_a_pod_that_nobody_binds_is_released_after_a_while() -> None:
    async def test(case: Case) -> None:
        outcome = await case.act()
        assert outcome == Released("kube-scheduler has not bound it within 0.05 s", "not bound in time")

    story(test, within_s=0.05)


def test_a_pod_that_is_deleted_meanwhile_is_gone() -> None:
    async def test(case: Case) -> None:
        acting = await case.let_go()
        case.feed.delete_pod(GATED.key)
        assert isinstance(await acting, Gone)

    story(test)


def test_the_watch_may_be_faster_than_the_answer() -> None:
    async def test(case: Case) -> None:
        case.server.on_change = lambda: case.feed.bind(GATED.key, "n2")
        assert await case.act() == Elsewhere("n2")

    story(test)


def test_a_gate_that_is_off_already_is_an_earlier_try_of_ours() -> None:
    async def test(case: Case) -> None:
        case.server.kept[PATH]["spec"]["schedulingGates"] = []
        acting = case.act()
        await asyncio.sleep(0.05)
        assert not case.server.patches
        case.feed.bind(GATED.key, "n1")
        assert await acting == Bound("n1")

    story(test)


@pytest.mark.parametrize(
    ("method", "code", "kind"),
    [
        ("GET", 404, Gone),
        ("PATCH", 403, NotBound),
        ("PATCH", 409, NotBound),
        ("PATCH", 503, NotBound),
    ],
)
def test_what_the_server_refuses(method: str, code: int, kind: type[ActOutcome]) -> None:
    async def test(case: Case) -> None:
        case.server.fault = lambda *asked: code if asked[0] == method else None
        outcome = await case.act()
        assert isinstance(outcome, kind)
        if isinstance(outcome, NotBound):
            assert outcome.is_transient is (code != 403)

    story(test)


def test_a_namesake_is_left_alone() -> None:
    async def test(case: Case) -> None:
        case.server.keep(PATH, metadata={"uid": "another"}, spec={"schedulingGates": [{"name": GATE}]})
        assert isinstance(await case.act(), Gone)

    assert story(test)["schedulingGates"] == [{"name": GATE}]


def test_no_answer_leaves_it_unknown() -> None:
    async def run() -> None:
        async with ObjectServer() as server, ApiClient(server.access, request_timeout_s=1.0) as client:
            case = Case(server, client)
        async with ApiClient(server.access, request_timeout_s=1.0) as client:  # the server is gone
            case.actuator = GateActuator(client, case.feed)
            assert isinstance(await case.act(), Unknown)

    asyncio.run(run())
