"""Leader election on a real API server: leaders that are killed, paused, cut off or end."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator

import msgspec
import pytest

from stowplan.kube.api.client import ApiClient
from stowplan.kube.api.lease import Election, LeaseSettings, identity_of
from stowplan.kube.api.resources import LEASES
from tests.cluster.kube_api_plane import Plane, bare_plane
from tests.unit.kube_api.proxy import ToxicProxy

BUSY_S = 1.0  # for a few requests on a busy machine
SHORT = LeaseSettings(duration_s=3.0, renew_s=2.0, retry_s=0.4)


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    with bare_plane() as made:
        yield made


@pytest.fixture
def namespace(plane: Plane, request: pytest.FixtureRequest) -> str:
    return plane.make_namespace(request.node.name)


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
                    await asyncio.sleep(0.0002)  # looks often: the last look is the one that matters
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
                await asyncio.sleep(0.0002)  # shorter than the moment in which the work has to end
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
            assert not msgspec.json.decode(await client.get(LEASES, "lease", namespace))["spec"].get(
                "holderIdentity"
            )
        assert [name for name, _, _ in spans] == ["first", "second"]
        assert spans[0][2] < spans[1][1]

    asyncio.run(story())
