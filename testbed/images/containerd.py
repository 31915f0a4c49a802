"""Images into containerd: into one that runs, or, for a new node, as a copy of a store that was filled once.

Filling a node's containerd by imports costs 0.15 s per small image and seconds for large ones, on each node,
each time. So a set of images is imported once, into a containerd that runs for nothing else, and what it then
has on disk is kept. A new node gets it before its containerd starts: the two small databases are copied,
everything else (blobs, unpacked layers) is hard-linked. That is safe because containerd names a blob by its
digest and never writes to it again, and because an unpacked layer is only ever a lower layer of an overlay
file system, which writes elsewhere. A node that removes an image removes its own links.

Nodes made so share one page cache for the files of images; the group that reads a page first is charged.
"""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from testbed.cache import cache_folder, content_hash, exclusively
from testbed.errors import ComponentFailed, MissingPrerequisite
from testbed.images.base import Report
from testbed.images.build import image_name, image_path
from testbed.images.upkeep import keep_newest
from testbed.waiting import wait_for

NAMESPACE = "k8s.io"  # where containerd keeps what belongs to Kubernetes
SNAPSHOTTER = "overlayfs"

_LINKED = ("io.containerd.content.v1.content", f"io.containerd.snapshotter.v1.{SNAPSHOTTER}")
_COPIED = (
    "io.containerd.metadata.v1.bolt/meta.db",
    f"io.containerd.snapshotter.v1.{SNAPSHOTTER}/metadata.db",
)
_LONGEST_PATH_OF_A_SOCKET = 107
_START_S = 20.0
_KNOWN_S = 10.0

_CONFIG = """\
version = 2
root = "{root}"
state = "{state}"
[grpc]
  address = "{socket}"
[plugins."io.containerd.grpc.v1.cri"]
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{state}"
    conf_dir = "{state}"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "{snapshotter}"
"""


def import_image(socket: Path, name: str, report: Report = print) -> str:
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
    full_name = image_name(name)
    import_archive(socket, image_path(name, report), full_name)
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
    _ctr(socket, "images", "import", "--snapshotter", SNAPSHOTTER, str(archive))
    # containerd's Kubernetes side hears of an image a moment later, and marks it then.
    known = ("images", "list", "--quiet", f'name=={full_name},labels."io.cri-containerd.image"==managed')
    wait_for(f"containerd at {socket} to know {full_name}", lambda: _ctr(socket, *known).strip(), _KNOWN_S)


def place_images(names: Iterable[str], root: Path, report: Report = print) -> None:
    """Give a containerd that was never started all of the named images.

    Args:
        names: Names of the catalogue.
        root: The `root` folder of the containerd, empty or not made yet; best below the cache folder, since
            hard links do not cross file systems (elsewhere the files are copied, which takes seconds).
        report: Takes one line of progress at a time.

    Raises:
        MissingPrerequisite: Not root, no containerd, or the machine lacks what an image is made of.
        ComponentFailed: An image could not be built or imported.
    """
    store = prepared_store(names, report)
    same = _device_of(root) == store.stat().st_dev
    root.mkdir(parents=True, exist_ok=True)
    for name in _LINKED:
        how = "--link" if same else "--reflink=auto"
        subprocess.run(["cp", "--archive", how, str(store / name), str(root)], check=True)
    for name in _COPIED:
        place = root / name
        place.parent.mkdir(exist_ok=True)
        place.unlink(missing_ok=True)  # the link to the store's own, which this node must not write to
        shutil.copyfile(store / name, place)


def prepared_store(names: Iterable[str], report: Report = print) -> Path:
    """The containerd root folder that has exactly the named images, filled now if it is not in the cache."""
    wanted = sorted(set(names))
    place = cache_folder() / "images" / f"store-{content_hash(_store_parts(wanted))}"
    if not place.is_dir():
        if os.geteuid() != 0:
            raise MissingPrerequisite(
                "not root: containerd, which unpacks images, is run by root (sudo make …)"
            )
        archives = {image_name(name): image_path(name, report) for name in wanted}
        with exclusively("image-store"):
            if not place.is_dir():
                _fill(place, archives, report)
    os.utime(place)
    return place


def _store_parts(names: Sequence[str]) -> Iterator[bytes]:
    yield _containerd_version()
    yield Path(__file__).read_bytes()
    for name in names:
        yield image_name(name).encode()


def _fill(place: Path, archives: dict[str, Path], report: Report) -> None:
    start = time.monotonic()
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=".half-") as scratch:
        half = Path(scratch) / "root"
        with _running_containerd(half) as socket:
            for full_name, archive in archives.items():
                import_archive(socket, archive, full_name)
        half.rename(place)
    keep_newest(place.parent, "store-*")
    report(f"image store with {len(archives)} images: {time.monotonic() - start:.1f} s")


@contextmanager
def _running_containerd(root: Path) -> Generator[Path]:
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
def _containerd_version() -> bytes:
    path = shutil.which("containerd")
    if path is None:
        raise MissingPrerequisite(
            "no containerd on this machine: apt-get install containerd (or make test, as root)"
        )
    return subprocess.run([path, "--version"], capture_output=True, check=True).stdout


def _device_of(path: Path) -> int:
    return next(parent for parent in (path, *path.parents) if parent.exists()).stat().st_dev


def _ctr(socket: Path, *arguments: str) -> str:
    command = ["ctr", "--address", str(socket), "--namespace", NAMESPACE, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}"
        raise ComponentFailed(f"ctr {' '.join(arguments)} failed: {said.splitlines()[-1]}")
    return done.stdout
