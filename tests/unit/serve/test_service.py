"""The parts of a scheduler process together."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest

from stowplan.core.constraints import RuleTable
from stowplan.errors import InvalidInput
from stowplan.kube.api.client import ApiClient
from stowplan.serve.config import Config
from stowplan.serve.http import listening
from stowplan.serve.preemption import Preemptor
from stowplan.serve.rights import Right
from stowplan.serve.scheduler.flights import Flight
from stowplan.serve.scheduler.interface import Mode
from stowplan.serve.sections import ExtenderConfig, LeaseConfig, PreemptionConfig, SchedulerConfig
from stowplan.serve.service import SchedulerService
from stowplan.serve.together import Together
from testbed.certificates import Authority, KeyPair
from tests.scheduler_cases import until
from tests.unit.kube_api.server import FakeServer

EXPIRY = "stowplan_extender_certificate_expiry_timestamp_seconds"


def extending(**extender: object) -> Config:
    return Config(
        scheduler=SchedulerConfig(mode=Mode.EXTENDER),
        extender=ExtenderConfig(**{"port": 0, **extender}),  # type: ignore[arg-type]
        lease=LeaseConfig(enable=False),
    )


@asynccontextmanager
async def made(config: Config) -> AsyncGenerator[SchedulerService]:
    async with FakeServer() as server, ApiClient(server.access) as client:
        yield SchedulerService(config, RuleTable(()), client)


@asynccontextmanager
async def extender_at(config: Config) -> AsyncGenerator[tuple[SchedulerService, int]]:
    """Run the service for the duration of a block; gives the port of its extender, too."""
    async with made(config) as service, Together() as together:
        service.begin(together)
        async with listening(service.extender_app(), "localhost", 0, service.certificate) as port:
            yield service, port
        assert together.ended() == ""


async def shown(port: int, authority: Authority) -> bytes:
    """The certificate that a new connection is shown."""
    trust = ssl.create_default_context(cafile=authority.pair.certificate)
    trust.verify_flags &= ~ssl.VERIFY_X509_STRICT
    _, writer = await asyncio.open_connection("localhost", port, ssl=trust)
    found = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return found


def test_the_extender_is_served_with_what_was_renewed_and_a_broken_renewal_is_told(tmp_path: Path) -> None:
    authority = Authority(tmp_path)

    def issue() -> KeyPair:
        return authority.issue("extender", "extender", addresses=["localhost"])

    pair = issue()

    async def story() -> None:
        config = extending(certificate=pair.certificate, key=pair.key, reload_s=0.001)
        async with extender_at(config) as (service, port):
            first = await shown(port, authority)
            pair.key.write_text("half a key")
            await until(lambda: service.metrics.degradations.get("certificate"))
            assert str(pair.key) in service.metrics.degradations["certificate"]
            assert await shown(port, authority) == first
            issue()
            await until(lambda: "certificate" not in service.metrics.degradations)
            assert await shown(port, authority) != first
            assert service.metrics.registry.get_sample_value(EXPIRY)

    asyncio.run(story())


@pytest.mark.parametrize(("under_way", "gives_way"), [(0, False), (8, False), (9, True)])
def test_events_give_way_to_placements_once_more_than_a_few_are_under_way(
    under_way: int, gives_way: bool
) -> None:
    async def story() -> None:
        async with made(extending()) as service:
            flights = service.scheduler._flights._flights
            flights |= {f"uid-{number}": cast("Flight", object()) for number in range(under_way)}
            assert service._events._gives_way() is gives_way
            assert service.scheduler.under_way == service.scheduler.status.under_way == under_way
            sizes = service.metrics.registry.get_sample_value("stowplan_cache_size", {"type": "assumed_pods"})
            assert sizes == under_way

    asyncio.run(story())


@pytest.mark.parametrize(
    ("mode", "enable", "makes_room"),
    [(Mode.BINDER, True, True), (Mode.BINDER, False, False), (Mode.GATE, True, False)],
)
def test_room_is_made_by_the_binder_if_it_may_preempt(mode: Mode, *, enable: bool, makes_room: bool) -> None:
    config = Config(
        scheduler=SchedulerConfig(mode=mode),
        preemption=PreemptionConfig(enable=enable, requests=3),
        lease=LeaseConfig(enable=False),
    )

    async def story() -> None:
        async with made(config) as service:
            room = service.scheduler._room
            assert (room is not None) is makes_room
            assert (Right("", "pods", ("delete",)) in service.rights._rights) is makes_room
            if room is not None:
                assert cast("Preemptor", room._preemptor)._settings.requests == 3

    asyncio.run(story())


def test_without_tls_there_is_no_certificate_that_could_expire() -> None:
    async def story() -> None:
        async with made(extending()) as service:
            assert service.certificate is None
            assert service.metrics.registry.get_sample_value(EXPIRY) is None

    asyncio.run(story())


@pytest.mark.parametrize(
    ("config_of", "words"),
    [
        (lambda pair: extending(key=pair.key), "belong together; name both or neither"),
        (lambda pair: extending(certificate=pair.certificate), "belong together; name both or neither"),
        (lambda pair: extending(certificate=pair.key, key=pair.key), r"one\.key .*cannot be used"),
        (lambda pair: extending(client_authority=pair.certificate), "without TLS every client is let in"),
    ],
    ids=["a-key-alone", "a-certificate-alone", "no-certificate", "an-authority-alone"],
)
def test_what_the_extender_cannot_be_served_with_is_refused_before_it_begins(
    tmp_path: Path, config_of: Callable[[KeyPair], Config], words: str
) -> None:
    async def story() -> None:
        async with made(config_of(Authority(tmp_path).issue("one", "one"))):
            pass

    with pytest.raises(InvalidInput, match=words):
        asyncio.run(story())
