"""Control groups of a test cluster, below one folder of its own in every hierarchy that the machine has.

Two layouts occur: version 2 alone at /sys/fs/cgroup, or one hierarchy per version 1 controller with version 2
beside them (hybrid). The existing groups are left as they are; ours are children with the cluster's name, so
that they can be found and removed by name even if whoever made them is gone. In version 2 alone the root's
controllers are switched on for its children where they are not yet (systemd leaves cpuset and io off), and
stay on: whether another needs them by then cannot be known.

Source: Linux Documentation/admin-guide/cgroup-v2.rst.
"""

import os
import time
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from testbed.errors import ComponentFailed, MissingPrerequisite

ROOT = Path("/sys/fs/cgroup")
CONTROLLERS_V2 = ("cpuset", "cpu", "io", "memory", "pids", "hugetlb")
NEEDED_V2 = ("cpu", "memory")  # no node has a share without
SECONDS_TO_EMPTY = 3.0


@lru_cache(maxsize=1)
def unified() -> Path:
    """The root of the version 2 hierarchy.

    Raises:
        MissingPrerequisite: The machine has none.
    """
    for root in (ROOT, ROOT / "unified"):
        if (root / "cgroup.controllers").is_file():
            return root
    raise MissingPrerequisite(
        f"no cgroup v2 hierarchy at {ROOT} or {ROOT}/unified: mount -t cgroup2 none {ROOT}/unified"
    )


def is_hybrid() -> bool:
    """Whether resources are controlled by version 1 hierarchies beside the version 2 one."""
    return unified() != ROOT


@lru_cache(maxsize=1)
def hierarchies() -> dict[str, Path]:
    """The root of each hierarchy: "unified", and in the hybrid layout one per version 1 controller.

    The named hierarchy `systemd`, where there is one, is among them: runc and kubelets put groups there too.
    """
    found = {"unified": unified()}
    if is_hybrid():
        found |= {
            folder.name: folder
            for folder in sorted(ROOT.iterdir())
            if folder.is_dir() and not folder.is_symlink() and folder != unified()
        }
    return found


def check_limits() -> None:
    """Look whether groups of ours can be given limits, without making any.

    Raises:
        MissingPrerequisite: Version 2 stands alone, and its root lacks a controller, cannot be written to, or
            is a container's that holds processes: the kernel gives no controllers to groups below such one.
    """
    if is_hybrid():
        return  # the version 1 hierarchies are looked at one by one, where a limit is set
    root = unified()
    present = (root / "cgroup.controllers").read_text().split()
    for controller in NEEDED_V2:
        if controller not in present:
            raise MissingPrerequisite(
                f"{root} has no controller {controller}: start this machine's kernel with it "
                f"(cgroup_enable={controller}, no cgroup_disable={controller})"
            )
    if os.statvfs(root).f_flag & os.ST_RDONLY:
        raise MissingPrerequisite(
            f"{root} is mounted read-only, as in a container: run on the machine itself or in a privileged "
            "container"
        )
    # The machine's own root, the only group without a type, may hold processes.
    if (root / "cgroup.type").exists() and (root / "cgroup.procs").read_text().strip():
        raise MissingPrerequisite(
            f"{root} is a container's and holds processes itself, so no group below it can have limits: move "
            f"them aside (mkdir {root}/init; for p in $(cat {root}/cgroup.procs); do "
            f"echo $p > {root}/init/cgroup.procs; done)"
        )


def make(group: str, *, everywhere: bool) -> None:
    """Make a group and its parents; an existing one stays.

    Args:
        group: Its path below the root of a hierarchy.
        everywhere: In all hierarchies and with all controllers, so that it can be given limits; else in
            version 2 only, to hold processes together.

    Raises:
        ComponentFailed: The kernel gives it no controllers.
    """
    for name, root in hierarchies().items():
        if name == "unified" or everywhere:
            (root / group).mkdir(parents=True, exist_ok=True)
            if name == "cpuset":
                _inherit_cpuset(root, group)
    if everywhere and not is_hybrid():
        _give_controllers(unified(), group)


def _give_controllers(root: Path, group: str) -> None:
    """Switch all controllers on for a version 2 group, from the root down.

    systemd switches those of the root off that no unit of its own needs, unless a child gives them on (which
    ours does when this is done): so what it took away meanwhile is asked for again.
    """
    parents = [root / parent for parent in reversed(Path(group).parents)]
    present = (root / "cgroup.controllers").read_text().split()
    wanted = [controller for controller in CONTROLLERS_V2 if controller in present]
    deadline = time.monotonic() + SECONDS_TO_EMPTY
    while True:
        refused: OSError | None = None
        for switches in (parent / "cgroup.subtree_control" for parent in parents):
            try:
                switches.write_text(" ".join(f"+{controller}" for controller in wanted))
            except OSError as error:
                refused = OSError(error.errno, error.strerror, str(switches))
                break
        if refused is None and set(wanted) <= set((root / group / "cgroup.controllers").read_text().split()):
            return
        if time.monotonic() > deadline:
            raise ComponentFailed(
                f"the control group {group} is not given the controllers {' '.join(wanted)}: "
                f"{refused or 'something switches them off again'}"
            )
        time.sleep(0.01)


def _inherit_cpuset(root: Path, group: str) -> None:
    """Take the parent's processors and memory: a new version 1 cpuset is empty, and nothing can enter it."""
    folder = root
    for part in group.split("/"):
        parent, folder = folder, folder / part
        for file in ("cpuset.cpus", "cpuset.mems"):
            if not (folder / file).read_text().strip():
                (folder / file).write_text((parent / file).read_text())


def procs_file(group: str, hierarchy: str = "unified") -> Path:
    """The file that a process is moved into the group by."""
    return hierarchies()[hierarchy] / group / "cgroup.procs"


def members(group: str) -> set[int]:
    """Process ids in the group or below it, in any hierarchy."""
    found: set[int] = set()
    for root in hierarchies().values():
        for folder in _folders(root / group):
            try:
                found |= {int(pid) for pid in (folder / "cgroup.procs").read_text().split()}
            except OSError:  # removed while we looked, or a threaded group: neither has processes to list
                continue
    return found - {0}


def end_members(group: str) -> None:
    """Kill every process in the group or below it, by the kernel's own list, until none is left.

    Raises:
        ComponentFailed: A process outlived SIGKILL, as one that waits for a dead disk does.
    """
    deadline = time.monotonic() + SECONDS_TO_EMPTY
    kill = unified() / group / "cgroup.kill"
    while True:
        if kill.exists():
            kill.write_text("1")
        left = members(group)
        if not left:
            return
        for pid in left:
            _kill(pid)
        if time.monotonic() > deadline:
            raise ComponentFailed(
                f"processes {sorted(left)} of {group} do not end: see /proc/PID/stack of each"
            )
        time.sleep(0.01)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, 9)
    except ProcessLookupError:
        return


def remove(group: str) -> None:
    """Remove the group and all below it, in every hierarchy; its processes must have ended.

    Raises:
        ComponentFailed: The kernel keeps a group busy.
    """
    deadline = time.monotonic() + SECONDS_TO_EMPTY
    for root in hierarchies().values():
        for folder in _folders(root / group):
            while folder.exists():
                try:
                    folder.rmdir()
                except OSError as busy:  # the last process is being reaped
                    if time.monotonic() > deadline:
                        raise ComponentFailed(
                            f"the control group {folder} cannot be removed: {busy}"
                        ) from busy
                    time.sleep(0.01)


def _folders(top: Path) -> Iterator[Path]:
    """The group and all below it, deepest first."""
    if not top.is_dir():
        return
    for folder, _, _ in os.walk(top, topdown=False):
        yield Path(folder)
