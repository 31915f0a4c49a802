"""Releases of models as files: written whole, verified before anything of them is used.

* `reading`, `writing`: a folder with graphs, manifest and `SHA256SUMS`.
* `policies`: policies by name and options, where an option may name such a folder.
"""

from stowplan.registry.policies import PolicyMaker, make_policy, pinned_options, resolved_options
from stowplan.registry.reading import load_release
from stowplan.registry.writing import write_release

__all__ = [
    "PolicyMaker",
    "load_release",
    "make_policy",
    "pinned_options",
    "resolved_options",
    "write_release",
]
