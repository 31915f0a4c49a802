"""A whole test cluster, up and down: `with running(ClusterSpec(…)) as cluster`, or `start` and `down`."""

import shutil
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from lightkube import Client

from testbed import (
    api,
    argo,
    audit,
    control_plane,
    keeper,
    kwok,
    monitoring,
    network,
    nodes,
    prerequisites,
    sweep,
)
from testbed.control_plane import ControlPlane
from testbed.daemons import Daemons
from testbed.keeper import Keeper
from testbed.nodes import DelayRelay, RunningNode
from testbed.site import Site, claim
from testbed.spec import ClusterSpec

MANY_FAKE_NODES = 200


@dataclass
class Cluster:
    """A running test cluster.

    Attributes:
        nodes: Its real nodes, by name.
        delay: The relay between its real nodes, if the spec asked for delay.
        keeper: What takes it away when this process dies; None for one that stays.
    """

    spec: ClusterSpec
    plane: ControlPlane
    client: Client
    nodes: dict[str, RunningNode] = field(default_factory=dict[str, RunningNode])
    delay: DelayRelay | None = None
    keeper: Keeper | None = None

    @property
    def site(self) -> Site:
        """Its place on the machine."""
        return self.plane.site

    @property
    def daemons(self) -> Daemons:
        """Its processes."""
        return self.plane.daemons

    def keep_logs(self, folder: Path) -> None:
        """Copy the logs of all components to a folder, which is made."""
        shutil.copytree(self.site.folder / "logs", folder, dirs_exist_ok=True)

    def down(self) -> None:
        """End it and remove everything it made.

        Raises:
            ComponentFailed: Something could not be removed.
        """
        self.client.close()
        _take_away(self.site, self.daemons, self.keeper)


def start(spec: ClusterSpec, name: str | None = None, *, owned: bool) -> Cluster:
    """Bring a cluster up, and wait until all of its nodes are ready.

    Args:
        spec: What it consists of.
        name: Up to eight lower-case letters and digits; by default one is drawn.
        owned: Whether it ends with this process, even if that is killed.

    Raises:
        MissingPrerequisite: The machine lacks something, or the name is taken.
        ComponentFailed: A part did not come up; what was started before is taken down again.
    """
    prerequisites.check(spec)
    if spec.prometheus:
        monitoring.fetch()
    sweep.sweep_orphans()
    site = claim(name, owned=owned)
    watching = keeper.watch(site) if owned else None
    daemons = Daemons(site)
    try:
        cluster = _start(spec, daemons)
    except BaseException:
        _take_away(site, daemons, watching)
        raise
    cluster.keeper = watching
    return cluster


def _take_away(site: Site, daemons: Daemons, watching: Keeper | None) -> None:
    try:
        sweep.sweep(site)
        daemons.reap()
    finally:
        if watching is not None:
            watching.dismiss()


def _start(spec: ClusterSpec, daemons: Daemons) -> Cluster:
    site = daemons.site
    network.make_hub(site)
    # A test sees a node die in seconds; among thousands on a busy machine that would kill nodes that live.
    dead_node_s = 12 if spec.fake_count() <= MANY_FAKE_NODES else 60
    flags = audit.flags(site) if spec.audit else []
    plane = control_plane.start(site, daemons, dead_node_s=dead_node_s, api_server_flags=flags)
    cluster = Cluster(spec, plane, api.connect(site.kubeconfig))
    with ThreadPoolExecutor(len(spec.real_nodes) + 1) as pool:
        installed = [pool.submit(argo.start, plane, cluster.client)] if spec.argo else []
        if spec.scheduler is not None:
            plane.start_scheduler(spec.scheduler)
        if spec.fake_nodes:
            kwok.start(plane, cluster.client, spec.fake_nodes)
        started = [
            pool.submit(nodes.start, plane, number, node, spec.images)
            for number, node in enumerate(spec.real_nodes, start=1)
        ]
        cluster.nodes = {node.name: node for node in (future.result() for future in started)}
        for future in installed:
            future.result()
    if spec.delay_s:
        cluster.delay = nodes.delay_between(plane, spec.delay_s)
    if spec.prometheus:
        monitoring.start(plane, spec)
    wanted = len(spec.real_nodes) + spec.fake_count()
    cluster.daemons.wait_for(
        f"{wanted} nodes are ready", lambda: len(api.ready_nodes(cluster.client)) == wanted
    )
    return cluster


@contextmanager
def running(spec: ClusterSpec, *, logs_on_failure: Path | None = None) -> Generator[Cluster]:
    """A cluster for the duration of a block; the logs are kept when the block fails."""
    cluster = start(spec, owned=True)
    try:
        yield cluster
    except BaseException:
        if logs_on_failure is not None:
            cluster.keep_logs(logs_on_failure)
        raise
    finally:
        cluster.down()
