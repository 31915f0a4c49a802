"""What a test cluster needs of the machine, looked at before anything is made."""

import os
import shutil
from pathlib import Path

from testbed import cgroups
from testbed.cache import cache_folder
from testbed.control_plane import PROGRAMS
from testbed.errors import MissingPrerequisite
from testbed.programs import go_command, is_built, program_path
from testbed.spec import ClusterSpec

FREE_BYTES_TO_RUN = 2 << 30  # etcd, logs, and the images of two nodes

# Program, and the Debian package that brings it.
FOR_ALL = {"ip": "iproute2", "nsenter": "util-linux", "umount": "mount"}
FOR_REAL_NODES = {"containerd": "containerd", "ctr": "containerd", "runc": "runc", "gcc": "gcc"}
CNI_PLUGINS = Path("/usr/lib/cni/bridge")


def check(spec: ClusterSpec) -> None:
    """Look for everything that a cluster of that kind needs.

    Raises:
        MissingPrerequisite: The first thing that is missing, and the mend.
    """
    if os.geteuid() != 0:
        raise MissingPrerequisite(
            "not root: the test cluster makes network namespaces and control groups; use sudo make …"
        )
    cgroups.unified()
    _check_programs(FOR_ALL)
    if spec.real_nodes:
        cgroups.check_limits()
        _check_programs(FOR_REAL_NODES)
        if not CNI_PLUGINS.exists():
            raise MissingPrerequisite(
                f"{CNI_PLUGINS} is missing: apt-get install containernetworking-plugins (make test does)"
            )
    _check_space()
    for name in _built_programs(spec):
        if not is_built(name):
            go_command()  # without Go, that is what is missing
        program_path(name)


def _check_programs(needed: dict[str, str]) -> None:
    for program, package in needed.items():
        if shutil.which(program) is None:
            raise MissingPrerequisite(
                f"{program} is not installed: apt-get install {package} (make test, as root, does)"
            )


def _check_space() -> None:
    existing = next(parent for parent in (cache_folder(), *cache_folder().parents) if parent.exists())
    free_bytes = shutil.disk_usage(existing).free
    if free_bytes < FREE_BYTES_TO_RUN:
        raise MissingPrerequisite(
            f"{free_bytes / 1e9:.1f} GB free at {existing}, a test cluster needs "
            f"{FREE_BYTES_TO_RUN / 1e9:.0f} GB: free some, or name another place with STOWPLAN_CACHE"
        )


def _built_programs(spec: ClusterSpec) -> list[str]:
    names = [name for name in PROGRAMS if name != "kube-scheduler" or spec.scheduler is not None]
    if spec.real_nodes:
        names.append("kubelet")
    if spec.fake_nodes:
        names.append("kwok")
    if spec.argo:
        names += ["workflow-controller", "argoexec"]
    return names
