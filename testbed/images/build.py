"""Building images: each once per content of what it is made of, and never half an image in the cache.

What an image is made of is looked at once per process, so that its name stays what it was while somebody
edits the checkout. If it changed before the image was built, the image is built as things are now, under its
new name; so ask for the archive first, and for the name after it.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from testbed.cache import cache_folder, content_hash, exclusively
from testbed.errors import ComponentFailed, MissingPrerequisite
from testbed.images import archive
from testbed.images.catalogue import IMAGES, Image, LayerRecipe
from testbed.images.mirror import architecture
from testbed.images.progress import Report, tell
from testbed.images.upkeep import HALF, keep_newest, remove_abandoned

ATTEMPTS = 3
FREE_BYTES_TO_BUILD = 2 << 30  # the base system, its layer and an archive with both


class _Changed(Exception):
    """What an image is made of changed while it was built."""


def image_name(name: str) -> str:
    """The full name by which a pod asks for the image, with a tag that says what is in it.

    Args:
        name: A name of the catalogue.

    Raises:
        MissingPrerequisite: The machine lacks what the image is made of.
    """
    return f"docker.io/stowplan/{name}:{_image_key(name)}"


def image_path(name: str, report: Report = tell) -> Path:
    """The archive of the image, built now if it is not in the cache.

    Args:
        name: A name of the catalogue.
        report: Takes one line of progress at a time.

    Raises:
        MissingPrerequisite: The machine lacks what the image is made of.
        ComponentFailed: It could not be built.
    """
    for _ in range(ATTEMPTS):
        place = _folder() / f"{name}-{_image_key(name)}.tar"
        try:
            if not place.is_file():
                with exclusively(f"image-{name}"):
                    if not place.is_file():
                        _build(IMAGES[name], place, report)
        except _Changed:
            _layer_keys.cache_clear()
            continue
        os.utime(place)  # the least recently used versions go first
        return place
    raise ComponentFailed(
        f"image {name}: what it is made of changed {ATTEMPTS} times while it was built; try again"
    )


def _folder() -> Path:
    folder = cache_folder() / "images"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _build(image: Image, place: Path, report: Report) -> None:
    free_bytes = shutil.disk_usage(place.parent).free
    if free_bytes < FREE_BYTES_TO_BUILD:
        raise MissingPrerequisite(
            f"{free_bytes / 1e9:.1f} GB free at {place.parent}, building images takes "
            f"{FREE_BYTES_TO_BUILD / 1e9:.0f} GB: free some, or name another place with STOWPLAN_CACHE"
        )
    remove_abandoned(place.parent)
    start = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(dir=place.parent, prefix=HALF) as scratch:
            half = Path(scratch)
            layers = [_layer(image, number, half, report) for number in range(len(image.layers))]
            archive.write_archive(
                half / "image", image_name(image.name), architecture(), image.config, layers
            )
            (half / "image").rename(place)
    except OSError as failure:
        raise ComponentFailed(f"image {image.name} could not be built: {failure}") from failure
    keep_newest(place.parent, f"{image.name}-*.tar")
    report(f"image {image.name}: {place.stat().st_size / 1e6:.1f} MB in {time.monotonic() - start:.1f} s")


def _layer(image: Image, number: int, scratch: Path, report: Report) -> archive.Layer:
    recipe = image.layers[number]
    half = scratch / f"layer-{number}"
    material = scratch / f"material-{number}"
    key = _layer_keys(image.name)[number]
    kept = _folder() / f"layer-{image.name}-{number}-{key}.tar"
    if recipe.is_kept and kept.is_file():
        os.utime(kept)
        return archive.Layer(kept)
    material.mkdir()
    layer = archive.write_layer(half, recipe.entries(material, report))
    shutil.rmtree(material)
    if _layer_key(recipe) != key:
        raise _Changed  # the name would lie about the content, for ever
    if not recipe.is_kept:
        return layer
    half.rename(kept)
    keep_newest(_folder(), f"layer-{image.name}-{number}-*.tar")
    return archive.Layer(kept)


def _image_key(name: str) -> str:
    return content_hash(iter((repr(IMAGES[name].config).encode(), *map(str.encode, _layer_keys(name)))))


@cache
def _layer_keys(name: str) -> tuple[str, ...]:
    return tuple(_layer_key(recipe) for recipe in IMAGES[name].layers)


def _layer_key(recipe: LayerRecipe) -> str:
    def parts() -> Iterator[bytes]:
        for name in ("archive.py", "catalogue.py"):
            yield (Path(__file__).resolve().parent / name).read_bytes()
        yield from recipe.parts()

    return content_hash(parts())
