"""Binder, status, events, apply and lease on a real API server, with rivals and a bad network."""

import asyncio
import itertools
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from stowplan.kube.api.apply import apply
from stowplan.kube.api.binder import Binder, Binding, Bound, Elsewhere, Gone, NotBound
from stowplan.kube.api.client import ApiClient
from stowplan.kube.api.errors import Conflict
from stowplan.kube.api.lease import Election, LeaseSettings, identity_of
from stowplan.kube.api.recorder import Event, EventRecorder, EventType, RecorderSettings, Regarding
from stowplan.kube.api.resources import EVENTS, LEASES, NAMESPACES, NODES, PODS
from stowplan.kube.api.status import (
    PodReference,
    SchedulingStatus,
    StatusWriter,
    UnscheduledReason,
    Written,
)
from tests.cluster.kube_api_plane import CONFIG_MAPS, Plane, bare_plane
from tests.unit.kube_api.proxy import ToxicProxy

BUSY_S = 1.0  # for a few requests on a busy machine
SHORT = LeaseSettings(duration_s=3.0, renew_s=2.0, retry_s=0.4)

Json = dict[str, Any]

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    with bare_plane() as made:
        yield made


@pytest.fixture
def namespace(plane: Plane, request: pytest.FixtureRequest) -> str:
    words = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower())
    name = f"{words[:40].strip('-')}-{next(_numbers)}"

    async def make() -> None:
        async with ApiClient(plane.access) as client:
            await client.create(NAMESPACES, {"metadata": {"name": name}})

    asyncio.run(make())
    return name


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


# ── lease ──

INSTANCE = textwrap.dedent(
    """
    import asyncio, sys, time
    from pathlib import Path
    from stowplan.kube.api.access import from_kubeconfig
    from stowplan.kube.api.client import ApiClient
    from stowplan.kube.api.lease import Election, LeaseSettings, identity_of

    async def main(kubeconfig, namespace, name, *times):
        settings = LeaseSettings(**dict(zip(("duration_s", "renew_s", "retry_s"), map(float, times))))
        async with ApiClient(from_kubeconfig([Path(kubeconfig)])) as client:
            election = Election(client, namespace, "lease", identity_of(name), settings=settings)
            async def follow():
                while not election.health.holder:
                    await asyncio.sleep(0.02)
                print("follows", flush=True)
            following = asyncio.create_task(follow())
            async def lead():
                while True:
                    print("lead" if election.is_leader else "not", time.monotonic(), flush=True)
                    await asyncio.sleep(0.02)
            await election.run(lead)

    asyncio.run(main(*sys.argv[1:]))
    """
)


class Instance:
    """A process that takes part in the election and says when it leads."""

    def __init__(self, plane: Plane, namespace: str, name: str, settings: LeaseSettings = SHORT) -> None:
        times = [str(each) for each in (settings.duration_s, settings.renew_s, settings.retry_s)]
        self.process = subprocess.Popen(
            [sys.executable, "-c", INSTANCE, plane.plane.site.kubeconfig, namespace, name, *times],
            stdout=subprocess.PIPE,
        )
        assert self.process.stdout is not None
        os.set_blocking(self.process.stdout.fileno(), False)
        self._rest = b""
        self.led: list[float] = []
        self.follows = False

    def read(self) -> list[float]:
        """The monotonic times at which it said that it leads."""
        assert self.process.stdout is not None
        self._rest += self.process.stdout.read() or b""
        *lines, self._rest = self._rest.split(b"\n")
        self.follows = self.follows or b"follows" in lines
        self.led += [float(line.split()[1]) for line in lines if line.startswith(b"lead ")]
        return self.led

    def wait_to_lead(self, within_s: float) -> float:
        end_s = time.monotonic() + within_s
        before = len(self.read())
        while len(self.read()) == before:
            assert time.monotonic() < end_s, "it does not lead in time"
            assert self.process.poll() is None
            time.sleep(0.02)
        return self.led[before]

    def wait_to_follow(self) -> None:
        """Wait until it has seen who holds the lease."""
        end_s = time.monotonic() + 20.0
        while not (self.read() or self.follows):
            assert time.monotonic() < end_s
            time.sleep(0.02)

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def instances() -> Iterator[list[Instance]]:
    made: list[Instance] = []
    yield made
    for each in made:
        each.end()


@pytest.mark.parametrize(
    "settings", [SHORT, pytest.param(LeaseSettings(), marks=pytest.mark.slow)], ids=["short", "as-served"]
)
def test_a_killed_leader_is_followed_in_the_time_of_a_lease(
    plane: Plane, namespace: str, instances: list[Instance], settings: LeaseSettings
) -> None:
    instances.append(Instance(plane, namespace, "first", settings))
    instances[0].wait_to_lead(10.0)
    instances.append(Instance(plane, namespace, "second", settings))
    instances[1].wait_to_follow()
    time.sleep(settings.retry_s * 1.5)
    killed_s = time.monotonic()
    instances[0].process.kill()
    instances[0].process.wait()
    assert instances[1].wait_to_lead(30.0) - killed_s <= settings.duration_s + BUSY_S
    assert max(instances[0].read()) <= killed_s


def test_a_leader_that_was_paused_does_not_act_when_it_wakes(
    plane: Plane, namespace: str, instances: list[Instance]
) -> None:
    instances.append(Instance(plane, namespace, "first"))
    instances[0].wait_to_lead(10.0)
    instances.append(Instance(plane, namespace, "second"))
    instances[1].wait_to_follow()
    instances[0].process.send_signal(signal.SIGSTOP)
    stopped_s = time.monotonic()
    taken_s = instances[1].wait_to_lead(10.0)
    time.sleep(0.3)
    instances[0].process.send_signal(signal.SIGCONT)
    time.sleep(1.0)
    first, second = instances[0].read(), instances[1].read()
    assert max(first) < stopped_s + 0.1  # not a word after it woke
    assert taken_s == min(second)
    assert max(second) > taken_s + 1.0


def test_a_leader_that_ends_gives_the_lease_back(
    plane: Plane, namespace: str, instances: list[Instance]
) -> None:
    instances.append(Instance(plane, namespace, "first", LeaseSettings()))
    instances[0].wait_to_lead(10.0)
    instances.append(Instance(plane, namespace, "second", LeaseSettings()))
    instances[1].wait_to_follow()
    instances[0].process.send_signal(signal.SIGINT)
    ended_s = time.monotonic()
    assert instances[1].wait_to_lead(10.0) - ended_s < 5.0  # a third of what a lease lasts


def test_a_leader_cut_off_stops_before_another_begins(plane: Plane, namespace: str) -> None:
    async def story() -> None:
        spans: list[tuple[str, float, float]] = []

        async def lead(name: str, election: Election) -> None:
            begin_s = time.monotonic()
            try:
                while True:
                    assert election.is_leader
                    await asyncio.sleep(0.01)
            finally:
                spans.append((name, begin_s, time.monotonic()))

        async with (
            ToxicProxy(*plane.target) as proxy,
            ApiClient(plane.through(proxy.address)) as cut_off,
            ApiClient(plane.access) as client,
        ):
            first = Election(cut_off, namespace, "lease", identity_of("first"), settings=SHORT)
            second = Election(client, namespace, "lease", identity_of("second"), settings=SHORT)
            running = [asyncio.create_task(first.run(lambda: lead("first", first)))]
            while not first.is_leader:  # noqa: ASYNC110 - the clock decides, no event tells
                await asyncio.sleep(0.01)
            running.append(asyncio.create_task(second.run(lambda: lead("second", second))))
            await asyncio.sleep(1.0)
            proxy.is_silent = True
            while not second.is_leader:
                assert not (first.is_leader and second.is_leader)
                await asyncio.sleep(0.01)
            assert "first" not in first.health.error
            assert first.health.error
            proxy.is_silent = False
            async with asyncio.timeout(10.0):
                while first.health.holder != second.health.identity:  # noqa: ASYNC110 - as above
                    await asyncio.sleep(0.01)
            assert first.health.transitions == 1
            assert second.is_leader
            for each in running:
                each.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            assert not read(await client.get(LEASES, "lease", namespace))["spec"].get("holderIdentity")
        assert [name for name, _, _ in spans] == ["first", "second"]
        assert spans[0][2] < spans[1][1]

    asyncio.run(story())
