"""containerd, as far as images need it: importing into one that runs, and running one for nothing else."""

import shutil
import subprocess
import tempfile
from collections.abc import Collection, Generator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from testbed.errors import ComponentFailed, MissingPrerequisite
from testbed.images.build import image_name, image_path
from testbed.images.progress import Report, tell
from testbed.waiting import wait_for

NAMESPACE = "k8s.io"  # where containerd keeps what belongs to Kubernetes
SNAPSHOTTER = "overlayfs"

_LONGEST_PATH_OF_A_SOCKET = 107
_START_S = 20.0
_KNOWN_S = 10.0

_CONFIG = """\
version = 2
root = "{root}"
state = "{state}"
[grpc]
  address = "{socket}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{state}"
[plugins."io.containerd.grpc.v1.cri"]
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{state}"
    conf_dir = "{state}"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "{snapshotter}"
"""


def import_image(socket: Path, name: str, report: Report = tell) -> str:
    """Import an image of the catalogue into a running containerd, and wait until the kubelet would find it.

    Args:
        socket: The containerd's socket.
        name: A name of the catalogue.
        report: Takes one line of progress at a time, where the image has to be built first.

    Returns:
        The image's full name, for pods to ask for.

    Raises:
        MissingPrerequisite: The machine lacks what the image is made of.
        ComponentFailed: It could not be built or imported.
    """
    archive = image_path(name, report)
    full_name = image_name(name)
    import_archive(socket, archive, full_name)
    return full_name


def import_archive(socket: Path, archive: Path, full_name: str) -> None:
    """Import an image archive, and wait until the kubelet would find it.

    Args:
        socket: The containerd's socket.
        archive: The archive.
        full_name: The name of the image in it.

    Raises:
        ComponentFailed: It could not be imported.
    """
    ctr(socket, "images", "import", "--snapshotter", SNAPSHOTTER, str(archive))
    # containerd's Kubernetes side hears of an image a moment later, and marks it then.
    known = ("images", "list", "--quiet", f'name=={full_name},labels."io.cri-containerd.image"==managed')
    wait_for(f"containerd at {socket} to know {full_name}", lambda: ctr(socket, *known).strip(), _KNOWN_S)


def images_in(socket: Path) -> dict[str, str]:
    """The digest of each image that a running containerd has, by the image's name there."""
    rows = ctr(socket, "images", "list").splitlines()[1:]
    return {name: digest for name, _type, digest, *_rest in (row.split() for row in rows)}


def remove_all_but(socket: Path, full_names: Collection[str]) -> None:
    """Remove all image names but those and the ids of their images, and what only the others needed."""
    present = images_in(socket)
    kept = {digest for name, digest in present.items() if name in full_names}
    ids = {name for name, digest in present.items() if name.startswith("sha256:") and digest in kept}
    unwanted = [name for name in present if name not in ids | set(full_names)]
    if unwanted:
        ctr(socket, "images", "remove", "--sync", *unwanted)


@contextmanager
def running_containerd(root: Path) -> Generator[Path]:
    """A containerd with that root folder, ended afterwards, also when this process dies; gives its socket."""
    with tempfile.TemporaryDirectory(
        prefix="stow-"
    ) as folder:  # a short path: a socket's has at most 107 characters
        state, log = Path(folder) / "state", Path(folder) / "log"
        socket = Path(folder) / "containerd.sock"
        if len(str(socket)) > _LONGEST_PATH_OF_A_SOCKET:
            raise MissingPrerequisite(
                f"TMPDIR {tempfile.gettempdir()} is too long for a socket: name a shorter one"
            )
        config = Path(folder) / "config.toml"
        config.write_text(_CONFIG.format(root=root, state=state, socket=socket, snapshotter=SNAPSHOTTER))
        with log.open("wb") as output:
            process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "containerd", "--config", str(config)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            wait_for("containerd for unpacking images", lambda: _answers(process, socket, log), _START_S)
            yield socket
        finally:
            process.terminate()
            process.wait()


def _answers(process: subprocess.Popen[bytes], socket: Path, log: Path) -> bool:
    if process.poll() is not None:
        said = log.read_text(errors="replace").strip().splitlines() or [f"exit code {process.returncode}"]
        raise ComponentFailed(f"containerd for unpacking images ended: {said[-1]}")
    done = subprocess.run(["ctr", "--address", str(socket), "version"], capture_output=True, check=False)
    return done.returncode == 0


@lru_cache(maxsize=1)
def containerd_version() -> bytes:
    """What containerd says of its version.

    Raises:
        MissingPrerequisite: There is no containerd.
    """
    path = shutil.which("containerd")
    if path is None:
        raise MissingPrerequisite(
            "no containerd on this machine: apt-get install containerd (or make test, as root)"
        )
    return subprocess.run([path, "--version"], capture_output=True, check=True).stdout


def ctr(socket: Path, *arguments: str) -> str:
    """Run `ctr` on what belongs to Kubernetes, and return what it says.

    Raises:
        ComponentFailed: It failed; the message has its last line.
    """
    command = ["ctr", "--address", str(socket), "--namespace", NAMESPACE, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}"
        raise ComponentFailed(f"ctr {' '.join(arguments)} failed: {said.splitlines()[-1]}")
    return done.stdout
