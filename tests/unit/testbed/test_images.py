"""Image archives and the images of the catalogue, as far as no root is needed."""

import hashlib
import io
import json
import os
import subprocess
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from testbed.cache import cache_folder
from testbed.errors import ComponentFailed, MissingPrerequisite
from testbed.images import archive, base, build, catalogue, compiled, containerd, mirror, store, upkeep, wheel
from testbed.images.archive import Config, Entry, Layer, file, folder, link, tree, write_archive, write_layer
from testbed.images.progress import Report

Tar = dict[str, tarfile.TarInfo]


def members(layer: Path) -> Tar:
    with tarfile.open(layer) as tar:
        return {member.name: member for member in tar}


def contents(place: Path) -> dict[str, bytes]:
    with tarfile.open(place) as tar:
        found: dict[str, bytes] = {}
        for member in tar:
            opened = tar.extractfile(member)
            assert opened is not None
            found[member.name] = opened.read()
        return found


def quiet(_line: str) -> None:
    pass


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("STOWPLAN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(autouse=True)
def forget_what_was_found() -> None:
    """Prerequisites are looked for once per process; a test may take one away."""
    for found_once in (
        compiled._compiler,
        mirror.mirror,
        mirror.architecture,
        containerd.containerd_version,
    ):
        found_once.cache_clear()
    build._layer_keys.cache_clear()


# ── archives ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_layer_is_sorted_timeless_and_owned_by_root(tmp_path: Path) -> None:
    write_layer(tmp_path / "layer", [file("b/c", b"1", 0o755), file("a", b"2"), link("b/a", "c")])
    found = members(tmp_path / "layer")
    assert list(found) == ["a", "b", "b/a", "b/c"]
    assert {(one.mtime, one.uid, one.gid, one.uname, one.gname) for one in found.values()} == {
        (0, 0, 0, "", "")
    }
    assert (found["b"].isdir(), found["b"].mode) == (True, 0o755)
    assert (found["b/a"].issym(), found["b/a"].linkname) == (True, "c")
    assert (found["b/c"].size, found["b/c"].mode) == (1, 0o755)


def test_of_two_entries_with_one_path_the_later_counts(tmp_path: Path) -> None:
    write_layer(tmp_path / "layer", [folder("tmp"), file("a", b"1"), folder("tmp", 0o1777), file("a", b"22")])
    found = members(tmp_path / "layer")
    assert (found["tmp"].mode, found["a"].size) == (0o1777, 2)


def test_a_tree_is_taken_with_links_and_modes_and_without_what_is_left_out(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "dev" / "sub").mkdir(parents=True)
    (root / "dev" / "sub" / "x").touch()
    (root / "bin").mkdir()
    (root / "bin" / "run").write_bytes(b"#!")
    (root / "bin" / "run").chmod(0o4755)
    (root / "bin" / "again").symlink_to("run")
    (root / "sbin").symlink_to("bin")
    os.mkfifo(root / "pipe")
    write_layer(tmp_path / "layer", tree(root, "usr", leave_out=["dev"]))
    found = members(tmp_path / "layer")
    assert list(found) == ["usr", "usr/bin", "usr/bin/again", "usr/bin/run", "usr/dev", "usr/sbin"]
    assert found["usr/bin/run"].mode == 0o4755
    assert (found["usr/bin/again"].linkname, found["usr/sbin"].linkname) == ("run", "bin")


def test_the_same_content_gives_the_same_bytes(tmp_path: Path) -> None:
    def archived(name: str, order: Callable[[list[str]], list[str]]) -> bytes:
        root = tmp_path / name
        root.mkdir()
        for path in order(["a", "b" * 120, "ü"]):
            (root / path).write_text(path)
            os.utime(root / path, (len(name), len(name)))
        layer = write_layer(tmp_path / f"{name}.layer", tree(root))
        write_archive(tmp_path / f"{name}.tar", "docker.io/x/y:1", "amd64", Config(), [layer])
        return (tmp_path / f"{name}.tar").read_bytes()

    assert archived("one", list) == archived("three", lambda names: names[::-1])


def test_an_archive_is_an_oci_layout_whose_digests_are_right(tmp_path: Path) -> None:
    layers = [write_layer(tmp_path / name, [file(name, name.encode())]) for name in ("low", "high")]
    config = Config(("run", "-v"), ("now",), {"B": "2", "A": "1"}, "1:2", "/work")
    write_archive(tmp_path / "x.tar", "docker.io/x/y:1", "arm64", config, layers)
    found = contents(tmp_path / "x.tar")
    assert list(found) == sorted(found)
    assert json.loads(found["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}

    def blob(descriptor: dict[str, Any]) -> bytes:
        content = found["blobs/" + descriptor["digest"].replace(":", "/")]
        assert descriptor["size"] == len(content)
        assert descriptor["digest"] == "sha256:" + hashlib.sha256(content).hexdigest()
        return content

    (entry,) = json.loads(found["index.json"])["manifests"]
    assert entry["annotations"] == {"io.containerd.image.name": "docker.io/x/y:1"}
    assert entry["platform"] == {"architecture": "arm64", "os": "linux"}
    manifest = json.loads(blob(entry))
    written = json.loads(blob(manifest["config"]))
    assert written["config"] == {
        "Cmd": ["now"],
        "Entrypoint": ["run", "-v"],
        "Env": ["A=1", "B=2"],
        "User": "1:2",
        "WorkingDir": "/work",
    }
    assert written["rootfs"]["diff_ids"] == [layer["digest"] for layer in manifest["layers"]]
    assert [list(members_of(blob(layer))) for layer in manifest["layers"]] == [["low"], ["high"]]
    assert len(found) == 2 + 2 + 2  # layout and index, manifest and config, two layers: nothing else


def members_of(layer: bytes) -> Tar:
    with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
        return {member.name: member for member in tar}


# ── building ────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_image_is_built_once_and_its_name_tells_its_content(cache: Path) -> None:
    lines: list[str] = []
    place = build.image_path("busybox", lines.append)
    before = place.stat().st_ino
    assert build.image_path("busybox", lines.append).stat().st_ino == before
    assert len(lines) == 1
    assert place.parent == cache / "images"
    name = build.image_name("busybox")
    assert name == f"docker.io/stowplan/busybox:{place.stem.removeprefix('busybox-')}"
    assert json.loads(contents(place)["index.json"])["manifests"][0]["annotations"] == {
        "io.containerd.image.name": name
    }


def test_an_image_built_twice_has_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def built(name: str) -> bytes:
        monkeypatch.setenv("STOWPLAN_CACHE", str(tmp_path / name))
        return build.image_path("busybox", quiet).read_bytes()

    assert built("one") == built("two")


def test_what_an_image_is_made_of_decides_its_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = build.image_name("busybox")
    other = tmp_path / "busybox"
    other.write_bytes(b"another busybox")
    monkeypatch.setattr(catalogue, "_busybox", lambda: other)
    assert build.image_name("busybox") == before  # while this process runs
    build._layer_keys.cache_clear()
    assert build.image_name("busybox") != before


def layers_of(name: str) -> Tar:
    image = contents(build.image_path(name, quiet))
    manifest_digest = json.loads(image["index.json"])["manifests"][0]["digest"]
    manifest = json.loads(image["blobs/" + manifest_digest.replace(":", "/")])
    found: Tar = {}
    for layer in manifest["layers"]:
        found |= members_of(image["blobs/" + layer["digest"].replace(":", "/")])
    return found


def test_busybox_has_its_applets_and_what_programs_expect(cache: Path) -> None:
    found = layers_of("busybox")
    assert found["bin/sh"].linkname == found["usr/bin/awk"].linkname == "/bin/busybox"
    assert (found["bin/busybox"].isreg(), found["bin/busybox"].mode) == (True, 0o755)
    assert found["tmp"].mode == 0o1777
    assert {"etc/passwd", "etc/group", "root"} <= found.keys()
    assert cache.is_dir()


@pytest.mark.parametrize(("name", "program"), [("load", "bin/load"), ("pause", "pause")])
def test_our_programs_stand_executable_in_their_images(name: str, program: str) -> None:
    assert layers_of(name)[program].mode == 0o755


def test_every_image_has_a_start_and_runs_as_somebody_who_exists() -> None:
    for image in catalogue.IMAGES.values():
        assert image.config.entrypoint or image.config.command
        assert image.config.user in {"", catalogue.NOBODY}


def make_image(monkeypatch: pytest.MonkeyPatch, entries: Callable[..., list[Entry]]) -> None:
    recipe = catalogue.LayerRecipe(lambda: iter((b"x",)), entries)
    monkeypatch.setitem(catalogue.IMAGES, "broken", catalogue.Image("broken", Config(), (recipe,)))


def no_space(_scratch: Path, _report: Report) -> list[Entry]:
    raise OSError(28, "No space left on device")


def no_program(_scratch: Path, _report: Report) -> list[Entry]:
    raise MissingPrerequisite("no gcc")


@pytest.mark.parametrize(
    ("entries", "failure", "message"),
    [
        (no_space, ComponentFailed, r"^image broken could not be built: .*No space left on device$"),
        (no_program, MissingPrerequisite, r"^no gcc$"),
    ],
)
def test_a_failed_build_leaves_nothing(
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    entries: Callable[..., list[Entry]],
    failure: type[Exception],
    message: str,
) -> None:
    make_image(monkeypatch, entries)
    with pytest.raises(failure, match=message):
        build.image_path("broken", quiet)
    assert list((cache / "images").iterdir()) == []


@pytest.mark.parametrize("changes", [1, 2])
def test_an_image_whose_sources_change_meanwhile_is_built_as_they_are_then(
    cache: Path, monkeypatch: pytest.MonkeyPatch, changes: int
) -> None:
    moving_image(monkeypatch, changes)
    first = build.image_name("moving")
    place = build.image_path("moving", quiet)
    assert build.image_name("moving") != first
    assert list((cache / "images").iterdir()) == [place]
    assert place.stem.removeprefix("moving-") == build.image_name("moving").partition(":")[2]
    assert layers_of("moving")["state"].size == changes


def test_an_image_whose_sources_keep_changing_is_given_up(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moving_image(monkeypatch, changes=9)
    with pytest.raises(ComponentFailed, match=r"^image moving: what it is made of changed 3 times"):
        build.image_path("moving", quiet)
    assert list((cache / "images").iterdir()) == []


def moving_image(monkeypatch: pytest.MonkeyPatch, changes: int) -> None:
    """An image whose source grows by a byte while it is built, that many times."""
    source = [b""]

    def entries(_scratch: Path, _report: Report) -> list[Entry]:
        seen = source[0]
        source[0] = seen + b"x" if len(seen) < changes else seen
        return [file("state", seen)]

    recipe = catalogue.LayerRecipe(lambda: iter(source), entries)
    monkeypatch.setitem(catalogue.IMAGES, "moving", catalogue.Image("moving", Config(), (recipe,)))


def test_too_little_space_is_told_before_building(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "FREE_BYTES_TO_BUILD", 1 << 62)
    with pytest.raises(MissingPrerequisite, match=rf"GB free at {cache}/images, building images takes"):
        build.image_path("busybox", quiet)


def test_only_the_most_recently_used_versions_stay(tmp_path: Path) -> None:
    now_s = time.time()
    for number in range(6):
        (tmp_path / f"x-{number}.tar").touch()
        os.utime(tmp_path / f"x-{number}.tar", (0, now_s - 4000 - number))
    (tmp_path / "y-0.tar").touch()
    (tmp_path / "x-9").mkdir()
    os.utime(tmp_path / "x-9", (0, 0))
    upkeep.keep_newest(tmp_path, "x-*", kept=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x-0.tar", "x-1.tar", "y-0.tar"]


def test_progress_leaves_stdout_to_the_shell(cache: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert build.image_path("busybox").is_file()
    out, err = capfd.readouterr()
    assert (out, err.startswith("image busybox: ")) == ("", True)
    assert cache.is_dir()


def test_what_a_killed_build_left_goes_with_the_next(cache: Path) -> None:
    for name, age_s in (("dead", 4000), ("alive", 0)):
        half = cache / "images" / f"{upkeep.HALF}{name}"
        half.mkdir(parents=True)
        (half / "layer").touch()
        os.utime(half, (0, time.time() - age_s))
    build.image_path("busybox", quiet)
    assert [path.name for path in (cache / "images").glob(f"{upkeep.HALF}*")] == [".half-alive"]


def test_what_was_used_a_moment_ago_stays(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"x-{number}").touch()
    upkeep.keep_newest(tmp_path, "x-*", kept=1)
    assert len(list(tmp_path.iterdir())) == 3


# ── compiled programs ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("int main(void) { return x; }", "error: .x. undeclared"),
        ("int main(void) { int x; }", "unused variable"),
    ],
)
def test_a_program_that_does_not_compile_cleanly_is_one_line(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: str, said: str
) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "main.c").write_text(source)
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    with pytest.raises(ComponentFailed, match=said) as failure:
        compiled.compiled_program("broken", within=tmp_path)
    assert "\n" not in str(failure.value)
    assert not any(path.is_file() for path in (cache / "images").rglob("*"))


def test_a_static_program_needs_no_library() -> None:
    for name in compiled.PROGRAMS:
        told = subprocess.run(
            ["ldd", compiled.compiled_program(name)], capture_output=True, text=True, check=False
        )
        assert "not a dynamic executable" in told.stderr


# ── prerequisites ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("program", "package", "needing"),
    [
        ("gcc", "gcc libc6-dev", lambda: build.image_path("pause", quiet)),
        ("busybox", "busybox-static", lambda: build.image_path("busybox", quiet)),
        ("containerd", "containerd", lambda: store.prepared_store(["busybox"], quiet)),
    ],
)
def test_a_missing_program_is_named_with_its_package(
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    program: str,
    package: str,
    needing: Callable[[], object],
) -> None:
    which = compiled.shutil.which
    monkeypatch.setattr("shutil.which", lambda name: None if name == program else which(name))
    with pytest.raises(
        MissingPrerequisite, match=rf"^no {program} on this machine: apt-get install {package} "
    ):
        needing()
    assert cache_folder() == cache


def test_a_missing_debootstrap_is_named(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    which = compiled.shutil.which
    monkeypatch.setattr("shutil.which", lambda name: None if name == "debootstrap" else which(name))
    monkeypatch.setattr("os.geteuid", lambda: 0)
    with pytest.raises(
        MissingPrerequisite, match=r"^no debootstrap on this machine: apt-get install debootstrap"
    ):
        base.base_system(quiet)
    assert not cache.exists()


@pytest.mark.parametrize(
    "needing", [lambda: base.base_system(quiet), lambda: store.prepared_store(["busybox"], quiet)]
)
def test_without_root_the_line_says_so(
    cache: Path, monkeypatch: pytest.MonkeyPatch, needing: Callable[[], object]
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(MissingPrerequisite, match=r"^not root: .* by root"):
        needing()
    assert not list(cache.rglob("*.tar"))


def test_the_mirror_is_the_one_of_the_release_and_its_main_component() -> None:
    lines = (
        "http://a.test/tools/\tbookworm-tools\tmain\tamd64",
        "http://a.test/other/\tbookworm\tnon-free\tamd64",
        "http://a.test/debian/\tbookworm\tmain\tamd64",
        "http://b.test/debian/\tbookworm\tmain\tamd64",
    )
    chosen = mirror.choose("\n".join(lines) + "\n", "bookworm")
    assert chosen == mirror.Mirror("http://a.test/debian/", "bookworm", "amd64")


def test_a_release_that_apt_does_not_know_is_named() -> None:
    with pytest.raises(MissingPrerequisite, match=r"^apt has no list of packages of trixie.*apt-get update$"):
        mirror.choose("http://a.test/debian/\tbookworm\tmain\tamd64\n", "trixie")


def test_a_machine_without_a_release_name_is_told_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "os-release").write_text("NAME=Something\n")
    for described in (tmp_path / "os-release", tmp_path / "not-there"):
        with pytest.raises(MissingPrerequisite, match=f"^{described} names no VERSION_CODENAME"):
            mirror.release(described)


# ── the wheel ───────────────────────────────────────────────────────────────────────────────────────────────


def test_the_wheel_is_known_by_its_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "src" / "stowplan"
    (package / "__pycache__").mkdir(parents=True)
    (tmp_path / "requirements").mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", "requirements/build.lock", "src/stowplan/a.py"):
        (tmp_path / name).write_text(name)
    monkeypatch.setattr(wheel, "CHECKOUT", tmp_path)

    before = list(wheel.wheel_parts())
    (package / "__pycache__" / "a.pyc").touch()
    assert list(wheel.wheel_parts()) == before
    (package / "a.py").write_text("changed")
    assert list(wheel.wheel_parts()) != before


def test_a_layer_knows_its_digest(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"layer")
    assert Layer(tmp_path / "x").digest == hashlib.sha256(b"layer").hexdigest()
    assert archive.Layer(tmp_path / "x").size_bytes == 5
