"""The real cluster that these tests share: one per session, a namespace per test, logs kept on failure."""

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from lightkube import Client
from lightkube.resources.core_v1 import Namespace

from testbed import api
from testbed import cluster as clusters
from testbed.cluster import Cluster
from testbed.errors import MissingPrerequisite
from testbed.spec import GIB, ClusterSpec, FakeNodes, RealNode

# Two unequal nodes with real pods, a hundred that kwok plays, and the services that the tests look at.
SPEC = ClusterSpec(
    real_nodes=(
        RealNode(cpus=1.0, memory_bytes=4 * GIB),
        RealNode(
            cpus=0.5, memory_bytes=2 * GIB, disk_read_bytes_per_s=20 << 20, disk_write_bytes_per_s=10 << 20
        ),
    ),
    fake_nodes=(FakeNodes(count=100),),
    argo=True,
    prometheus=True,
    images=("pause", "busybox", "load", "argoexec"),
)

_numbers = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests of this folder, so that `-m "not cluster"` leaves them out."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("cluster")


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest, repository: Path) -> Iterator[Cluster]:
    """A running cluster of SPEC, which ends with this process, whatever becomes of it."""
    try:
        running = clusters.start(SPEC, owned=True)
    except MissingPrerequisite as missing:
        pytest.skip(str(missing))
    failed_before = request.session.testsfailed
    try:
        yield running
    finally:
        if request.session.testsfailed > failed_before:
            running.keep_logs(repository / "out" / "cluster-logs" / running.site.name)
        running.down()


@pytest.fixture
def client(cluster: Cluster) -> Client:
    """A client with all rights."""
    return cluster.client


@pytest.fixture
def namespace(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """A fresh namespace, named after the test; its pods go at once when the test is over."""
    words = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower()).strip("-")
    name = f"{words[:40].strip('-')}-{next(_numbers)}"
    api.make_namespace(cluster.client, name)
    yield name
    api.delete_pods(cluster.client, name)
    cluster.client.delete(Namespace, name)
