"""Images for the real nodes, made without a registry."""

from testbed.images.build import image_name, image_path
from testbed.images.catalogue import IMAGES
from testbed.images.compiled import compiled_program
from testbed.images.containerd import import_image
from testbed.images.store import place_images

__all__ = [
    "IMAGES",
    "compiled_program",
    "image_name",
    "image_path",
    "import_image",
    "place_images",
]
