"""A real node's share of this machine: CPU quota, memory limit and disk throttles of all its pods.

Both layouts of control groups are served: version 2 alone, and version 1 controllers beside it (hybrid). They
differ:

* CPU. Under version 1 the kernel refuses a child's quota above its parent's, so a container with a CPU limit
  above its node's cores does not start there; under version 2 it starts, and the node's quota holds it.
* Memory. When a node's memory is used up, the kernel kills in its group, as it does on a machine of its own.
  Version 1 tells of it to every group below: containers that were spared are then reported as OOMKilled too
  when they end, with their own exit code.
* Disk. Under version 1 the kernel's throttle knows no hierarchy (Linux, Documentation/admin-guide/cgroup-v1/
  blkio-controller.rst): a limit on the node's group would hold nothing below it. So there every container
  gets the node's limit by itself, through the runtime (`runtime.py`); under version 2 the node's group has
  it, for all together.

Source: Linux Documentation/admin-guide/cgroup-v1/*.rst, cgroup-v2.rst, scheduler/sched-bwc.rst.
"""

import os
from enum import StrEnum
from pathlib import Path

import psutil

from testbed import cgroups
from testbed.errors import ComponentFailed, MissingPrerequisite
from testbed.nodes.place import NodePlace
from testbed.spec import RealNode

QUOTA_PERIOD_US = 100_000  # the kernel's and the kubelet's own
LEAST_QUOTA_US = 1_000  # the kernel's
# Without it a node would lack its cores beside other busy groups, which weigh as much as all pods of the
# cluster together do: under version 1 even each process of the root group, under systemd all users' sessions.
TIMES_THE_WEIGHT = 10
LEAST_MEMORY_BYTES = 64 << 20  # below, not even a pod's sandbox and a small program fit


class DiskLimit(StrEnum):
    """What a disk throttle holds."""

    NONE = "none"
    NODE = "all pods of the node together"
    CONTAINER = "each container by itself"


def check(number: int, spec: RealNode) -> None:
    """Make sure that this machine can give the node its share.

    Raises:
        MissingPrerequisite: More cores or memory than the machine has, or less than a node can live on.
    """
    cores = os.cpu_count() or 1
    memory_bytes = psutil.virtual_memory().total
    least_cpus = LEAST_QUOTA_US / QUOTA_PERIOD_US
    if not least_cpus <= spec.cpus <= cores:
        raise MissingPrerequisite(
            f"node-{number}: cpus={spec.cpus:g}: "
            f"must be from {least_cpus:g} to {cores}, the cores of this machine"
        )
    if not LEAST_MEMORY_BYTES <= spec.memory_bytes <= memory_bytes:
        raise MissingPrerequisite(
            f"node-{number}: memory_bytes={spec.memory_bytes}: "
            f"must be from {LEAST_MEMORY_BYTES} to {memory_bytes}, the memory of this machine"
        )
    for name in ("disk_read_bytes_per_s", "disk_write_bytes_per_s"):
        rate = getattr(spec, name)
        if rate is not None and rate < 1:
            raise MissingPrerequisite(
                f"node-{number}: {name}={rate}: must be at least 1, or None for no limit"
            )


def apply(place: NodePlace, spec: RealNode) -> DiskLimit:
    """Make the node's group in every hierarchy and set its limits.

    Returns:
        What a disk throttle holds, here and now; `DiskLimit.CONTAINER` still has to be set by the runtime.

    Raises:
        ComponentFailed: The kernel refused a limit.
        MissingPrerequisite: The machine has no CPU or memory controller.
    """
    cgroups.make(place.group, everywhere=True)
    file, usual = ("cpu.shares", 1024) if cgroups.is_hybrid() else ("cpu.weight", 100)
    _write(_root_of("cpu") / place.site.control_group / file, str(TIMES_THE_WEIGHT * usual))
    for controller, file, value in settings(spec, hybrid=cgroups.is_hybrid()):
        _write(_root_of(controller) / place.group / file, value)
    disk = disk_of(place.site.folder)
    if disk is None or (spec.disk_read_bytes_per_s is None and spec.disk_write_bytes_per_s is None):
        return DiskLimit.NONE
    if cgroups.is_hybrid():
        return DiskLimit.CONTAINER if _hierarchy_of("blkio") else DiskLimit.NONE
    throttle = cgroups.unified() / place.group / "io.max"
    if not throttle.exists():
        return DiskLimit.NONE
    _write(throttle, io_max(disk, spec))
    return DiskLimit.NODE


def settings(spec: RealNode, *, hybrid: bool) -> list[tuple[str, str, str]]:
    """What the CPU quota and the memory limit are, as controller, file and value."""
    quota_us = round(spec.cpus * QUOTA_PERIOD_US)
    if hybrid:
        return [
            ("cpu", "cpu.cfs_period_us", str(QUOTA_PERIOD_US)),
            ("cpu", "cpu.cfs_quota_us", str(quota_us)),
            ("memory", "memory.limit_in_bytes", str(spec.memory_bytes)),
        ]
    return [
        ("cpu", "cpu.max", f"{quota_us} {QUOTA_PERIOD_US}"),
        ("memory", "memory.max", str(spec.memory_bytes)),
    ]


def io_max(disk: tuple[int, int], spec: RealNode) -> str:
    """The disk throttle as a line of version 2's `io.max`."""
    read, write = spec.disk_read_bytes_per_s, spec.disk_write_bytes_per_s
    return (
        f"{disk[0]}:{disk[1]} rbps={'max' if read is None else read} wbps={'max' if write is None else write}"
    )


def disk_of(path: Path) -> tuple[int, int] | None:
    """Major and minor number of the whole disk that holds a path; None where no disk does, as on tmpfs.

    Throttles work on disks, not on partitions.
    """
    device = path.stat().st_dev
    entry = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}")
    if not entry.exists():
        return None
    folder = entry.resolve()
    if (folder / "partition").exists():
        folder = folder.parent
    major, minor = (folder / "dev").read_text().split(":")
    return int(major), int(minor)


def _hierarchy_of(controller: str) -> Path | None:
    """The root of the version 1 hierarchy with a controller; several may share one (`cpu,cpuacct`)."""
    found = (root for name, root in cgroups.hierarchies().items() if controller in name.split(","))
    return next(found, None)


def _root_of(controller: str) -> Path:
    root = _hierarchy_of(controller) if cgroups.is_hybrid() else cgroups.unified()
    if root is None:
        raise MissingPrerequisite(
            f"no control group hierarchy has the controller {controller}: mount one below {cgroups.ROOT}"
        )
    return root


def _write(file: Path, value: str) -> None:
    try:
        file.write_text(value)
    except OSError as refused:
        raise ComponentFailed(f"the kernel refused {value!r} in {file}: {refused.strerror}") from refused
