"""A node's containerd: its configuration, its start, and the images that it has from the start.

Debian's containerd 1.6 and later; version 2 of the configuration is read by all of them.

Containers are not confined by AppArmor: containerd would load a profile into the machine's kernel, which
stays there when the cluster is gone.

Under version 2 of control groups containerd learns of a container's death for memory by an inotify instance
each: seen are 2 per pod and 8 per node, of the 128 that Debian gives root (fs.inotify.max_user_instances).
With more than about 50 pods on real nodes at a time that parameter has to be raised.
"""

import json
import socket
import subprocess
from collections.abc import Iterable
from pathlib import Path

from testbed.daemons import Daemon, Daemons
from testbed.images import image_name, place_images
from testbed.nodes import cni, limits, own_mounts
from testbed.nodes.capabilities import may_lower_oom_score
from testbed.nodes.place import NodePlace
from testbed.spec import Json, RealNode

SANDBOX = "pause"
ENDPOINT = "unix:///run/containerd/containerd.sock"  # as the node's own processes see it
# Snapshotters that a node does not use: each is looked for when containerd starts.
UNUSED = (
    "io.containerd.snapshotter.v1.aufs",
    "io.containerd.snapshotter.v1.btrfs",
    "io.containerd.snapshotter.v1.devmapper",
    "io.containerd.snapshotter.v1.zfs",
)


def prepare(place: NodePlace, spec: RealNode, disk_limit: limits.DiskLimit, images: Iterable[str]) -> Path:
    """Write the configuration of containerd and CNI, and lay out the images; returns the former's file."""
    place_images({SANDBOX, *images}, place.folder / "containerd")
    networks = place.folder / "networks"
    networks.mkdir(parents=True, exist_ok=True)
    (networks / "10-pods.conflist").write_text(json.dumps(cni.configuration(place)))
    base_spec: Path | None = None
    disk = limits.disk_of(place.site.folder)
    if disk is not None and disk_limit is limits.DiskLimit.CONTAINER:
        base_spec = place.folder / "container.json"
        default = subprocess.run(["ctr", "oci", "spec"], capture_output=True, text=True, check=True)
        base_spec.write_text(json.dumps(throttled(json.loads(default.stdout), spec, disk)))
    file = place.folder / "containerd.toml"
    file.write_text(configuration(place, base_spec, restrict_oom_score=not may_lower_oom_score()))
    return file


def configuration(place: NodePlace, base_spec: Path | None, *, restrict_oom_score: bool) -> str:
    """The text of containerd's configuration.

    Args:
        place: The node's place.
        base_spec: What every container starts from, in place of containerd's own default.
        restrict_oom_score: Whether containers must not ask for a lower OOM score than containerd has; without
            the capability for that runc fails ("can't get final child's PID from pipe").
    """
    base = f"base_runtime_spec = {_quoted(base_spec)}" if base_spec else ""
    return f"""version = 2
root = {_quoted(place.folder / "containerd")}
state = "/run/containerd"
disabled_plugins = {json.dumps(UNUSED)}
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = {_quoted(place.folder / "opt")}
[plugins."io.containerd.grpc.v1.cri"]
  disable_apparmor = true
  restrict_oom_score_adj = {json.dumps(restrict_oom_score)}
  sandbox_image = "{image_name(SANDBOX)}"
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{cni.PLUGINS}"
    conf_dir = {_quoted(place.folder / "networks")}
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      {base}
"""


def throttled(container: Json, spec: RealNode, disk: tuple[int, int]) -> Json:
    """A container with the node's disk limits on it.

    Source: OCI runtime specification 1.0, config-linux (block IO).
    """
    rates = {
        "throttleReadBpsDevice": spec.disk_read_bytes_per_s,
        "throttleWriteBpsDevice": spec.disk_write_bytes_per_s,
    }
    block_io = {
        key: [{"major": disk[0], "minor": disk[1], "rate": rate}]
        for key, rate in rates.items()
        if rate is not None
    }
    linux = container["linux"]
    return container | {"linux": linux | {"resources": linux.get("resources", {}) | {"blockIO": block_io}}}


def start(place: NodePlace, daemons: Daemons, keeper: Daemon) -> Daemon:
    """Start containerd and wait until it answers.

    Raises:
        ComponentFailed: It ended or did not answer in time.
    """
    place.containerd_socket.unlink(missing_ok=True)  # one that was killed leaves it behind
    daemon = own_mounts.start_process(
        place,
        daemons,
        f"containerd-{place.number}",
        ["containerd", f"--config={place.folder / 'containerd.toml'}", "--log-level=info"],
        inside=keeper,
    )
    daemons.wait_for(f"containerd of {place.name} answers", lambda: _answers(place.containerd_socket), 30.0)
    return daemon


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


def _quoted(path: Path) -> str:
    """A path as TOML writes it; JSON's strings are the same."""
    return json.dumps(str(path))
