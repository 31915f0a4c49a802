"""A cluster comes and goes wholly: beside another, after a crash of its owner, and when it cannot start."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from testbed import api, network, site, sweep
from testbed import cluster as clusters
from testbed.errors import ComponentFailed, MissingPrerequisite
from testbed.prerequisites import check
from testbed.spec import ClusterSpec
from testbed.waiting import wait_for

BARE = ClusterSpec(scheduler=None)

# Brings a bare cluster up that it owns, says its name, and waits to be killed.
OWNER = """
import sys, time
from testbed import cluster
from testbed.spec import ClusterSpec
running = cluster.start(ClusterSpec(scheduler=None), owned=True)
print(running.site.name, flush=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def able() -> None:
    """Skip where no bare cluster can run."""
    try:
        check(BARE)
    except MissingPrerequisite as missing:
        pytest.skip(str(missing))


def site_of(name: str) -> site.Site:
    return next(here for here in site.sites() if here.name == name)


@pytest.fixture
def owner(repository: Path) -> Iterator[tuple[subprocess.Popen[str], site.Site]]:
    """Another process that owns a running cluster."""
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER],
        cwd=repository,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with process:
        assert process.stdout is not None
        owned = site_of(process.stdout.readline().strip())
        yield process, owned
        process.kill()


def test_two_clusters_run_side_by_side_and_each_goes_alone() -> None:
    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(lambda _: clusters.start(BARE, owned=True), range(2))
    try:
        assert one.site.whole_range != other.site.whole_range
        api.make_namespace(one.client, "here-only")
        one.down()
        assert sweep.remains(one.site) == []
        other.daemons.check()
        api.make_namespace(other.client, "still-here")
        one_again = clusters.start(BARE, one.site.name, owned=True)
        assert one_again.site == one.site or one_again.site.name == one.site.name
        one_again.down()
    finally:
        other.down()
    assert sweep.remains(other.site) == []


def test_a_cluster_goes_when_its_owner_is_killed(owner: tuple[subprocess.Popen[str], site.Site]) -> None:
    process, owned = owner
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_for("everything of the cluster is gone", lambda: sweep.remains(owned) == [], 10.0)


def test_what_even_the_keeper_left_goes_at_the_next_start(
    owner: tuple[subprocess.Popen[str], site.Site],
) -> None:
    process, owned = owner
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        words = line.read_bytes().split(b"\0")
        if b"testbed.keeper" in words and owned.name.encode() in words:
            os.kill(int(line.parent.name), signal.SIGKILL)
    process.send_signal(signal.SIGKILL)
    process.wait()
    time.sleep(0.2)
    assert any("process" in left for left in sweep.remains(owned)), "nobody was there to take it away"
    assert owned.is_orphan()
    assert owned.name in sweep.sweep_orphans()
    assert sweep.remains(owned) == []


def test_a_taken_port_is_one_line_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[site.Site] = []
    make_hub = network.make_hub

    def make_hub_with_a_squatter(here: site.Site) -> None:
        make_hub(here)
        made.append(here)
        squatters.append(network.listen(here.hub, "0.0.0.0", 443))  # noqa: S104 - in the hub's own namespace

    squatters: list[socket.socket] = []
    monkeypatch.setattr(network, "make_hub", make_hub_with_a_squatter)
    with pytest.raises(ComponentFailed) as failure:
        clusters.start(BARE, owned=True)
    squatters[0].close()
    said = str(failure.value)
    assert said.startswith("kube-apiserver ended (exit code 1): ")
    assert "address already in use" in said
    assert "\n" not in said
    assert sweep.remains(made[0]) == []


def test_a_name_that_is_taken_is_refused_and_the_first_cluster_stays() -> None:
    with clusters.running(BARE) as running:
        with pytest.raises(
            MissingPrerequisite, match=rf"a cluster named {running.site.name} is here already"
        ):
            clusters.start(BARE, running.site.name, owned=True)
        running.daemons.check()


@pytest.mark.parametrize("name", ["Big", "nine12345", "a_b", "../x"])
def test_a_name_that_cannot_be_one_is_refused(name: str) -> None:
    with pytest.raises(MissingPrerequisite, match=r"cannot name a cluster: use 1 to 8 lower-case"):
        site.claim(name, owned=True)


def test_a_full_disk_is_said_before_anything_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", tmp_path], check=True)
    try:
        monkeypatch.setenv("STOWPLAN_CACHE", str(tmp_path))
        with pytest.raises(MissingPrerequisite, match=rf"0\.0 GB free at {tmp_path}, .*free some"):
            clusters.start(BARE, owned=True)
        assert list(tmp_path.iterdir()) == []
    finally:
        subprocess.run(["umount", tmp_path], check=True)
