"""Releases as files: what was written is read, and whatever is not as it was written is refused by name."""

import hashlib
import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stowplan.core.policy.learned import (
    LearnedPolicy,
    Release,
    manifest_from_bytes,
    manifest_to_bytes,
)
from stowplan.errors import InvalidFile, OutputError
from stowplan.registry import load_release, write_release
from stowplan.registry.reading import MOST_BYTES
from tests.learned_cases import random_release

FILES = ("manifest.json", "node.onnx", "task.onnx")


@pytest.fixture(scope="module")
def release() -> Release:
    return random_release()


@pytest.fixture
def folder(release: Release, tmp_path: Path) -> Path:
    write_release(release, tmp_path / "models" / "one")
    return tmp_path / "models" / "one"


def renewed(folder: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """Change the manifest, and the sums with it: as one who knows how would."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))
    lines = [f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in FILES]
    (folder / "SHA256SUMS").write_text("".join(lines))
    return folder


def test_what_was_written_is_read(release: Release, folder: Path) -> None:
    read = load_release(folder, expected=release.digest)
    assert read == release
    assert sorted(path.name for path in folder.iterdir()) == ["SHA256SUMS", *FILES]
    assert [path.name for path in folder.parent.iterdir()] == ["one"]  # nothing is left beside it
    subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=folder, check=True)


@pytest.mark.parametrize("name", [*FILES, "SHA256SUMS"])
@pytest.mark.parametrize("at", [0, 0.5, -1])
def test_one_altered_bit_is_refused(folder: Path, name: str, at: float) -> None:
    content = bytearray((folder / name).read_bytes())
    place = len(content) - 1 if at < 0 else int(at * len(content))
    content[place] ^= 1
    (folder / name).write_bytes(content)
    with pytest.raises(InvalidFile, match=name):
        load_release(folder)


@pytest.mark.parametrize("name", [*FILES, "SHA256SUMS"])
@pytest.mark.parametrize("left", [0, 100])
def test_a_truncated_file_is_refused(folder: Path, name: str, left: int) -> None:
    (folder / name).write_bytes((folder / name).read_bytes()[:left])
    with pytest.raises(InvalidFile, match=name):
        load_release(folder)


@pytest.mark.parametrize("name", [*FILES, "SHA256SUMS"])
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(InvalidFile, match=f"{name} of a release cannot be read: No such file"):
        load_release(folder)


def test_what_is_not_listed_or_no_part_is_refused(folder: Path) -> None:
    sums = (folder / "SHA256SUMS").read_text()
    (folder / "notes.txt").write_text("hello")
    with pytest.raises(InvalidFile, match=r"notes\.txt is no part of a release; take it away"):
        load_release(folder)
    (folder / "notes.txt").unlink()
    first, *rest = sums.splitlines(keepends=True)
    (folder / "SHA256SUMS").write_text("".join(rest))
    with pytest.raises(InvalidFile, match=r"SHA256SUMS does not list manifest\.json"):
        load_release(folder)
    (folder / "SHA256SUMS").write_text(sums + first)
    with pytest.raises(InvalidFile, match="SHA256SUMS, line 4 is"):
        load_release(folder)
    (folder / "SHA256SUMS").write_text(sums.replace("  node.onnx", "  ../node.onnx"))
    with pytest.raises(InvalidFile, match="SHA256SUMS, line 2 is"):
        load_release(folder)


def test_another_release_than_expected_is_refused(release: Release, folder: Path) -> None:
    with pytest.raises(InvalidFile, match=f"has digest {release.digest}, expected is {'0' * 64}"):
        load_release(folder, expected="0" * 64)


def test_there_is_no_release_where_there_is_no_folder(tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match="there is no release of a model at"):
        load_release(tmp_path / "nowhere")


def test_a_file_too_large_to_be_one_is_not_read(folder: Path) -> None:
    with (folder / "task.onnx").open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    with pytest.raises(InvalidFile, match=f"task.onnx is larger than {MOST_BYTES} bytes"):
        load_release(folder)


def test_a_column_of_another_name_or_range_is_told(folder: Path) -> None:
    name = random_release().manifest.schema.node.columns[0].name

    def column(**fields: object) -> Callable[[dict[str, Any]], None]:
        return lambda manifest: manifest["schema"]["node"]["columns"][0].update(fields)

    with pytest.raises(InvalidFile, match=r"trained on other columns than .* node\.horns .* is unknown here"):
        load_release(renewed(folder, column(name="horns")))
    with pytest.raises(InvalidFile, match=rf"node\.{name} .* … 1e\+99.* is {name} .* here"):
        load_release(renewed(folder, column(name=name, high=1e99)))


def test_another_format_or_an_unknown_field_is_refused(folder: Path) -> None:
    with pytest.raises(InvalidFile, match=r"is of format 'stowplan\.policy/9', this version reads"):
        load_release(renewed(folder, lambda manifest: manifest.update(format="stowplan.policy/9")))
    with pytest.raises(InvalidFile, match="Object contains unknown field `colour`"):
        load_release(renewed(folder, lambda manifest: manifest.update(colour="red")))


def test_sizes_that_do_not_belong_to_the_columns_are_refused(folder: Path) -> None:
    with pytest.raises(InvalidFile, match="its network takes 7 numbers of a task"):
        load_release(renewed(folder, lambda manifest: manifest["network"].update(task_features=7)))


def test_graphs_of_other_sizes_are_refused_before_they_serve(release: Release) -> None:
    network = msgspec.structs.replace(release.manifest.network, keys=8)
    other = Release.of(
        msgspec.structs.replace(release.manifest, network=network),
        node_graph=release.files["node.onnx"],
        task_graph=release.files["task.onnx"],
    )
    with pytest.raises(InvalidFile, match=r"the node graph of a model has 'nodes' of shape \(None, 80\)"):
        LearnedPolicy(other)


@pytest.mark.parametrize("content", [b"", b"not a graph", b"\x08\x08"])
def test_what_is_no_graph_is_refused(release: Release, content: bytes) -> None:
    other = replace(release, files={**release.files, "task.onnx": content})
    with pytest.raises(InvalidFile, match="the task graph of a model cannot be loaded"):
        LearnedPolicy(other)


def test_a_manifest_round_trips(release: Release) -> None:
    content = manifest_to_bytes(release.manifest)
    assert manifest_from_bytes(content) == release.manifest
    assert manifest_to_bytes(manifest_from_bytes(content)) == content


def test_nothing_is_overwritten_and_nothing_is_left_of_a_failure(release: Release, folder: Path) -> None:
    with pytest.raises(OutputError, match="exists; a release is never overwritten"):
        write_release(release, folder)
    shutil.rmtree(folder)
    large = replace(release, files={**release.files, "task.onnx": bytes(MOST_BYTES + 1)})
    with pytest.raises(OutputError, match=r"task\.onnx would be"):
        write_release(large, folder)
    (folder.parent / "file").write_text("")
    with pytest.raises(OutputError, match="cannot be written to"):
        write_release(release, folder.parent / "file" / "one")
    assert [path.name for path in folder.parent.iterdir()] == ["file"]
