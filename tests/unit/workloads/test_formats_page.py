"""docs/FORMATS.md names every format, every field of our own files, and shows files that load."""

import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import get_args

import msgspec
import pytest

from stowplan.simulate.clusters import load_cluster
from stowplan.simulate.clusters import manifest as cluster_manifest
from stowplan.simulate.fields import Strict
from stowplan.simulate.formats import FORMATS
from stowplan.simulate.workloads import load_workload
from stowplan.simulate.workloads import manifest as workload_manifest


def structs(kind: object) -> Iterator[type[Strict]]:
    """The mappings that a field's type holds, and those within them."""
    if isinstance(kind, type) and issubclass(kind, Strict):
        yield kind
        for field in msgspec.structs.fields(kind):
            yield from structs(field.type)
    for inner in get_args(kind):
        yield from structs(inner)


@pytest.fixture
def page(repository: Path) -> str:
    return (repository / "docs" / "FORMATS.md").read_text(encoding="utf-8")


def test_every_format_is_named(page: str) -> None:
    named = set(re.findall(r"\*\*([a-z-]+)\*\*", page))
    assert named == set(FORMATS)


@pytest.mark.parametrize("manifest", [workload_manifest, cluster_manifest])
def test_every_field_is_in_a_table(page: str, manifest: ModuleType) -> None:
    fields = {
        field.encode_name for struct in structs(manifest._Spec) for field in msgspec.structs.fields(struct)
    }
    assert len(fields) > 20
    assert {name for name in fields if f"`{name}`" not in page} == set()


def test_the_files_shown_load(page: str, tmp_path: Path) -> None:
    workload, cluster = re.findall(r"```yaml\n(.*?)```", page, flags=re.DOTALL)
    path = tmp_path / "shown.yaml"
    path.write_text(re.sub(r"    - from: .*?\n      at: 1h\n", "", workload))
    assert load_workload(path).task_count == 12 * 9
    path.write_text(cluster)
    assert len(load_cluster(path)) == 6
