"""Binder, status, events, apply and lease on a real API server, with rivals and a bad network."""

import asyncio
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from stowplan.kube.api.apply import apply
from stowplan.kube.api.binder import Binder, Binding, Bound, Elsewhere, Gone, NotBound
from stowplan.kube.api.client import ApiClient
from stowplan.kube.api.errors import Conflict
from stowplan.kube.api.recorder import Event, EventRecorder, EventType, RecorderSettings, Regarding
from stowplan.kube.api.resources import EVENTS, NAMESPACES, NODES, PODS
from stowplan.kube.api.status import (
    PodReference,
    SchedulingStatus,
    StatusWriter,
    UnscheduledReason,
    Written,
)
from tests.cluster.kube_api_plane import CONFIG_MAPS, Plane, bare_plane
from tests.unit.kube_api.proxy import ToxicProxy

Json = dict[str, Any]


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    with bare_plane() as made:
        yield made


@pytest.fixture
def namespace(plane: Plane, request: pytest.FixtureRequest) -> str:
    return plane.make_namespace(request.node.name)


async def make_pod(client: ApiClient, namespace: str, name: str, **spec: object) -> str:
    """Create a pod that nobody runs; its uid."""
    containers = [{"name": "main", "image": "nowhere/nothing:1"}]
    body = {"metadata": {"name": name}, "spec": {"containers": containers, "schedulerName": "ours"} | spec}
    return read(await client.create(PODS, body, namespace))["metadata"]["uid"]


def read(body: bytes) -> Json:
    return msgspec.json.decode(body)


async def pod_of(client: ApiClient, namespace: str, name: str) -> Json:
    return read(await client.get(PODS, name, namespace))


# ── binder ──


def test_of_two_binders_one_gets_each_pod_and_the_other_knows_it(plane: Plane, namespace: str) -> None:
    async def story() -> None:
        async with ApiClient(plane.access) as client, ApiClient(plane.access) as rival:
            uids = {f"p{n}": await make_pod(client, namespace, f"p{n}") for n in range(40)}
            ours = [Binder(client).bind(Binding(namespace, n, uid, "node-a")) for n, uid in uids.items()]
            theirs = [Binder(rival).bind(Binding(namespace, n, uid, "node-b")) for n, uid in uids.items()]
            mixed = [each for pair in zip(ours, theirs, strict=True) for each in pair]
            outcomes = await asyncio.gather(*mixed)
            for name, our, their in zip(uids, outcomes[::2], outcomes[1::2], strict=True):
                node = (await pod_of(client, namespace, name))["spec"]["nodeName"]
                assert our == (Bound(node) if node == "node-a" else Elsewhere(node))
                assert their == (Bound(node) if node == "node-b" else Elsewhere(node))

    asyncio.run(story())


def test_what_a_binding_can_meet(plane: Plane, namespace: str) -> None:
    async def story() -> None:
        async with ApiClient(plane.access) as client:
            binder = Binder(client, within_s=2.0)
            uid = await make_pod(client, namespace, "plain")
            binding = Binding(namespace, "plain", uid, "node-a", (("stowplan.dev/decision", "7"),))
            assert await binder.bind(binding) == Bound("node-a")
            pod = await pod_of(client, namespace, "plain")
            assert pod["metadata"]["annotations"]["stowplan.dev/decision"] == "7"
            assert await binder.bind(binding) == Bound("node-a")  # said again: still so
            assert await binder.bind(Binding(namespace, "plain", uid, "node-b")) == Elsewhere("node-a")

            other = await binder.bind(Binding(namespace, "plain", "another-uid", "node-a"))
            assert isinstance(other, Gone)
            assert "another pod has the name" in other.why
            assert isinstance(await binder.bind(Binding(namespace, "absent", uid, "node-a")), Gone)

            gated_uid = await make_pod(client, namespace, "gated", schedulingGates=[{"name": "wait.for/it"}])
            gated = await binder.bind(Binding(namespace, "gated", gated_uid, "node-a"))
            assert isinstance(gated, NotBound)
            assert not gated.is_transient
            assert "schedulingGates" in str(gated.error)

            dying_uid = await make_pod(client, namespace, "dying")
            held = {"metadata": {"finalizers": ["stowplan.test/hold"]}}
            await apply(client, PODS, "dying", held, namespace)
            await client.delete(PODS, "dying", namespace)
            assert isinstance(await binder.bind(Binding(namespace, "dying", dying_uid, "node-a")), Gone)
            await apply(client, PODS, "dying", {}, namespace)

    asyncio.run(story())


def test_bindings_over_a_bad_network_end_in_certainty(plane: Plane, namespace: str) -> None:
    async def story() -> None:
        async with (
            ToxicProxy(*plane.target) as proxy,
            ApiClient(plane.access) as direct,
            ApiClient(plane.through(proxy.address), request_timeout_s=1.0) as client,
        ):
            uids = {f"p{n}": await make_pod(direct, namespace, f"p{n}") for n in range(30)}
            binder = Binder(client)
            proxy.cut_after_bytes = 6_000  # some answers of a connection get through, the others do not
            bindings = [Binding(namespace, name, uid, "node-a") for name, uid in uids.items()]
            binding = asyncio.gather(*(binder.bind(each) for each in bindings))
            for _ in range(10):
                await asyncio.sleep(0.05)
                proxy.reset_all()
            assert set(await binding) == {Bound("node-a")}
            for name in uids:
                assert (await pod_of(direct, namespace, name))["spec"]["nodeName"] == "node-a"

    asyncio.run(story())


def test_a_binding_whose_answer_is_lost_is_found_out(plane: Plane, namespace: str) -> None:
    async def story() -> None:
        async with (
            ToxicProxy(*plane.target) as proxy,
            ApiClient(plane.access) as direct,
            ApiClient(plane.through(proxy.address), request_timeout_s=0.5) as client,
        ):
            await client.get(NAMESPACES, namespace)  # a connection that is open
            uid = await make_pod(direct, namespace, "p")
            proxy.is_silent = True  # the request passes, its answer does not
            binding = asyncio.create_task(Binder(client).bind(Binding(namespace, "p", uid, "node-a")))
            await asyncio.sleep(0.3)
            assert (await pod_of(direct, namespace, "p"))["spec"]["nodeName"] == "node-a"
            assert not binding.done()
            proxy.is_silent = False
            assert await binding == Bound("node-a")

    asyncio.run(story())


# ── status ──


def test_a_status_is_written_when_it_says_something_new(plane: Plane, namespace: str) -> None:
    async def story() -> None:
        async with ApiClient(plane.access) as client:
            uid = await make_pod(client, namespace, "p")
            writer, pod = StatusWriter(client), PodReference(namespace, "p", uid)
            nothing = SchedulingStatus()
            first = SchedulingStatus(UnscheduledReason.UNSCHEDULABLE, "0/3 nodes: 3 Insufficient cpu", "n1")
            assert await writer.write(pod, nothing, first) is Written.WRITTEN
            status = (await pod_of(client, namespace, "p"))["status"]
            condition = status["conditions"][0]
            assert (condition["type"], condition["status"]) == ("PodScheduled", "False")
            assert (condition["reason"], condition["message"]) == (first.reason, first.message)
            assert status["nominatedNodeName"] == "n1"

            version = (await pod_of(client, namespace, "p"))["metadata"]["resourceVersion"]
            assert await writer.write(pod, first, first) is Written.UNCHANGED
            assert (await pod_of(client, namespace, "p"))["metadata"]["resourceVersion"] == version

            second = SchedulingStatus(UnscheduledReason.UNSCHEDULABLE, "0/3 nodes: 3 Insufficient memory")
            assert await writer.write(pod, first, second) is Written.WRITTEN
            status = (await pod_of(client, namespace, "p"))["status"]
            assert "nominatedNodeName" not in status
            assert status["conditions"][0]["message"] == second.message
            assert status["conditions"][0]["lastTransitionTime"] == condition["lastTransitionTime"]

            namesake = PodReference(namespace, "p", "another-uid")
            assert await writer.write(namesake, nothing, first) is Written.GONE
            absent = PodReference(namespace, "absent", uid)
            assert await writer.write(absent, nothing, first) is Written.GONE

    asyncio.run(story())


# ── events ──


def test_events_become_series_and_long_notes_are_cut(plane: Plane, namespace: str) -> None:
    async def story() -> None:
        async with ApiClient(plane.access) as client:
            uid = await make_pod(client, namespace, "p")
            pod = Regarding(PODS, "p", uid, namespace)
            failed = Event(pod, EventType.WARNING, "FailedScheduling", "Scheduling", "0/3 nodes fit")
            recorder = EventRecorder(
                client, "stowplan", "stowplan-0", settings=RecorderSettings(refresh_s=0.0)
            )
            recorder.record(failed)
            await recorder.flush()
            for _ in range(3):
                recorder.record(failed)
            recorder.record(Event(pod, EventType.NORMAL, "Scheduled", "Binding", "ä" * 2000))
            node = Regarding(NODES, "n1", "uid-of-n1")
            recorder.record(Event(node, EventType.NORMAL, "Drained", "Watching", "it was said"))
            await recorder.flush()

            found = read(await client.request("GET", EVENTS.path(namespace), what="list events"))["items"]
            by_reason = {event["reason"]: event for event in found}
            assert len(found) == 2
            assert by_reason["FailedScheduling"]["series"]["count"] == 4
            assert by_reason["FailedScheduling"]["regarding"]["uid"] == uid
            assert len(by_reason["Scheduled"]["note"].encode()) <= 1024
            assert by_reason["Scheduled"]["note"].endswith("ä…")
            elsewhere = read(await client.request("GET", EVENTS.path("default"), what="list events"))["items"]
            assert [event["reason"] for event in elsewhere if event["regarding"]["name"] == "n1"] == [
                "Drained"
            ]

            await client.delete(EVENTS, by_reason["FailedScheduling"]["metadata"]["name"], namespace)
            recorder.record(failed)  # its event has run out: it is made anew, with the count
            await recorder.flush()
            found = read(await client.request("GET", EVENTS.path(namespace), what="list events"))["items"]
            assert [event["series"]["count"] for event in found if event["reason"] == failed.reason] == [5]
            assert recorder.health.dropped == {}

    asyncio.run(story())


# ── apply ──


def test_apply_owns_what_it_says_and_respects_what_others_own(plane: Plane, namespace: str) -> None:
    async def story() -> None:
        async with ApiClient(plane.access) as client:
            await apply(client, CONFIG_MAPS, "c", {"data": {"a": "1", "b": "2"}}, namespace)
            await apply(client, CONFIG_MAPS, "c", {"data": {"a": "1"}}, namespace)
            found = read(await client.get(CONFIG_MAPS, "c", namespace))
            assert found["data"] == {"a": "1"}
            await client.replace(CONFIG_MAPS, "c", found | {"data": {"a": "theirs"}}, namespace)
            with pytest.raises(Conflict, match=r"\.data\.a"):
                await apply(client, CONFIG_MAPS, "c", {"data": {"a": "ours"}}, namespace)
            await apply(client, CONFIG_MAPS, "c", {"data": {"a": "ours"}}, namespace, force=True)
            assert read(await client.get(CONFIG_MAPS, "c", namespace))["data"] == {"a": "ours"}

    asyncio.run(story())
