"""A cluster's place: names, addresses and the folder are its own, and an owner that is gone is noticed."""

import ipaddress
import json
import subprocess
from pathlib import Path

import psutil
import pytest

from testbed import site
from testbed.errors import MissingPrerequisite


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOWPLAN_CACHE", str(tmp_path))


@pytest.fixture
def no_routes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Routes of the machine, for this test to fill."""
    routes: list[str] = []

    def listed(*_: object, **__: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess([], 0, json.dumps([{"dst": route} for route in routes]))

    monkeypatch.setattr(subprocess, "run", listed)
    return routes


def ranges(here: site.Site) -> list[ipaddress.IPv4Network]:
    own = [here.pod_range(1), here.pod_range(16), here.fake_pod_range, here.service_range]
    return [ipaddress.IPv4Network(text) for text in own]


def test_every_cluster_has_a_range_of_its_own_and_its_parts_do_not_overlap(no_routes: list[str]) -> None:
    first, second = site.claim("one", owned=False), site.claim("two", owned=False)
    assert no_routes == []
    assert not ipaddress.ip_network(first.whole_range).overlaps(ipaddress.ip_network(second.whole_range))
    for here in (first, second):
        whole = ipaddress.IPv4Network(here.whole_range)
        parts = [*ranges(here), ipaddress.IPv4Network(f"10.{here.slot}.0.0/24")]
        assert all(part.subnet_of(whole) for part in parts)
        assert not any(a.overlaps(b) for i, a in enumerate(parts) for b in parts[:i])
        assert ipaddress.IPv4Address(here.service_address) in ipaddress.IPv4Network(here.service_range)


def test_a_range_that_the_machine_routes_elsewhere_is_left_alone(no_routes: list[str]) -> None:
    no_routes += ["default", "10.128.7.0/24", "10.130.0.0/15"]
    assert [site.claim(name, owned=False).slot for name in ("a", "b")] == [129, 132]


def test_when_every_range_is_taken_the_line_says_so(no_routes: list[str]) -> None:
    no_routes.append("10.0.0.0/8")
    with pytest.raises(MissingPrerequisite, match=r"no free range of addresses: .*make cluster-down"):
        site.claim("one", owned=False)
    assert list(site.sites()) == []


@pytest.mark.usefixtures("no_routes")
def test_links_fit_the_longest_name() -> None:
    here = site.claim("a" * site.LONGEST_NAME, owned=False)
    assert len(here.host_link) <= 15


@pytest.mark.usefixtures("no_routes")
def test_it_is_found_again_by_name_or_when_it_is_the_only_one() -> None:
    with pytest.raises(MissingPrerequisite, match=r"^no test cluster is here: make cluster$"):
        site.find()
    one = site.claim("one", owned=False)
    assert site.find() == site.find("one") == one
    site.claim("two", owned=False)
    with pytest.raises(MissingPrerequisite, match=r"^several clusters are here: name one of one, two"):
        site.find()
    with pytest.raises(MissingPrerequisite, match=r"^no cluster is named three: name one of one, two"):
        site.find("three")


@pytest.mark.usefixtures("no_routes")
def test_an_owner_that_is_gone_makes_an_orphan_even_if_its_number_is_used_again() -> None:
    owned = site.claim("one", owned=True)
    assert not owned.is_orphan()
    assert not site.claim("two", owned=False).is_orphan()
    successor = site.Site("one", owned.slot, owned.owner_pid, psutil.Process().create_time() - 60.0)
    assert successor.is_orphan()
    gone = site.Site("one", owned.slot, 2**22 + 1, 0.0)
    assert gone.is_orphan()
