"""Images in a real containerd: what a node is given, what its containers may do to it, what they are."""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

import stowplan
from testbed import cgroups
from testbed.cache import cache_folder
from testbed.errors import MissingPrerequisite
from testbed.images import compiled_program, image_name, import_image, place_images
from testbed.images.base import APART
from testbed.images.containerd import NAMESPACE, ctr, images_in, remove_all_but, running_containerd
from testbed.waiting import wait_for

GROUP = f"stow-images-{os.getpid()}"


@dataclass
class Containerd:
    """A running containerd of a node that does nothing else."""

    root: Path
    socket: Path

    def run(
        self, image: str, *command: object, options: tuple[str, ...] = ()
    ) -> subprocess.CompletedProcess[str]:
        """Run a container to its end; without a command, as its image says."""
        # runc keeps the containers of all containerds in one folder, so a name must be nobody else's. That of
        # a temporary folder does not do: it may end in "_", and then containerd refuses what follows it.
        container = f"image-test-{uuid4().hex}"
        arguments = ["ctr", "--address", self.socket, "--namespace", NAMESPACE, "run", "--rm", *options]
        arguments += ["--cgroup", f"{GROUP}/{container}", image_name(image), container, *command]
        return subprocess.run(
            [str(word) for word in arguments], capture_output=True, text=True, check=False, timeout=60
        )


@pytest.fixture(scope="module")
def start() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        cgroups.make(GROUP, everywhere=True)
        stack.callback(cgroups.remove, GROUP)
        yield stack


def node(stack: ExitStack, *images: str) -> Containerd:
    """A containerd that was given images before it started."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=cache_folder(), prefix="node-")))
    try:
        place_images(images, folder / "root")
        return Containerd(folder / "root", stack.enter_context(running_containerd(folder / "root")))
    except MissingPrerequisite as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def first(start: ExitStack) -> Containerd:
    return node(start, "pause", "busybox", "load", "argoexec")


@pytest.fixture(scope="module")
def second(start: ExitStack) -> Containerd:
    return node(start, "pause", "busybox", "load", "argoexec")


def test_a_new_node_has_exactly_the_images_that_it_was_given(first: Containerd) -> None:
    present = images_in(first.socket)
    named = {name for name in present if not name.startswith("sha256:")}
    assert named == {image_name(name) for name in ("pause", "busybox", "load", "argoexec")}
    # Kubernetes' side of containerd knows each by its id too.
    assert len(present) == 2 * len(named)


def test_what_a_container_changes_in_its_image_stays_its_own(first: Containerd, second: Containerd) -> None:
    change = "echo changed >> /etc/passwd && chmod 600 /etc/group && rm /bin/busybox && : > /bin/load"
    assert first.run("load", "sh", "-c", change).returncode == 0
    for one in (first, second):
        seen = one.run(
            "load", "sh", "-c", "grep -c changed /etc/passwd; stat -c %a /etc/group; load exit --code 9"
        )
        assert (seen.stdout.splitlines()[:2], seen.returncode) == (["0", "644"], 9)


def test_an_image_removed_on_one_node_stays_on_another(start: ExitStack, second: Containerd) -> None:
    other = node(start, "pause", "busybox")
    remove_all_but(other.socket, {image_name("pause")})
    assert image_name("busybox") not in images_in(other.socket)
    assert second.run("busybox", "true").returncode == 0


def test_another_name_of_a_kept_image_is_removed_too(start: ExitStack) -> None:
    other = node(start, "pause")
    before = images_in(other.socket)
    ctr(other.socket, "images", "tag", image_name("pause"), "docker.io/stowplan/pause:earlier")
    remove_all_but(other.socket, {image_name("pause")})
    assert images_in(other.socket) == before


def test_an_image_can_be_added_to_a_running_node(start: ExitStack) -> None:
    other = node(start, "pause")
    assert import_image(other.socket, "load") == image_name("load")
    assert other.run("load", "load", "exit", "--code", 3).returncode == 3


def test_a_load_beyond_its_memory_limit_is_killed_by_the_kernel(first: Containerd) -> None:
    limit = ("--memory-limit", str(32 << 20))
    assert first.run("load", "load", "oom", "--bytes", "16Mi", options=limit).returncode == 0
    killed = first.run("load", "load", "oom", "--bytes", "64Mi", options=limit)
    assert (killed.returncode, killed.stdout) == (137, "")


def test_cpu_work_takes_as_much_longer_as_its_share_is_smaller(first: Containerd) -> None:
    line = json.loads(first.run("load", "load", "cpu", "--work", 120, options=("--cpus", "0.2")).stdout)
    cpu_s = line["cpu_user_s"] + line["cpu_system_s"]
    # The quota is given out every 0.1 s in slices of 5 ms per processor: a share or two come early.
    assert line["wall_s"] > (cpu_s / 0.2 - 0.2) * 0.9


def test_page_cache_reads_come_from_storage_when_memory_is_too_small(first: Containerd) -> None:
    arguments = ("load", "page-cache", "--file", "/x", "--bytes", "32Mi", "--work-bytes", "96Mi")
    whole = json.loads(first.run("load", *arguments).stdout)
    squeezed = json.loads(first.run("load", *arguments, options=("--memory-limit", str(16 << 20))).stdout)
    assert whole["amount"] == squeezed["amount"] == 96 << 20
    assert whole["storage_read_bytes"] < 1 << 20
    assert squeezed["storage_read_bytes"] > 48 << 20


def test_busybox_runs_a_shell_as_root(first: Containerd) -> None:
    done = first.run("busybox", "sh", "-c", "id -un && echo 6 7 | awk '{print $1 * $2}'")
    assert done.stdout.split() == ["root", "42"]


def test_argoexec_runs_and_finds_itself_on_the_path(first: Containerd) -> None:
    done = first.run("argoexec", "argoexec", "version")
    assert (done.returncode, "v4.0.5" in done.stdout + done.stderr) == (0, True), done.stderr


@pytest.mark.slow
@pytest.mark.timeout(600)  # the first time, its base system is made
def test_stowplan_runs_from_its_wheel_as_nobody(start: ExitStack) -> None:
    other = node(start, "stowplan")
    version = other.run("stowplan", "stowplan", "--version")
    assert (version.returncode, version.stdout) == (0, f"{stowplan.__version__}\n"), version.stderr
    assert other.run("stowplan", "id", "-u").stdout == "65534\n"
    # Compiled files are used as they are, though every file in the image has the time 0.
    told = other.run("stowplan", "python3", "-v", "-c", "import stowplan.cli, rich.table, numpy, json")
    assert told.returncode == 0
    assert len(re.findall(r"code object from '/usr/[^']*\.pyc'", told.stderr)) > 200
    assert re.findall(r"code object from '/usr/[^']*\.py'", told.stderr) == []


def test_pause_reaps_orphans_and_ends_on_sigterm() -> None:
    program = compiled_program("pause")
    # Two orphans of process 1 of a process namespace: a shell starts them, then becomes pause.
    script = f'(sleep 0.05 & sleep 0.05 &) ; exec "{program}"'
    outside = subprocess.Popen(["unshare", "--pid", "--fork", "sh", "-c", script])
    try:
        children = Path(f"/proc/{outside.pid}/task/{outside.pid}/children")
        pause = int(wait_for("process 1 of the namespace", lambda: children.read_text().strip(), 5.0))
        command = Path(f"/proc/{pause}/comm")
        wait_for("pause to run", lambda: command.read_text().strip() == "pause", 5.0)
        of_pause = Path(f"/proc/{pause}/task/{pause}/children")
        wait_for("no child left, dead or alive", lambda: not of_pause.read_text().strip(), 5.0)
        os.kill(pause, 15)
        assert outside.wait(5.0) == 0
    finally:
        outside.kill()
        outside.wait()


def test_what_runs_apart_ends_with_its_starter_even_if_that_is_killed(tmp_path: Path) -> None:
    mark = f"sleep 61.{os.getpid()}"
    script = f'mount -t tmpfs none "$1" && {mark} & {mark}'
    starter = f"import subprocess; subprocess.run({[*APART, 'sh', '-c', script, 'sh', str(tmp_path)]!r})"

    def running() -> int:
        return sum(mark in command for command in commands())

    process = subprocess.Popen([sys.executable, "-c", starter])
    wait_for("both to run", lambda: running() >= 2, 10.0)
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()
    process.kill()
    process.wait()
    wait_for("none to run", lambda: running() == 0, 5.0)


def commands() -> Iterator[str]:
    """The command lines of all processes of the machine."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(FileNotFoundError, ProcessLookupError):  # it ended while we looked
            yield path.read_text(errors="replace").replace("\0", " ")


def test_a_containerd_that_ended_leaves_no_mount_and_no_process(tmp_path: Path) -> None:
    with running_containerd(tmp_path / "root") as socket:
        folder = socket.parent
        assert images_in(socket) == {}
    assert not folder.exists()
    assert str(folder) not in Path("/proc/self/mountinfo").read_text()
    assert not any(str(folder) in command for command in commands())
