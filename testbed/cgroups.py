"""Control groups of a test cluster, below one folder of its own in every hierarchy that the machine has.

Two layouts occur: version 2 alone at /sys/fs/cgroup, or one hierarchy per version 1 controller with version 2
beside them (hybrid). The existing groups are left as they are; ours are children with the cluster's name, so
that they can be found and removed by name even if whoever made them is gone.
"""

import os
import time
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from testbed.errors import ComponentFailed, MissingPrerequisite

ROOT = Path("/sys/fs/cgroup")
CONTROLLERS_V2 = ("cpuset", "cpu", "io", "memory", "pids", "hugetlb")
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


def make(group: str, *, everywhere: bool) -> None:
    """Make a group and its parents, in the version 2 hierarchy only or in all; an existing one stays."""
    for name, root in hierarchies().items():
        if name == "unified" or everywhere:
            _make_below(root, group, delegate=name == "unified" and not is_hybrid())
            if name == "cpuset":
                _inherit_cpuset(root, group)


def _make_below(root: Path, group: str, *, delegate: bool) -> None:
    folder = root
    for part in group.split("/"):
        if delegate:
            present = (folder / "cgroup.controllers").read_text().split()
            wanted = [f"+{controller}" for controller in CONTROLLERS_V2 if controller in present]
            (folder / "cgroup.subtree_control").write_text(" ".join(wanted))
        folder /= part
        folder.mkdir(exist_ok=True)


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
