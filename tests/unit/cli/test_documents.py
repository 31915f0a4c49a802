"""YAML as Kubernetes reads it. Expected values follow go-yaml v2 and encoding/json, not PyYAML."""

import io
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stowplan.cli.documents import parse_documents, read_documents
from stowplan.errors import InvalidFile


def only(text: str) -> Any:  # noqa: ANN401 (a document is any)
    """The one document of a text."""
    ((document, _),) = parse_documents(text, "f.yaml")
    return document


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("yes", True), ("No", False), ("on", True), ("OFF", False), ("y", True), ("N", False), ("true", True),
        ("yEs", "yEs"), ("'yes'", "yes"), ('"1"', "1"),
        ("2024-01-31", "2024-01-31"), ("2024-01-31T10:00:00Z", "2024-01-31T10:00:00Z"), ("1:30", "1:30"),
        ("12", 12), ("-5", -5), ("+7", 7), ("1_000", 1000), ("0644", 0o644), ("0o17", 15), ("0x1F", 31),
        ("0b101", 5), ("08", 8.0), ("1.5", 1.5), (".5", 0.5), ("1e3", 1000.0), ("1.", 1.0), ("500m", "500m"),
        ("1.2.3", "1.2.3"),
        ("~", None), ("null", None), ("", None), ("nullx", "nullx"), ("<<", "<<"), ("!!str 12", "12"),
        ("!!int 12", 12), ("99999999999999999999", 99999999999999999999),
    ],
)  # fmt: skip
def test_a_plain_word_has_the_type_that_kubernetes_gives_it(word: str, value: object) -> None:
    found = only(f"key: {word}\n")["key"]
    assert found == value
    assert type(found) is type(value)


def test_keys_become_text() -> None:
    assert only("yes: 1\n2: b\n1.5: c\n'~': d\n") == {"true": 1, "2": "b", "1.5": "c", "~": "d"}


def test_merge_keys_give_way_to_own_keys_and_to_earlier_ones() -> None:
    text = "a: &a {i: 1, j: 1}\nb: &b {i: 2, k: 2}\nc:\n  <<: [*a, *b]\n  j: 3\n"
    assert only(text)["c"] == {"i": 1, "j": 3, "k": 2}


def test_documents_carry_the_line_where_they_begin() -> None:
    assert parse_documents("a: 1\n---\n# nothing\n---\nb: 2\n", "f") == [({"a": 1}, "f:1"), ({"b": 2}, "f:5")]


def test_json_may_hold_tabs_and_several_documents() -> None:
    assert parse_documents('{"a":\t1}\n\n[2]\n', "f") == [({"a": 1}, "f:1"), ([2], "f:3")]


def test_a_flow_of_yaml_is_not_taken_for_broken_json() -> None:
    assert only("{a: yes, b: [1, 2]}") == {"a": True, "b": [1, 2]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: [1,\nc: 2}\n", r"f\.yaml:3: is not usable YAML"),
        ("kind: Pod\nspec:\n\tcontainers: []\n", r"f\.yaml:3: is not usable YAML"),
        ("a: 1\nb: 2\na: 3\n", r"f\.yaml:3: .*key 'a' is given twice"),
        ("true: 1\nyes: 2\n", r"f\.yaml:2: .*key 'true' is given twice"),
        ('{"a": 1,\n "a": 2}', r"f\.yaml: key 'a' is given twice"),
        ('{"a": 1,\n "b": [1, 2', r"f\.yaml:2: is not complete JSON"),
        ('{"a": NaN}', r"NaN is no number"),
        ("a: .inf\n", r"f\.yaml:1: .*no finite number"),
        ("a: !!timestamp 2024-01-01\n", r"f\.yaml:1: .*of the type 'timestamp'"),
        ("a: !python/object:os.system x\n", r"f\.yaml:1: .*of the type"),
        ("a: &a [*a]\n", r"f\.yaml:1: .*alias stands inside what it names"),
        ("? [a]\n: 1\n", r"f\.yaml:1: .*a key must be"),
        ("a:\n  <<: 1\n", r"f\.yaml:2: .*<< takes mappings"),
        ("", r"f\.yaml: holds no document"),
        ("# only a comment\n---\n", r"f\.yaml: holds no document"),
        ("[" * 50_000, r"f\.yaml:1: is nested too deeply"),
        ("- " * 50_000 + "1", r"f\.yaml:1: .*nesting depth"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text: str, message: str) -> None:
    with pytest.raises(InvalidFile, match=message):
        parse_documents(text, "f.yaml")


def test_aliases_cannot_write_out_to_gigabytes() -> None:
    bomb = "k0: &k0 [1,1,1,1,1,1,1,1,1,1]\n" + "".join(
        f"k{level}: &k{level} [{','.join([f'*k{level - 1}'] * 10)}]\n" for level in range(1, 10)
    )
    with pytest.raises(InvalidFile, match="aliases write out to more than"):
        parse_documents(bomb, "bomb.yaml")


class TestReading:
    def test_a_folder_stands_for_its_files_in_order_of_name(self, tmp_path: Path) -> None:
        (tmp_path / "sub").mkdir()
        texts = {
            "b.yaml": "b: 1",
            "a.json": '{"a": 1}',
            "sub/c.yml": "c: 1",
            ".x.yaml": "x: 1",
            "n.txt": "n: 1",
        }
        for name, text in texts.items():
            (tmp_path / name).write_text(text)
        assert [list(document) for document, _ in read_documents([str(tmp_path)])] == [["a"], ["b"], ["c"]]

    def test_standard_input(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"\xef\xbb\xbfa: 1\n")))
        assert list(read_documents(["-"])) == [({"a": 1}, "standard input:1")]

    def test_a_missing_file_and_an_empty_folder_are_named(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidFile, match=r"none\.yaml: cannot be read \(No such file"):
            list(read_documents([str(tmp_path / "none.yaml")]))
        with pytest.raises(InvalidFile, match=r"the folder holds no \.yaml, \.yml, \.json file"):
            list(read_documents([str(tmp_path)]))

    def test_bytes_that_are_no_text_are_named_with_their_line(self, tmp_path: Path) -> None:
        path = tmp_path / "f.yaml"
        path.write_bytes(b"a: 1\nb: \xff\xfe\n")
        with pytest.raises(InvalidFile, match=r"f\.yaml:2: is not text in UTF-8"):
            list(read_documents([str(path)]))
