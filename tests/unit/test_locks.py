"""The locks say what the project file asks for, with hashes, without hosts, and agree with one another."""

import re
import tomllib
from pathlib import Path

import pytest

LOCKS = ("base", "serve", "build", "dev", "learn")
NOT_FOR_SERVING = {"numba", "llvmlite", "polars", "polars-runtime-32", "plotly"}
PINNED = re.compile(r"^(?P<name>[a-z0-9-]+)==(?P<version>[^ ;]+)", re.MULTILINE)
NAME = re.compile(r"^[A-Za-z0-9-]+")


def pins(repository: Path, lock: str) -> dict[str, str]:
    text = (repository / "requirements" / f"{lock}.lock").read_text(encoding="utf-8")
    return {match["name"]: match["version"] for match in PINNED.finditer(text)}


@pytest.mark.parametrize("lock", LOCKS)
def test_every_pin_has_a_hash_and_no_host_is_named(repository: Path, lock: str) -> None:
    text = (repository / "requirements" / f"{lock}.lock").read_text(encoding="utf-8")
    entries = re.split(r"\n(?=[a-z])", text)[1:]
    assert len(entries) == len(pins(repository, lock)) > 0
    assert all("--hash=sha256:" in entry for entry in entries)
    assert "://" not in text
    assert "index-url" not in text


@pytest.mark.parametrize("lock", ["serve", "build", "dev", "learn"])
def test_locks_agree_on_versions(repository: Path, lock: str) -> None:
    base, other = pins(repository, "base"), pins(repository, lock)
    differing = {name for name in base.keys() & other.keys() if base[name] != other[name]}
    assert differing == set()


def test_development_has_all_of_the_base(repository: Path) -> None:
    assert pins(repository, "base").keys() <= pins(repository, "dev").keys()


def test_serving_has_the_base_without_the_simulator(repository: Path) -> None:
    serve = pins(repository, "serve").keys()
    assert serve.isdisjoint(NOT_FOR_SERVING)
    asked = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))
    dependencies = asked["project"]["dependencies"]
    kept = {line for line in dependencies if NAME.findall(line)[0] not in NOT_FOR_SERVING}
    assert set(asked["dependency-groups"]["serve"]) == kept


def test_every_dependency_is_locked(repository: Path) -> None:
    asked = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = {
        "base": asked["project"]["dependencies"],
        "serve": asked["dependency-groups"]["serve"],
        "build": asked["dependency-groups"]["build"],
        "dev": asked["project"]["dependencies"] + asked["dependency-groups"]["dev"],
        "learn": asked["project"]["optional-dependencies"]["learn"],
    }
    for lock, lines in wanted.items():
        assert {NAME.findall(line)[0] for line in lines} <= pins(repository, lock).keys()


def test_torch_is_in_no_lock_but_that_of_its_tests(repository: Path) -> None:
    assert [lock for lock in LOCKS if "torch" in pins(repository, lock)] == ["learn"]
