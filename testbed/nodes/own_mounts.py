"""A mount namespace per node: what kubelet, containerd and CNI put at fixed paths is each node's own.

Several kubelets on one machine would otherwise tread on each other and leave things behind: the device plugin
socket is always /var/lib/kubelet/device-plugins/kubelet.sock, symbolic links to logs always go to
/var/log/containers, containerd 1.6 puts the sockets of its shims into /run/containerd/s, CNI keeps its
results in /var/lib/cni, and a kubelet sets six parameters of the whole machine's kernel. Inside, a folder of
the node is mounted at each of these places, and a plain file at each parameter. So software that runs on a
node (an agent with a hostPath volume) finds everything where it is on any other machine, and the mounts of a
node's pods vanish with its last process: none is ever seen outside.

Source: Kubernetes 1.37.2 pkg/kubelet/cm/container_manager_linux.go (setupKernelTunables),
pkg/kubelet/kubelet.go.
"""

import shlex
from collections.abc import Sequence
from pathlib import Path

from testbed import cgroups
from testbed.daemons import Daemon, Daemons
from testbed.nodes.place import NodePlace

# Place on the node, and the node's folder that is mounted there.
FOLDERS = {
    "/run/containerd": "run",
    "/var/lib/cni": "cni",
    "/var/lib/kubelet": "kubelet",
    "/var/log/containers": "log/containers",
    "/var/log/pods": "log/pods",
}
# What a kubelet would set these to; it finds them so, and does not touch the machine's.
KERNEL_PARAMETERS = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1_000_000,
    "kernel/keys/root_maxbytes": 25_000_000,
}
# The machine's name server cannot be reached from the node, and asking it would take seconds to fail.
RESOLVER = Path("/etc/resolv.conf")


def make(place: NodePlace, daemons: Daemons) -> Daemon:
    """Make the node's mount namespace, and the process that keeps it as long as it lives.

    Raises:
        ComponentFailed: A mount was refused.
    """
    for point, source in FOLDERS.items():
        # An empty folder stays on the machine: removing it would cut the mount of another cluster's node.
        Path(point).mkdir(parents=True, exist_ok=True)
        (place.folder / source).mkdir(parents=True, exist_ok=True)
    for point, content in _files(place).items():
        file = _source(place, point)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    done = place.folder / "mounted"
    daemon = start_process(
        place,
        daemons,
        place.name,
        ["unshare", "--mount", "--propagation", "private", "sh", "-ec", _script(place, done)],
    )
    daemons.wait_for(f"{place.name} has its mounts", done.exists, 10.0)
    return daemon


def _files(place: NodePlace) -> dict[str, str]:
    """Files that are the node's own, and what is in them."""
    files = {f"/proc/sys/{name}": f"{value}\n" for name, value in KERNEL_PARAMETERS.items()}
    if RESOLVER.exists():
        files[str(RESOLVER)] = f"nameserver {place.site.dns_address}\n"
    return files


def _source(place: NodePlace, point: str) -> Path:
    return place.folder / "files" / point.removeprefix("/")


def _script(place: NodePlace, done: Path) -> str:
    """Mounts are shared inside, as pods may see each other's (mount propagation), but not outside."""
    binds = {point: place.folder / source for point, source in FOLDERS.items()}
    binds |= {point: _source(place, point) for point in _files(place)}
    lines = ["mount --make-rshared /"]
    lines += [f"mount --bind {shlex.quote(str(source))} {point}" for point, source in binds.items()]
    lines += [f": > {shlex.quote(str(done))}", "exec sleep infinity"]
    return "\n".join(lines)


def start_process(
    place: NodePlace,
    daemons: Daemons,
    name: str,
    command: Sequence[str | Path],
    *,
    inside: Daemon | None = None,
) -> Daemon:
    """Start a process of the node in its network namespace and its daemons' group.

    Args:
        place: The node's place.
        daemons: The cluster's processes, which it joins.
        name: Its name among them.
        command: Program and arguments.
        inside: The keeper of the mount namespace that it enters; by default it stays in this machine's.
    """
    cgroups.make(place.daemons_group, everywhere=False)
    entered = ["nsenter", f"--mount=/proc/{inside.pid}/ns/mnt"] if inside else []
    return daemons.start(
        name, [*entered, *command], namespace=place.namespace, groups={"unified": place.daemons_group}
    )
