"""The cluster's network: a hub namespace that routes between this machine and one namespace per real node.

    this machine ── sw-NAME ── hub (control plane, 10.S.0.1, services 10.S.255.1) ─┬─ node 1 (10.S.0.11, pods
    10.S.1.0/24)
                                                                                  └─ node 2 (10.S.0.12, pods
                                                                                  10.S.2.0/24)

Every node hangs on a link of its own, so all traffic between nodes is routed by the hub: a relay can be put
in its way there. The API server listens in the hub on port 443 of the first service address, which is the
address of the service `kubernetes`: pods reach it by plain routing, without kube-proxy or address
translation.

Nothing of the cluster listens in this machine's own namespace.
"""

import ctypes
import os
import socket
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from testbed.errors import ComponentFailed, MissingPrerequisite
from testbed.site import Site

NAMESPACES = Path("/run/netns")
CLONE_NEWNET = 0x40000000

T = TypeVar("T")


def make_hub(site: Site) -> None:
    """Make the hub's namespace and this machine's link to it.

    Raises:
        MissingPrerequisite: Not root, or no iproute2.
    """
    _add_namespace(site.hub)
    _ip("link", "add", site.host_link, "type", "veth", "peer", "name", "host", "netns", site.hub)
    _ip("address", "add", f"{site.host_address}/32", "dev", site.host_link)
    _ip("link", "set", site.host_link, "up")
    _ip("route", "add", f"{site.hub_address}/32", "dev", site.host_link, "src", site.host_address)
    _ip("route", "add", site.whole_range, "via", site.hub_address, "src", site.host_address)
    ip_in(
        site.hub,
        f"address add {site.hub_address}/32 dev lo",
        f"address add {site.service_address}/32 dev lo",
        f"address add {site.dns_address}/32 dev lo",
        "link set host up",
        f"route add {site.host_address}/32 dev host",
    )
    sysctl(site.hub, "net/ipv4/ip_forward", "1")


def join(site: Site, number: int) -> None:
    """Make the namespace of real node `number` and its link to the hub, which is its way to everywhere."""
    namespace, address, link = site.node_namespace(number), site.node_address(number), f"node{number}"
    _add_namespace(namespace)
    ip_in(
        site.hub,
        f"link add {link} type veth peer name eth0 netns {namespace}",
        f"link set {link} up",
        f"route add {address}/32 dev {link}",
        f"route add {site.pod_range(number)} via {address} dev {link} onlink",
    )
    ip_in(
        namespace,
        f"address add {address}/32 dev eth0",
        "link set eth0 up",
        f"route add {site.hub_address}/32 dev eth0",
        f"route add default via {site.hub_address} dev eth0 onlink src {address}",
    )
    sysctl(namespace, "net/ipv4/ip_forward", "1")


def leave(site: Site, number: int) -> None:
    """Remove the namespace of real node `number`; its link goes with it."""
    _ip("netns", "delete", site.node_namespace(number))


def remove(site: Site) -> None:
    """Remove every namespace and link with the cluster's name; what is gone already is no error."""
    links = Path("/sys/class/net")
    if (links / site.host_link).exists():
        _ip("link", "delete", site.host_link)
    for namespace in sorted(NAMESPACES.glob(f"{site.hub}*")) if NAMESPACES.is_dir() else []:
        if namespace.name == site.hub or namespace.name.startswith(f"{site.hub}-"):
            _ip("netns", "delete", namespace.name)


def inside(namespace: str, call: Callable[[], T]) -> T:
    """Call something in a thread that has entered another network namespace; its exceptions pass through.

    A socket stays in the namespace that its thread was in when it was made, so what `call` returns can be
    used anywhere in this process.
    """
    done: list[T] = []
    failed: list[BaseException] = []

    def enter_and_call() -> None:  # its own thread: setns changes the namespace of the thread that calls it
        libc = ctypes.CDLL(None, use_errno=True)
        try:
            with (NAMESPACES / namespace).open() as handle:
                if libc.setns(handle.fileno(), CLONE_NEWNET) != 0:
                    number = ctypes.get_errno()
                    raise OSError(number, os.strerror(number), namespace)  # noqa: TRY301 - a system call's error
            done.append(call())
        except BaseException as error:  # noqa: BLE001 - it is raised again below, in the caller's thread
            failed.append(error)

    thread = threading.Thread(target=enter_and_call)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return done[0]


def listen(namespace: str, address: str, port: int = 0) -> socket.socket:
    """Make a listening TCP socket of this process inside another network namespace.

    A server of this process can so be reached from the hub without being reachable from anywhere else.

    Args:
        namespace: Name of the network namespace.
        address: An address that the namespace has, such as `127.0.0.1`.
        port: 0 takes a free one.

    Raises:
        ComponentFailed: The port is taken in that namespace.
    """
    try:
        return inside(namespace, lambda: socket.create_server((address, port)))
    except OSError as error:
        raise ComponentFailed(
            f"cannot listen on {address}:{port} in namespace {namespace}: {error.strerror}"
        ) from error


def answers(namespace: str, address: str, port: int) -> bool:
    """Whether something accepts TCP connections there."""

    def connect() -> bool:
        with socket.socket() as probe:
            probe.settimeout(1.0)
            return probe.connect_ex((address, port)) == 0

    return inside(namespace, connect)


def sysctl(namespace: str, path: str, value: str) -> None:
    """Set a network parameter of a namespace, named by its path under /proc/sys."""
    _run("nsenter", f"--net={NAMESPACES / namespace}", "sh", "-c", f"echo {value} > /proc/sys/{path}")


def ip_in(namespace: str, *commands: str) -> None:
    """Run commands of `ip` in a namespace, in order, until one fails.

    Raises:
        ComponentFailed: One failed.
    """
    _run("ip", "-netns", namespace, "-batch", "-", stdin="\n".join(commands))


def _add_namespace(name: str) -> None:
    _ip("netns", "add", name)
    ip_in(name, "link set lo up")


def _ip(*arguments: str) -> None:
    _run("ip", *arguments)


def _run(*command: str, stdin: str | None = None) -> None:
    if os.geteuid() != 0:
        raise MissingPrerequisite(
            "not root: the test cluster makes network namespaces; run it as root (sudo make …)"
        )
    try:
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
    except FileNotFoundError as missing:
        raise MissingPrerequisite(
            f"{command[0]} is not installed (Debian: apt-get install iproute2 util-linux)"
        ) from missing
    if done.returncode != 0:
        said = " ".join(done.stderr.split())
        raise ComponentFailed(f"`{' '.join(command)}` failed: {said}{f' ({stdin})' if stdin else ''}")
