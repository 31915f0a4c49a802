"""Building the programs: what a build depends on, and what is said when one cannot be made."""

import shutil
import subprocess
from pathlib import Path

import pytest

from testbed.errors import ComponentFailed, MissingPrerequisite
from testbed.programs import PROGRAMS, Program, build, builder, go, go_command, is_built, program_path

HELLO = 'package main\n\nimport "fmt"\n\nfunc main() { fmt.Println("hello") }\n'


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("STOWPLAN_CACHE", str(folder))
    return folder


@pytest.fixture
def hello(own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """A program of one file, in the catalogue for this test."""
    if shutil.which("go") is None:
        pytest.skip("no Go on this machine: the test cluster is built from source")
    assert not own_cache.exists()
    folder = tmp_path / "module"
    folder.mkdir()
    (folder / "go.mod").write_text("module example.test/hello\n\ngo 1.26.0\n")
    (folder / "go.sum").write_text("")
    (folder / "main.go").write_text(HELLO)
    program = Program("hello", "1.0", folder, "./")
    monkeypatch.setitem(PROGRAMS, "hello", program)
    return program


def test_a_program_is_built_once_and_again_only_when_what_it_is_made_of_changes(hello: Program) -> None:
    assert not is_built("hello")
    assert set(build(["hello"], report=lambda _: None)) == {"hello"}
    first = program_path("hello")
    assert subprocess.run([first], capture_output=True, text=True, check=True).stdout == "hello\n"
    assert build(["hello"], report=lambda _: None) == {}

    (hello.module_folder / "main.go").write_text(HELLO.replace("hello", "good day"))
    assert not is_built("hello")
    build(["hello"], report=lambda _: None)
    assert program_path("hello") != first
    assert first.exists(), "the earlier program stays, for a checkout that still wants it"


def test_a_program_that_does_not_build_is_one_line_with_its_log_and_leaves_nothing_that_looks_built(
    hello: Program,
) -> None:
    (hello.module_folder / "main.go").write_text(HELLO.replace("fmt.Println", "fmt.Printnl"))
    with pytest.raises(ComponentFailed) as failure:
        build(["hello"], report=lambda _: None)
    said = str(failure.value)
    assert said.startswith("hello 1.0 did not build: ")
    assert "fmt.Printnl" in said
    assert "\n" not in said
    log = Path(said.rpartition("(all of it: ")[2].removesuffix(")"))
    assert "fmt.Printnl" in log.read_text()
    assert not is_built("hello")


def test_a_full_disk_is_told_apart_from_a_program_that_is_wrong(tmp_path: Path) -> None:
    noisy = ["sh", "-c", "echo 'write /x: no space left on device'; exit 1"]
    with pytest.raises(MissingPrerequisite, match=r"the disk is full .*free some space"):
        list(go.lines(noisy, tmp_path, tmp_path / "log"))


@pytest.mark.usefixtures("hello")
def test_too_little_space_is_said_before_anything_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**12, 10**12, 10**6))
    with pytest.raises(MissingPrerequisite, match=r"0\.0 GB free at .*takes 1 GB: free some"):
        build(["hello"], report=lambda _: None)
    assert not is_built("hello")


@pytest.mark.usefixtures("own_cache")
def test_without_go_the_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    go_command.cache_clear()
    try:
        with pytest.raises(MissingPrerequisite, match=r"no Go on this machine: .*install Go 1\.26 or newer"):
            build(["etcd"], report=lambda _: None)
    finally:
        go_command.cache_clear()


@pytest.mark.usefixtures("own_cache")
def test_a_go_that_is_too_old_is_named_with_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tmp_path / "bin" / "go"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho go1.21.3\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", f"{old.parent}:/usr/bin:/bin")
    go_command.cache_clear()
    try:
        with pytest.raises(MissingPrerequisite, match=r"Go here is go1\.21\.3, .* needs 1\.26 or newer"):
            build(["etcd"], report=lambda _: None)
    finally:
        go_command.cache_clear()


def test_every_program_is_pinned_by_a_checksum_of_its_module() -> None:
    for program in PROGRAMS.values():
        pinned = (program.module_folder / "go.mod").read_text()
        sums = (program.module_folder / "go.sum").read_text()
        assert program.version in pinned or f"v0.{program.version.partition('.')[2]}" in pinned
        assert f"v{program.version} h1:" in sums


def test_the_parts_of_a_build_are_all_in_its_place(hello: Program) -> None:
    places = {builder._place(hello)}
    for change in ("go.mod", "go.sum", "main.go"):
        with (hello.module_folder / change).open("a") as file:
            file.write("// changed\n")
        places.add(builder._place(hello))
    assert len(places) == 4
