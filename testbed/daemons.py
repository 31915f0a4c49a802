"""The cluster's processes: started in a namespace and a control group, watched, ended by their own id."""

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from testbed import cgroups, network
from testbed.errors import ComponentFailed
from testbed.site import Site
from testbed.waiting import wait_for

# Joins the control groups named first, then becomes the program. A shell, so that no Python runs between fork
# and exec.
_LAUNCH = 'while [ "$1" != -- ]; do echo $$ > "$1" || exit 125; shift; done; shift; exec "$@"'


@dataclass
class Daemon:
    """A running process of the cluster, and the network namespace that it is in."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    namespace: str

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    @property
    def command(self) -> list[str]:
        """Program and arguments, with which it can be started again."""
        words = [str(word) for word in cast("list[str]", self.process.args)]
        return words[words.index("--") + 1 :]

    def check(self) -> None:
        """Make sure that it runs.

        Raises:
            ComponentFailed: It ended; the message has the last line of its log.
        """
        code = self.process.poll()
        if code is not None:
            said = _telling_line(self.log)
            how = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
            raise ComponentFailed(f"{self.name} ended ({how}): {said} (all of it: {self.log})")

    def end(self, within_s: float = 5.0) -> None:
        """Ask it to end, and kill it if it does not in time."""
        self.process.terminate()
        try:
            self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Kill it at once, as a crash would."""
        self.process.kill()
        self.process.wait()


@dataclass
class Daemons:
    """All processes that one cluster started, by name."""

    site: Site
    running: dict[str, Daemon] = field(default_factory=dict[str, Daemon])

    def start(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        namespace: str | None = None,
        groups: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Daemon:
        """Start a process whose output goes to the log of that name.

        Args:
            name: Unique in the cluster, such as `kubelet-1`; a name whose process ended may be used again.
            command: Program and arguments.
            namespace: Network namespace; the hub's by default.
            groups: Control group by hierarchy (see `cgroups.hierarchies`); by default `…/daemons` in version
                2.
            environment: Variables beside this process's own.

        Raises:
            ComponentFailed: One of that name runs already.
        """
        if name in self.running and self.running[name].process.poll() is None:
            raise ComponentFailed(f"{name} runs already (process {self.running[name].pid}): end it first")
        if groups is None:
            daemons = f"{self.site.control_group}/daemons"
            cgroups.make(daemons, everywhere=False)
            groups = {"unified": daemons}
        files = [str(cgroups.procs_file(group, hierarchy)) for hierarchy, group in groups.items()]
        namespace = namespace or self.site.hub
        entered = f"--net={network.NAMESPACES / namespace}"
        log = self.site.log(name)
        with log.open("ab") as output:
            process = subprocess.Popen(
                ["nsenter", entered, "sh", "-c", _LAUNCH, "launch", *files, "--", *map(str, command)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=os.environ | (environment or {}),
                cwd=self.site.folder,
                start_new_session=True,  # Ctrl-C is for us, who then take it down in order
            )
        self.running[name] = Daemon(name, process, log, namespace)
        return self.running[name]

    def wait_for(self, what: str, look: Callable[[], object], within_s: float = 60.0) -> None:
        """Wait until `look` returns something true, and give up at once when a process of the cluster ends.

        Raises:
            ComponentFailed: A process ended, or the time is over.
        """

        def look_and_check() -> object:
            self.check()
            return look()

        wait_for(what, look_and_check, within_s)

    def check(self) -> None:
        """Make sure that all of them run.

        Raises:
            ComponentFailed: One ended.
        """
        for daemon in list(self.running.values()):  # nodes are started by several threads
            daemon.check()

    def reap(self) -> None:
        """Take note that all of them have ended, after their control group was emptied."""
        for daemon in self.running.values():
            daemon.process.wait()

    def end(self, name: str, within_s: float = 5.0) -> None:
        """End one of them on purpose; its name may be used again."""
        self.running[name].end(within_s)
        self.forget(name)

    def forget(self, name: str) -> None:
        """Leave a process out of the checks from now on; it was ended on purpose."""
        del self.running[name]


def _telling_line(log: Path) -> str:
    """The last line of a log that says why: an error or a panic if there is one, else the last of all."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines()[-200:] if line.strip()]
    telling = [line for line in lines if line.startswith(("F", "Error:", "panic:", "fatal error:"))]
    return (telling or lines or ["it said nothing"])[-1][:400]
