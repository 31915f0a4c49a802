"""A small process that takes an owned cluster away when its owner is gone, however that ended.

It holds the reading end of a pipe whose writing end only the owner has. The kernel closes that end when the
owner dies, even by SIGKILL; the keeper then reads the end of the file and sweeps. An owner that took its
cluster down itself leaves the keeper nothing to do.
"""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from testbed import site, sweep

REPOSITORY = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Keeper:
    """The keeper of one cluster, held by the cluster's owner: its standard input is the pipe."""

    process: subprocess.Popen[bytes]

    def dismiss(self) -> None:
        """End it after the cluster was taken away, and wait for that, so that it cannot meet a namesake."""
        self.process.communicate()


def watch(owned: site.Site) -> Keeper:
    """Start the keeper of a cluster of this process's; the cluster goes when the keeper is let go of."""
    with owned.log("keeper").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "testbed.keeper", owned.name],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=REPOSITORY,
            env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
            start_new_session=True,  # what ends the owner's session must not end the keeper too
        )
    return Keeper(process)


def main() -> None:
    """Wait for the end of the owner, then sweep."""
    sys.stdin.buffer.read()
    for here in site.sites():
        if here.name == sys.argv[1]:
            sweep.sweep(here)


if __name__ == "__main__":
    main()
