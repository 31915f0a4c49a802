"""What can happen between a scheduler and the API server, and to its leader; how soon all is well again.

Recovery is from when the server can be used again until a pod that is created then has a node: the wait of
whoever uses the cluster.
"""

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from lightkube.resources.core_v1 import Node

from bench.live.chaos import Arena, bound, seen_by, there_are
from testbed import bulk, etcd
from testbed.bulk import Connection
from testbed.cluster import Cluster
from testbed.control_plane import ControlPlane
from testbed.errors import ComponentFailed
from testbed.faults import Fault, FaultyProxy
from testbed.stowplan import Scheduler
from testbed.waiting import wait_for

API_SERVER: Final = "kube-apiserver"
LONGEST_S: Final = 120.0
SHORT_PAUSE_S: Final = 0.05
RENEWED_S: Final = 5.0  # in which all replicas have seen the leader renew its lease
MIXED: Final[Mapping[Fault, float]] = {
    Fault.TOO_MANY: 0.04,
    Fault.FAILED: 0.04,
    Fault.LOST_ANSWER: 0.04,
    Fault.CUT: 0.04,
    Fault.SILENT: 0.01,
    Fault.GONE: 0.2,
}


def under_faults(
    arena: Arena,
    proxy: FaultyProxy,
    scheduler: Scheduler,
    rounds: int,
    *,
    pods: int,
    chances: Mapping[Fault, float] = MIXED,
) -> float:
    """Create pods round by round while requests fail; returns the recovery once they do not, in seconds.

    Every other round all connections are cut too, so that watches begin anew amid the faults.

    Raises:
        ComponentFailed: A pod found no node in the end, or the scheduler's view is not the API server's.
    """
    proxy.chances = dict(chances)
    for number in range(rounds):
        arena.create(pods)
        if number % 2:
            proxy.cut_all()
        time.sleep(1.0)
        arena.pods()
    proxy.chances = {}
    return recovery_s(arena, scheduler, time.monotonic())


def recover_from_restart(arena: Arena, scheduler: Scheduler, *, down_s: float, pods: int) -> float:
    """Kill the API server while pods wait, start it again; returns the recovery in seconds.

    Raises:
        ComponentFailed: As in `under_faults`.
    """
    arena.create(pods)
    with api_server_down(arena.cluster.plane):
        time.sleep(down_s)
    return recovery_s(arena, scheduler, time.monotonic())


def recover_from_cut(
    arena: Arena, proxy: FaultyProxy, scheduler: Scheduler, *, pods: int, node: str
) -> float:
    """Cut the way to the API server; delete pods and a node, and have all that went on before forgotten.

    etcd forgets all versions but the newest and the API server, started again, holds none in memory: every
    watch that goes on from where it was ends with 410. The node is lost for good. Returns the recovery in
    seconds.

    Raises:
        ComponentFailed: As in `under_faults`; or what was deleted is still believed in.
    """
    plane = arena.cluster.plane
    arena.create(pods)
    proxy.is_down = True
    proxy.cut_all()
    with Connection(plane) as connection:
        bulk.delete_pods(connection, arena.namespace)
    arena.forget()
    arena.cluster.client.delete(Node, node)
    arena.create(pods)
    etcd.compact(plane)
    with api_server_down(plane):
        pass
    proxy.is_down = False
    return recovery_s(arena, scheduler, time.monotonic())


@contextmanager
def api_server_down(plane: ControlPlane) -> Generator[None]:
    """The API server is killed, and after the block started again and ready.

    Raises:
        ComponentFailed: It does not come up.
    """
    command = plane.daemons.running[API_SERVER].command
    plane.daemons.running[API_SERVER].kill()
    plane.daemons.forget(API_SERVER)
    yield
    plane.daemons.start(API_SERVER, command)
    plane.daemons.wait_for("the API server is ready", lambda: plane.answers("/readyz"), LONGEST_S)


def recovery_s(arena: Arena, scheduler: Scheduler, since_s: float) -> float:
    """Create a pod and wait until it has a node; then all pods must get one, and the views must agree."""
    arena.create(1)
    newest = arena.newest
    wait_for(f"{newest} has a node", lambda: arena.has_node(newest), LONGEST_S, longest_pause_s=SHORT_PAUSE_S)
    took_s = time.monotonic() - since_s
    arena.wait_until_all_bound()
    wait_until_views_agree(scheduler, arena.cluster)
    return took_s


def wait_until_views_agree(scheduler: Scheduler, cluster: Cluster) -> None:
    """Wait until the scheduler knows as many nodes and pods as there are.

    Raises:
        ComponentFailed: It does not come to that.
    """
    wait_for("the scheduler sees what there is", lambda: seen_by(scheduler) == there_are(cluster), LONGEST_S)


def leader_of(replicas: Sequence[Scheduler]) -> Scheduler | None:
    """The replica that leads; None while none does.

    Raises:
        ComponentFailed: More than one does.
    """
    leading = [each for each in replicas if each.leads()]
    if len(leading) > 1:
        raise ComponentFailed(f"{' and '.join(each.name for each in leading)} lead at the same time")
    return leading[0] if leading else None


def change_leader(
    arena: Arena, replicas: Sequence[Scheduler], end: Callable[[Scheduler], None], *, pods: int
) -> float:
    """End the leader while it binds; returns the seconds from its end until another leads.

    The ended one is started again, as its Deployment would do.

    Raises:
        ComponentFailed: None leads, or two do.
    """
    for replica in replicas:
        wait_for(f"{replica.name} is ready", replica.is_ready, LONGEST_S)
    time.sleep(RENEWED_S)
    wait_for("one leads", lambda: leader_of(replicas), LONGEST_S)
    leader = leader_of(replicas)
    if leader is None:
        raise ComponentFailed("the leader gave up by itself")
    others = [each for each in replicas if each is not leader]
    before = bound(leader)
    arena.create(pods)
    wait_for("it binds", lambda: bound(leader) > before, LONGEST_S)
    end(leader)
    ended_s = time.monotonic()
    wait_for("another leads", lambda: leader_of(others), LONGEST_S, longest_pause_s=SHORT_PAUSE_S)
    took_s = time.monotonic() - ended_s
    leader.start()
    arena.wait_until_all_bound()
    return took_s
