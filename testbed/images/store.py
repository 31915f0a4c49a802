"""Images for new nodes: a containerd's folder, filled once, copied before the node's containerd starts.

Filling a node's containerd by imports costs 0.2 s per small image and 4 to 9 s for large ones, on each node,
each time. So a set of images is imported once, into a containerd that runs for nothing else, and what it then
has on disk is kept. A new node gets it before its containerd starts: the two small databases are copied,
everything else (blobs, unpacked layers) is hard-linked. That is safe because containerd names a blob by its
digest and never writes to it again, and because an unpacked layer is only ever a lower layer of an overlay
file system, which writes elsewhere. A node that removes an image removes its own links.

A store for a new set begins as a copy of the one that has most in common with it, so that only what is new is
unpacked: with a new wheel that is Stowplan's own layer, not Debian below it.

Nodes made so share one page cache for the files of images; the group that reads a page first is charged.
"""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from testbed.cache import cache_folder, content_hash, exclusively
from testbed.errors import MissingPrerequisite
from testbed.images.build import image_name, image_path
from testbed.images.containerd import (
    SNAPSHOTTER,
    containerd_version,
    images_in,
    import_archive,
    remove_all_but,
    running_containerd,
)
from testbed.images.progress import Report, tell
from testbed.images.upkeep import HALF, keep_newest

_LINKED = ("io.containerd.content.v1.content", f"io.containerd.snapshotter.v1.{SNAPSHOTTER}")
_COPIED = (
    "io.containerd.metadata.v1.bolt/meta.db",
    f"io.containerd.snapshotter.v1.{SNAPSHOTTER}/metadata.db",
)
_NAMES = "names"  # in a store: the images that it has, one per line


def place_images(names: Iterable[str], root: Path, report: Report = tell) -> None:
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
    _copy(prepared_store(names, report), root)


def prepared_store(names: Iterable[str], report: Report = tell) -> Path:
    """The containerd root folder that has exactly the named images, filled now if it is not in the cache."""
    wanted = sorted(set(names))
    place = _place(wanted)
    if not place.is_dir():
        if os.geteuid() != 0:
            raise MissingPrerequisite(
                "not root: containerd, which unpacks images, is run by root (sudo make …)"
            )
        paths = {name: image_path(name, report) for name in wanted}
        archives = {image_name(name): path for name, path in paths.items()}
        place = _place(wanted)  # what an image is made of may have changed before it was built
        with exclusively("image-store"):
            if not place.is_dir():
                _fill(place, wanted, archives, report)
    os.utime(place)
    return place


def _place(names: Iterable[str]) -> Path:
    here = Path(__file__).resolve()
    ours = (here.read_bytes(), here.with_name("containerd.py").read_bytes())
    version = content_hash(iter((containerd_version(), *ours)))
    images = content_hash(image_name(name).encode() for name in names)
    return cache_folder() / "images" / f"store-{version}-{images}"


def _fill(place: Path, names: Sequence[str], archives: dict[str, Path], report: Report) -> None:
    start = time.monotonic()
    earlier = _most_in_common(place, names)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=HALF) as scratch:
        half = Path(scratch) / "root"
        if earlier is not None:
            _copy(earlier, half)
        with running_containerd(half) as socket:
            present = images_in(socket)
            for full_name, archive in archives.items():
                if full_name not in present:
                    import_archive(socket, archive, full_name)
            remove_all_but(socket, archives)
        (half / _NAMES).write_text("\n".join(names))
        half.rename(place)
    keep_newest(place.parent, "store-*")
    report(f"image store with {len(archives)} images: {time.monotonic() - start:.1f} s")


def _most_in_common(place: Path, names: Iterable[str]) -> Path | None:
    """Of the stores by the same containerd, the one with most of the named images; of these the newest."""

    def rank(store: Path) -> tuple[int, float]:
        common = set(names).intersection((store / _NAMES).read_text().splitlines())
        return len(common), store.stat().st_mtime

    same_containerd = place.name.rpartition("-")[0] + "-*"
    return max(place.parent.glob(same_containerd), key=rank, default=None)


def _copy(store: Path, root: Path) -> None:
    how = "--link" if _device_of(root) == store.stat().st_dev else "--reflink=auto"
    root.mkdir(parents=True, exist_ok=True)
    for name in _LINKED:
        subprocess.run(["cp", "--archive", how, str(store / name), str(root)], check=True)
    for name in _COPIED:
        place = root / name
        place.parent.mkdir(exist_ok=True)
        place.unlink(missing_ok=True)  # the link to the store's own, which must not be written to
        shutil.copyfile(store / name, place)


def _device_of(path: Path) -> int:
    return next(parent for parent in (path, *path.parents) if parent.exists()).stat().st_dev
