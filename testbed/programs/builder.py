"""Building the programs: each once per content of what it is made of, and never half a program in the cache.

`~/.cache/stowplan/programs/NAME-VERSION-HASH/NAME` is complete or absent: a program is built beside its place
and renamed into it. The hash covers go.mod and go.sum (which name every module and its checksum), our own
sources, the flags and the version of Go; whatever changes one of these asks for a new build and leaves the
old one.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from testbed.cache import cache_folder, content_hash, exclusively
from testbed.errors import ComponentFailed, MissingPrerequisite
from testbed.programs import go
from testbed.programs.catalogue import PROGRAMS, Program

# Seen for all nine, from nothing: 6.6 GB in Go's build cache, 4.0 GB of modules, 1.0 GB of programs.
FREE_BYTES_PER_PROGRAM = 1_300_000_000
SECONDS_BETWEEN_PROGRESS_LINES = 20.0

Report = Callable[[str], None]


def program_path(name: str) -> Path:
    """Where the program of that name stands in the cache.

    Raises:
        MissingPrerequisite: It is not built.
    """
    path = _place(PROGRAMS[name])
    if not path.is_file():
        raise MissingPrerequisite(
            f"{name} is not built yet: make programs (builds the test cluster's programs)"
        )
    return path


def is_built(name: str) -> bool:
    """Whether the program of that name stands in the cache."""
    return _place(PROGRAMS[name]).is_file()


def build(names: Iterable[str] = (), report: Report = print) -> dict[str, float]:
    """Build the named programs (all, where none is named) that are not in the cache yet.

    A second builder on the machine waits for the first and then finds its programs.

    Args:
        names: Names of the catalogue.
        report: Takes one line of progress at a time.

    Returns:
        Seconds per program that was built now.

    Raises:
        MissingPrerequisite: No Go, too old a Go, or no disk space.
        ComponentFailed: A program did not build; the message is one line and names the log with all of it.
    """
    wanted = [PROGRAMS[name] for name in (tuple(names) or PROGRAMS)]
    took_s: dict[str, float] = {}
    if all(_place(program).is_file() for program in wanted):
        return took_s
    with exclusively("programs"):
        missing = [program for program in wanted if not _place(program).is_file()]
        for number, program in enumerate(missing, start=1):
            _check_space(FREE_BYTES_PER_PROGRAM * (len(missing) - number + 1))
            start = time.monotonic()
            place = _build(program, report, f"[{number}/{len(missing)}] {program.name} {program.version}")
            took_s[program.name] = time.monotonic() - start
            size_mb = place.stat().st_size / 1e6
            report(
                f"[{number}/{len(missing)}] {program.name}: {size_mb:.0f} MB in {took_s[program.name]:.0f} s"
            )
    return took_s


def module_folder(program: Program, module: str) -> Path:
    """The unpacked source of a module that the program's go.mod pins, for the manifests that it carries."""
    path, _ = go.go_command()
    go.output([path, "mod", "download", module], program.module_folder)
    return Path(go.output([path, "list", "-m", "-f", "{{.Dir}}", module], program.module_folder).strip())


def _place(program: Program) -> Path:
    key = content_hash(_parts(program))
    return cache_folder() / "programs" / f"{program.name}-{program.version}-{key}" / program.name


def _parts(program: Program) -> Iterator[bytes]:
    _, go_version = go.go_command()
    yield go_version.encode()
    yield repr(sorted(go.ENVIRONMENT.items())).encode()
    yield repr((program.package, _flags(program))).encode()
    for path in program.sources():
        yield str(path.relative_to(program.module_folder)).encode()
        yield path.read_bytes()


def _flags(program: Program) -> list[str]:
    stamps = " ".join(f"-X {variable}={value}" for variable, value in program.stamped.items())
    return ["-trimpath", "-ldflags", f"-s -w {stamps}".strip()]


def _build(program: Program, report: Report, title: str) -> Path:
    path, _ = go.go_command()
    place = _place(program)
    place.parent.mkdir(parents=True, exist_ok=True)
    log = place.parent / "build.log"
    module_flags: list[str] = []
    if program.patched_module is not None:
        report(f"{title}: patching {program.patched_module}")
        module_flags = [f"-modfile={_patched(program, program.patched_module)}"]
    report(f"{title}: listing its packages (downloads modules the first time)")
    listed = go.output([path, "list", *module_flags, "-deps", program.package], program.module_folder)
    total = listed.count("\n")
    half = place.with_suffix(".half")
    command = [path, "build", "-v", *module_flags, *_flags(program), "-o", str(half), program.package]
    compiled, told = 0, time.monotonic()
    try:
        for _ in go.lines(command, program.module_folder, log):
            compiled += 1
            if time.monotonic() - told > SECONDS_BETWEEN_PROGRESS_LINES:
                told = time.monotonic()
                report(f"{title}: compiled {compiled} packages, {total} in all with those compiled before")
    except ComponentFailed as failure:
        raise ComponentFailed(f"{program.name} {program.version} did not build: {failure}") from failure
    half.rename(place)
    return place


def _patched(program: Program, module: str) -> Path:
    """Copy a module out of Go's read-only cache, lay our files over it, and write a go.mod that points there.

    Go checked the module against go.sum when it was downloaded; the other modules stay pinned as they were.
    """
    path, _ = go.go_command()
    source = module_folder(program, module)
    key = content_hash(_parts(program))
    copy = cache_folder() / "patched" / key
    if not copy.is_dir():
        half = copy.with_suffix(".half")
        shutil.rmtree(half, ignore_errors=True)
        shutil.copytree(source, half)
        subprocess.run(["chmod", "-R", "u+w", str(half)], check=True)
        shutil.copytree(program.module_folder / "patch", half, dirs_exist_ok=True)
        half.rename(copy)
    modfile = copy.parent / f"{key}.mod"
    shutil.copy(program.module_folder / "go.mod", modfile)
    shutil.copy(program.module_folder / "go.sum", modfile.with_suffix(".sum"))
    go.output([path, "mod", "edit", f"-replace={module}={copy}", str(modfile)], program.module_folder)
    return modfile


def _check_space(needed_bytes: int) -> None:
    for folder in {cache_folder(), Path(os.environ.get("GOCACHE") or Path.home() / ".cache" / "go-build")}:
        existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
        free_bytes = shutil.disk_usage(existing).free
        if free_bytes < needed_bytes:
            raise MissingPrerequisite(
                f"{free_bytes / 1e9:.1f} GB free at {existing}, building the test cluster's programs takes "
                f"{needed_bytes / 1e9:.0f} GB: free some, or name another place with STOWPLAN_CACHE"
            )
