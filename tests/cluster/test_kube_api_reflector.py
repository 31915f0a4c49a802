"""The reflector beside a real API server that is killed, restarted, compacted, and behind a bad network."""

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from stowplan.kube.api.client import ApiClient, Patch, PatchKind
from stowplan.kube.api.errors import Expired, KubernetesError, NotFound
from stowplan.kube.api.reflection import Health, ReflectorState, Settings
from stowplan.kube.api.reflector import Reflector
from stowplan.kube.api.resources import Resource
from tests.cluster.kube_api_plane import CONFIG_MAPS, DEFINITIONS, WIDGETS, Plane, bare_plane, definition
from tests.unit.kube_api.mirror import Mirror
from tests.unit.kube_api.proxy import ToxicProxy

RECOVERY_S = 5.0  # demanded: in step again so long after the API server is back


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    with bare_plane() as made:
        yield made


@pytest.fixture
def namespace(plane: Plane, request: pytest.FixtureRequest) -> str:
    return plane.make_namespace(request.node.name)


@asynccontextmanager
async def reflecting(
    client: ApiClient, resource: Resource, namespace: str, settings: Settings | None = None
) -> AsyncGenerator[tuple[Reflector[bytes], Mirror]]:
    mirror = Mirror()
    reflector = Reflector(client, resource, bytes, mirror, namespace=namespace, settings=settings)
    running = asyncio.create_task(reflector.run())
    try:
        yield reflector, mirror
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


async def until(what: str, look: Callable[[], Any], within_s: float = 20.0) -> float:
    """Wait until `look` is true; the seconds that took. What it raises passes through."""
    begin_s = time.monotonic()
    while not look():
        assert time.monotonic() - begin_s < within_s, f"{what}: not within {within_s} s"
        await asyncio.sleep(0.01)
    return time.monotonic() - begin_s


async def listed(client: ApiClient, resource: Resource, namespace: str) -> dict[str, str]:
    """Resource versions by key, by a plain list."""
    mirror = Mirror()
    reflector = Reflector(client, resource, bytes, mirror, namespace=namespace)
    await reflector._list()
    return mirror.versions()


async def churn(client: ApiClient, namespace: str, changes: int, generator: random.Random) -> None:
    """Create, change, delete and make again at random; what fails is left as it is."""
    for number in range(changes):
        name = f"c{generator.randrange(40)}"
        body: dict[str, Any] = {"metadata": {"name": name}, "data": {"number": str(number)}}
        with suppress(KubernetesError):
            match generator.randrange(4):
                case 0:
                    await client.delete(CONFIG_MAPS, name, namespace)
                case 1:
                    await client.delete(CONFIG_MAPS, name, namespace)
                    await client.create(CONFIG_MAPS, body, namespace)
                case 2:
                    await client.create(CONFIG_MAPS, body, namespace)
                case _:
                    await client.patch(CONFIG_MAPS, name, Patch(PatchKind.MERGE, body), namespace)


async def settle(client: ApiClient, mirror: Mirror, namespace: str, within_s: float = RECOVERY_S) -> float:
    """Wait until the mirror is what a list shows; the seconds that took."""
    wanted = await listed(client, CONFIG_MAPS, namespace)
    return await until("the mirror is the list", lambda: mirror.versions() == wanted, within_s)


def in_background(call: Callable[[], None]) -> Awaitable[None]:
    return asyncio.to_thread(call)


def test_an_api_server_killed_and_restarted_loses_nothing(plane: Plane, namespace: str) -> None:
    async def story() -> Health:
        async with (
            ApiClient(plane.access) as client,
            reflecting(client, CONFIG_MAPS, namespace) as (
                reflector,
                mirror,
            ),
        ):
            generator = random.Random(1)  # noqa: S311 - draws changes
            await churn(client, namespace, 100, generator)
            for _ in range(2):
                changing = asyncio.create_task(churn(client, namespace, 100, generator))
                await asyncio.sleep(0.1)
                await in_background(plane.kill)
                await until("noticed", lambda: reflector.health.state is ReflectorState.WAITING)
                assert reflector.health.error.startswith("watch configmaps: the connection was cut")
                await in_background(plane.start)
                took_s = await settle(client, mirror, namespace)
                assert took_s < RECOVERY_S
                await changing
                await churn(client, namespace, 100, generator)
                await settle(client, mirror, namespace)
            return reflector.health

    health = asyncio.run(story())
    assert health.failures["Unreachable"] >= 2
    assert health.state is ReflectorState.WATCHING


def test_what_was_deleted_while_nobody_listened_is_told_after_410(plane: Plane, namespace: str) -> None:
    async def story() -> None:
        async with (
            ToxicProxy(*plane.target) as proxy,
            ApiClient(plane.access) as direct,
            ApiClient(plane.through(proxy.address)) as client,
            reflecting(client, CONFIG_MAPS, namespace) as (reflector, mirror),
        ):
            for number in range(30):
                await direct.create(CONFIG_MAPS, {"metadata": {"name": f"c{number}"}}, namespace)
            await until("all seen", lambda: len(mirror.objects) == 30)
            proxy.is_refusing = True
            proxy.reset_all()
            for number in range(20):
                await direct.delete(CONFIG_MAPS, f"c{number}", namespace)
            await direct.delete(CONFIG_MAPS, "c20", namespace)
            await direct.create(CONFIG_MAPS, {"metadata": {"name": "c20"}}, namespace)
            old = mirror.objects[f"{namespace}/c20"]
            await in_background(plane.kill)
            await in_background(plane.compact)
            await in_background(plane.start)  # its memory of past versions begins now
            proxy.is_refusing = False
            assert await settle(direct, mirror, namespace) < RECOVERY_S
            assert len(mirror.objects) == 10
            assert mirror.objects[f"{namespace}/c20"].uid != old.uid
            assert reflector.health.failures["Expired"] == 1
            assert reflector.health.lists == 2

    asyncio.run(story())


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_bad_network_loses_and_doubles_nothing(plane: Plane, namespace: str, seed: int) -> None:
    async def vandalise(proxy: ToxicProxy, generator: random.Random) -> None:
        while True:
            match generator.randrange(5):
                case 0:
                    proxy.reset_all()
                case 1:
                    proxy.delay_s = generator.choice([0.0, 0.02, 0.1])
                case 2:
                    proxy.cut_after_bytes = generator.choice([None, 2_000, 5_000, 20_000])
                case 3:
                    proxy.is_refusing = generator.random() < 0.3
                case _:
                    proxy.is_silent = generator.random() < 0.3
            await asyncio.sleep(generator.uniform(0.01, 0.2))

    async def story() -> None:
        settings = Settings(first_pause_s=0.02, longest_pause_s=0.2, silence_s=1.0, page_items=7)
        async with (
            ToxicProxy(*plane.target) as proxy,
            ApiClient(plane.access) as direct,
            ApiClient(plane.through(proxy.address), request_timeout_s=1.0) as client,
            reflecting(client, CONFIG_MAPS, namespace, settings) as (reflector, mirror),
        ):
            generator = random.Random(seed)  # noqa: S311 - draws changes
            vandal = asyncio.create_task(vandalise(proxy, generator))
            end_s = time.monotonic() + 4.0
            while time.monotonic() < end_s:
                await churn(direct, namespace, 20, generator)
                await asyncio.sleep(0.02)
            vandal.cancel()
            proxy.delay_s, proxy.cut_after_bytes, proxy.is_refusing, proxy.is_silent = 0.0, None, False, False
            assert await settle(direct, mirror, namespace) < RECOVERY_S
            assert reflector.health.failures["Unreachable"] >= 3

    asyncio.run(story())


def test_a_list_whose_versions_are_forgotten_half_way_is_begun_again(plane: Plane, namespace: str) -> None:
    async def story() -> None:
        async with ApiClient(plane.access) as client:
            for number in range(6):
                await client.create(CONFIG_MAPS, {"metadata": {"name": f"c{number}"}}, namespace)
            first = await client.page(CONFIG_MAPS, namespace, page_items=2)
            await client.delete(CONFIG_MAPS, "c5", namespace)
            await in_background(plane.kill)  # and its memory of past versions with it
            await in_background(plane.compact)
            await in_background(plane.start)
            with pytest.raises(Expired):
                await client.page(CONFIG_MAPS, namespace, page_items=2, continue_token=first.continue_token)
            assert len(await listed(client, CONFIG_MAPS, namespace)) == 5

    asyncio.run(story())


def test_a_cluster_that_is_restored_from_a_backup(plane: Plane, namespace: str, tmp_path: Path) -> None:
    async def story() -> None:
        async with (
            ToxicProxy(*plane.target) as proxy,
            ApiClient(plane.access) as direct,
            ApiClient(plane.through(proxy.address)) as client,
        ):
            await in_background(lambda: plane.back_up(tmp_path / "etcd"))
            for number in range(60):
                await direct.create(CONFIG_MAPS, {"metadata": {"name": f"lost-{number}"}}, namespace)
            async with reflecting(client, CONFIG_MAPS, namespace) as (reflector, mirror):
                await until("all seen", lambda: len(mirror.objects) == 60)
                proxy.is_refusing = True
                proxy.reset_all()
                await in_background(lambda: plane.restore(tmp_path / "etcd"))
                # The server takes a watch from a version that it has not come to, and is silent until it has.
                await direct.create(CONFIG_MAPS, {"metadata": {"name": "made-since"}}, namespace)
                proxy.is_refusing = False
                assert await settle(direct, mirror, namespace) < RECOVERY_S
                assert list(mirror.objects) == [f"{namespace}/made-since"]
                assert "restored from a backup" not in reflector.health.error
                assert reflector.health.failures["Unreadable"] == 1

    asyncio.run(story())


def test_a_silent_connection_is_given_up(plane: Plane, namespace: str) -> None:
    async def story() -> None:
        async with (
            ToxicProxy(*plane.target) as proxy,
            ApiClient(plane.access) as direct,
            ApiClient(plane.through(proxy.address)) as client,
            reflecting(client, CONFIG_MAPS, namespace, Settings(silence_s=0.5)) as (reflector, mirror),
        ):
            await until("watching", lambda: reflector.health.state is ReflectorState.WATCHING)
            proxy.is_silent = True
            await direct.create(CONFIG_MAPS, {"metadata": {"name": "unheard"}}, namespace)
            await until("noticed", lambda: reflector.health.state is ReflectorState.WAITING, 3.0)
            assert "no answer in time" in reflector.health.error
            proxy.is_silent = False
            assert await settle(direct, mirror, namespace) < RECOVERY_S

    asyncio.run(story())


def test_a_kind_that_is_not_installed_appears_and_disappears(plane: Plane, namespace: str) -> None:
    async def story() -> None:
        settings = Settings(first_pause_s=0.05, absent_pause_s=0.2, gone_s=0.5)
        async with (
            ApiClient(plane.access) as client,
            reflecting(client, WIDGETS, namespace, settings) as (
                reflector,
                mirror,
            ),
        ):
            await until("absent", lambda: reflector.health.state is ReflectorState.ABSENT)
            assert reflector.health.is_settled
            assert "widgets.stowplan.test" in reflector.health.error
            await client.create(DEFINITIONS, definition())
            await until("installed", lambda: reflector.health.state is ReflectorState.WATCHING)
            for number in range(3):
                await client.create(WIDGETS, widget(f"w{number}", {}), namespace)
            await until("seen", lambda: len(mirror.objects) == 3)
            await client.delete(DEFINITIONS, f"{WIDGETS.plural}.{WIDGETS.group}")
            await until("gone", lambda: not mirror.objects)
            await until("absent", lambda: reflector.health.state is ReflectorState.ABSENT)

    asyncio.run(story())


def widget(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": WIDGETS.api_version,
        "kind": WIDGETS.kind,
        "metadata": {"name": name},
        "spec": spec,
    }


def test_an_object_nested_thousands_of_levels_deep_holds_up_no_other(plane: Plane, namespace: str) -> None:
    async def story() -> None:
        async with ApiClient(plane.access) as client:
            await client.create(DEFINITIONS, definition())
            for _ in range(200):
                with suppress(NotFound):
                    await client.page(WIDGETS, namespace)
                    break
                await asyncio.sleep(0.05)
            async with reflecting(client, WIDGETS, namespace) as (reflector, mirror):
                await until("watching", lambda: reflector.health.state is ReflectorState.WATCHING)
                deep = b'{"a":' * 3000 + b"1" + b"}" * 3000
                head = f'{{"apiVersion":"{WIDGETS.api_version}","kind":"{WIDGETS.kind}","metadata":'.encode()
                body = head + b'{"name":"deep"},"spec":' + deep + b"}"
                await client.create(WIDGETS, body, namespace)
                await client.create(WIDGETS, widget("flat", {"a": 1}), namespace)
                await until("the flat one by watch", lambda: f"{namespace}/flat" in mirror.objects)
                assert "nested deeper" in reflector.health.unusable[f"{namespace}/deep"]
            async with reflecting(client, WIDGETS, namespace) as (reflector, mirror):
                await until("the flat one by list", lambda: f"{namespace}/flat" in mirror.objects)
                assert list(reflector.health.unusable) == [f"{namespace}/deep"]
                await client.delete(WIDGETS, "deep", namespace)
                await until("it is gone", lambda: not reflector.health.unusable)

    asyncio.run(story())
