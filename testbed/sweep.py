"""Taking a cluster away, wholly: found by its name, so that it works after any crash."""

import shutil
import subprocess
from pathlib import Path

from testbed import cgroups, network
from testbed.cache import exclusively
from testbed.errors import ComponentFailed
from testbed.site import Site, sites


def sweep(site: Site) -> None:
    """End all processes of a cluster and remove its mounts, namespaces, links, control groups and files.

    Raises:
        ComponentFailed: Something could not be removed; the rest is still removed, and a second call goes on.
    """
    failures: list[str] = []
    for step in (_end_processes, _unmount, network.remove, _remove_groups, _remove_files):
        try:
            step(site)
        except (ComponentFailed, OSError) as failure:
            failures.append(str(failure))
    if failures:
        raise ComponentFailed(f"cluster {site.name} is not wholly gone: {'; '.join(failures)}")


def sweep_orphans() -> list[str]:
    """Take away the clusters whose owner is gone; returns their names."""
    swept: list[str] = []
    for site in list(sites()):
        if site.is_orphan():
            with exclusively(f"sweep-{site.name}"):
                sweep(site)
            swept.append(site.name)
    return swept


def remains(site: Site) -> list[str]:
    """What of a cluster is still on this machine, in words; empty when it is wholly gone."""
    found = [f"process {pid}" for pid in sorted(cgroups.members(site.control_group))]
    found += [f"mount {path}" for path in _mounts(site)]
    if network.NAMESPACES.is_dir():
        found += [
            f"namespace {path.name}"
            for path in network.NAMESPACES.iterdir()
            if path.name == site.hub or path.name.startswith(f"{site.hub}-")
        ]
    if (Path("/sys/class/net") / site.host_link).exists():
        found.append(f"link {site.host_link}")
    found += [
        f"control group {root / site.control_group}"
        for root in cgroups.hierarchies().values()
        if (root / site.control_group).exists()
    ]
    if site.folder.exists():
        found.append(f"folder {site.folder}")
    return found


def _end_processes(site: Site) -> None:
    cgroups.end_members(site.control_group)


def _mounts(site: Site) -> list[str]:
    """Mount points below the cluster's folder, deepest first."""
    below = f"{site.folder}/"
    mounts: list[str] = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        point = line.split()[4].encode().decode("unicode_escape")
        if point.startswith(below):
            mounts.append(point)
    return sorted(mounts, reverse=True)


def _unmount(site: Site) -> None:
    mounts = _mounts(site)
    if mounts:
        done = subprocess.run(["umount", "--lazy", *mounts], capture_output=True, text=True, check=False)
        if done.returncode != 0 and _mounts(site):
            raise ComponentFailed(f"umount: {' '.join(done.stderr.split())}")


def _remove_groups(site: Site) -> None:
    cgroups.remove(site.control_group)


def _remove_files(site: Site) -> None:
    if _mounts(site):
        raise ComponentFailed(f"{site.folder} is kept, since something is still mounted below it")
    shutil.rmtree(site.folder, ignore_errors=False)
