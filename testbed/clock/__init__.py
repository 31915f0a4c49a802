"""The wall clock of one process, set at will: what `date --set` does to a machine, done to nobody else."""

import shutil
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path

from testbed.errors import ComponentFailed, MissingPrerequisite

FLAGS = ("-std=gnu17", "-O2", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror")


class WallClock:
    """A wall clock for the processes that are started with its environment."""

    def __init__(self, folder: Path) -> None:
        """Make it in a folder, right at first.

        Raises:
            MissingPrerequisite: No gcc.
            ComponentFailed: It does not compile.
        """
        compiler = shutil.which("gcc")
        if compiler is None:
            raise MissingPrerequisite("no gcc on this machine: apt-get install gcc libc6-dev")
        self._library, self._file = folder / "wall.so", folder / "wall.clock"
        source = Path(__file__).with_name("wall.c")
        command = [compiler, *FLAGS, "-o", str(self._library), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ComponentFailed(f"{source.name} does not compile: {done.stderr.strip()[:300]}")
        self._file.write_bytes(struct.pack("q", 0))

    @property
    def environment(self) -> Mapping[str, str]:
        """What a process that is to have this clock is started with."""
        return {"LD_PRELOAD": str(self._library), "WALL_CLOCK_FILE": str(self._file)}

    def set(self, ahead_s: float) -> None:
        """Set it: so many seconds ahead of the machine's own, or behind."""
        with self._file.open("r+b") as file:  # the same file: processes have it mapped
            file.write(struct.pack("q", round(ahead_s * 1e9)))
