"""One cluster's place on the machine: its name, its folder, its addresses, and how all of it is found again.

Nothing that a cluster makes is remembered in a list that a crash could lose. Everything carries its name
(network namespaces `stow-NAME…`, the link `sw-NAME`, the control group `stow-NAME`, mounts below its folder),
so that `sweep.sweep(NAME)` removes it all, whoever made it.
"""

import ipaddress
import json
import os
import re
import secrets
import subprocess
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from testbed.cache import cache_folder, exclusively
from testbed.errors import MissingPrerequisite

LONGEST_NAME = 8  # a link's name has room for 15 characters
SLOTS = range(128, 192)  # a cluster has the addresses 10.SLOT.0.0/16 for itself


@dataclass(frozen=True)
class Site:
    """One cluster's place on the machine.

    Attributes:
        name: Up to eight lower-case letters and digits.
        slot: The second byte of all its addresses.
        owner_pid: The process that the cluster must not outlive; None for one that stays until `make
            cluster-down`.
        owner_started_s: When that process started, in seconds since the epoch, to tell it from a later one.
    """

    name: str
    slot: int
    owner_pid: int | None = None
    owner_started_s: float | None = None

    @property
    def folder(self) -> Path:
        """Where all its files are."""
        return sites_folder() / self.name

    @property
    def hub(self) -> str:
        """The network namespace of the control plane, which routes between the nodes."""
        return f"stow-{self.name}"

    def node_namespace(self, number: int) -> str:
        """The network namespace of real node `number`, counted from 1."""
        return f"{self.hub}-{number}"

    @property
    def host_link(self) -> str:
        """The link by which this machine reaches the hub."""
        return f"sw-{self.name}"

    @property
    def control_group(self) -> str:
        """The group that all its processes are in or below."""
        return f"stow-{self.name}"

    @property
    def hub_address(self) -> str:
        """The control plane's address, for nodes and for this machine."""
        return f"10.{self.slot}.0.1"

    @property
    def host_address(self) -> str:
        """This machine's address on the cluster's network."""
        return f"10.{self.slot}.0.254"

    def node_address(self, number: int) -> str:
        """The address of real node `number`."""
        return f"10.{self.slot}.0.{10 + number}"

    def pod_range(self, number: int) -> str:
        """The addresses of the pods on real node `number`."""
        return f"10.{self.slot}.{number}.0/24"

    @property
    def fake_pod_range(self) -> str:
        """The addresses that kwok gives to pods on fake nodes; nothing answers there."""
        return f"10.{self.slot}.128.0/18"

    @property
    def service_range(self) -> str:
        """The addresses of services."""
        return f"10.{self.slot}.255.0/24"

    @property
    def service_address(self) -> str:
        """The address of the service `kubernetes`: the hub has it itself, so no translation is needed."""
        return f"10.{self.slot}.255.1"

    @property
    def dns_address(self) -> str:
        """Where pods ask for names. The hub has it and nobody listens: refused at once, not after seconds."""
        return f"10.{self.slot}.255.10"

    @property
    def whole_range(self) -> str:
        """All addresses of the cluster."""
        return f"10.{self.slot}.0.0/16"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.folder / "kubeconfig"

    def log(self, component: str) -> Path:
        """The log of a component, such as `kubelet-1`."""
        return self.folder / "logs" / f"{component}.log"

    def is_orphan(self) -> bool:
        """Whether the process that it must not outlive is gone."""
        if self.owner_pid is None:
            return False
        try:
            started_s = psutil.Process(self.owner_pid).create_time()
        except psutil.NoSuchProcess:
            return True
        return self.owner_started_s is not None and abs(started_s - self.owner_started_s) > 1.0


def sites_folder() -> Path:
    """Where the folders of all clusters of this user are."""
    return cache_folder() / "clusters"


def sites() -> Iterator[Site]:
    """All clusters of this user, running or left over."""
    for file in sorted(sites_folder().glob("*/site.json")):
        yield Site(**json.loads(file.read_text()))


def claim(name: str | None = None, *, owned: bool) -> Site:
    """Take a name and a range of addresses that no other cluster has.

    Args:
        name: Up to eight lower-case letters and digits; by default one is drawn.
        owned: Whether the cluster ends with this process.

    Raises:
        MissingPrerequisite: The name is taken or no name, or no range of addresses is free.
    """
    name = name or secrets.token_hex(3)
    if not re.fullmatch(rf"[a-z0-9]{{1,{LONGEST_NAME}}}", name):
        raise MissingPrerequisite(
            f"{name!r} cannot name a cluster: use 1 to {LONGEST_NAME} lower-case letters and digits"
        )
    with exclusively("sites"):
        present = list(sites())
        if any(site.name == name for site in present):
            raise MissingPrerequisite(
                f"a cluster named {name} is here already: make cluster-down CLUSTER={name}, or name another"
            )
        slot = _free_slot({site.slot for site in present})
        owner = psutil.Process(os.getpid()) if owned else None
        site = Site(name, slot, owner and owner.pid, owner and owner.create_time())
        (site.folder / "logs").mkdir(parents=True)
        (site.folder / "site.json").write_text(json.dumps(asdict(site)))
    return site


def find(name: str | None = None) -> Site:
    """A cluster that is here; without a name, the only one.

    Raises:
        MissingPrerequisite: There is none of that name, or several and no name was given.
    """
    present = list(sites())
    named = [site for site in present if name in {None, site.name}]
    if len(named) == 1:
        return named[0]
    if not present:
        raise MissingPrerequisite("no test cluster is here: make cluster")
    raise MissingPrerequisite(
        f"{'no cluster is named ' + name if name else 'several clusters are here'}: name one of "
        f"{', '.join(site.name for site in present)} (CLUSTER=…)"
    )


def _free_slot(taken: set[int]) -> int:
    listed = subprocess.run(
        ["ip", "-json", "-4", "route", "show", "table", "all"], capture_output=True, text=True, check=True
    )
    used = [
        ipaddress.ip_network(route["dst"], strict=False)
        for route in json.loads(listed.stdout or "[]")
        if route["dst"] != "default"
    ]
    for slot in SLOTS:
        wanted = ipaddress.ip_network(f"10.{slot}.0.0/16")
        if slot not in taken and not any(wanted.overlaps(other) for other in used):
            return slot
    raise MissingPrerequisite(
        f"no free range of addresses: each of 10.{SLOTS[0]}.0.0/16 to 10.{SLOTS[-1]}.0.0/16 is routed on "
        "this machine or taken by a cluster; end clusters that are not needed (make cluster-down)"
    )
