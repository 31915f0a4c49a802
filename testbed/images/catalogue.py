"""The images of the test cluster: what is in each, and what decides it."""

import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from testbed.errors import MissingPrerequisite
from testbed.images import wheel
from testbed.images.archive import Config, Entry, file, folder, link, tree
from testbed.images.base import base_parts, base_system
from testbed.images.compiled import compiled_parts, compiled_program
from testbed.images.progress import Report
from testbed.programs import program_path

PATH = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
NOBODY = "65534:65534"

_ACCOUNTS = (
    file(
        "etc/passwd", b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n"
    ),
    file("etc/group", b"root:x:0:\nnogroup:x:65534:\n"),
    file("etc/nsswitch.conf", b"hosts: files dns\n"),
    folder("root", 0o700),
    folder("tmp", 0o1777),
)


@dataclass(frozen=True)
class LayerRecipe:
    """How a layer is made.

    Attributes:
        parts: What decides its content.
        entries: Makes what is in it, in a scratch folder that stays until the layer is written.
        is_kept: Whether it is slow to make and shared by many versions of an image, and so kept by itself.
    """

    parts: Callable[[], Iterator[bytes]]
    entries: Callable[[Path, Report], Iterable[Entry]]
    is_kept: bool = False


@dataclass(frozen=True)
class Image:
    """One image.

    Attributes:
        name: Its short name.
        config: How its containers start.
        layers: Its layers, the lowest first.
    """

    name: str
    config: Config
    layers: tuple[LayerRecipe, ...]


def _busybox() -> Path:
    path = shutil.which("busybox")
    if path is None:
        raise MissingPrerequisite(
            "no busybox on this machine: apt-get install busybox-static (or make test, as root)"
        )
    return Path(path)


def _busybox_parts() -> Iterator[bytes]:
    yield _busybox().read_bytes()


def _busybox_entries(_scratch: Path, _report: Report) -> Iterator[Entry]:
    listed = subprocess.run([_busybox(), "--list-full"], capture_output=True, text=True, check=True)
    for path in listed.stdout.split():
        yield link(path, "/bin/busybox")
    yield file("bin/busybox", _busybox(), 0o755)
    yield from _ACCOUNTS


def _argoexec_parts() -> Iterator[bytes]:
    yield program_path(
        "argoexec"
    ).parent.name.encode()  # the folder's name has the hash of all that it is made of


def _argoexec_entries(_scratch: Path, _report: Report) -> Iterator[Entry]:
    # As in Argo's own Dockerfile, without what only Git artifacts (known hosts) and its file server (MIME
    # types) read, and without certificates: nothing here talks TLS to the world.
    yield file("bin/argoexec", program_path("argoexec"), 0o755)
    yield from _ACCOUNTS


def _compiled(name: str, place: str) -> LayerRecipe:
    def entries(_scratch: Path, _report: Report) -> Iterator[Entry]:
        yield file(place, compiled_program(name), 0o755)

    return LayerRecipe(lambda: compiled_parts(name), entries)


def _base_entries(_scratch: Path, report: Report) -> Iterator[Entry]:
    yield from tree(base_system(report))


_BUSYBOX = LayerRecipe(_busybox_parts, _busybox_entries)

IMAGES = {
    image.name: image
    for image in (
        Image("pause", Config(entrypoint=("/pause",), user=NOBODY), (_compiled("pause", "pause"),)),
        Image("busybox", Config(command=("sh",), environment=PATH), (_BUSYBOX,)),
        # On busybox, so that a task can be a script of several loads.
        Image(
            "load", Config(entrypoint=("load",), environment=PATH), (_BUSYBOX, _compiled("load", "bin/load"))
        ),
        Image(
            "argoexec",
            Config(entrypoint=("argoexec",), environment=PATH),
            (LayerRecipe(_argoexec_parts, _argoexec_entries),),
        ),
        Image(
            "stowplan",
            Config(
                entrypoint=("stowplan",),
                environment=PATH | {"HOME": "/", "PYTHONUNBUFFERED": "1"},
                user=NOBODY,
            ),
            (
                LayerRecipe(base_parts, _base_entries, is_kept=True),
                LayerRecipe(wheel.dependency_parts, wheel.dependency_entries, is_kept=True),
                LayerRecipe(wheel.wheel_parts, wheel.wheel_entries),
            ),
        ),
    )
}
