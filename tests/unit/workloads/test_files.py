"""What cannot be read is refused in one line that names the file, what is wrong and what to do."""

import gzip
from pathlib import Path

import pytest

from stowplan.errors import InvalidFile
from stowplan.simulate.clusters import load_cluster
from stowplan.simulate.files import data_files, file_stem, parse_csv, parse_json, parse_yaml, read_text
from stowplan.simulate.laws import load_law
from stowplan.simulate.workloads import load_workload


def test_plain_and_gzip_are_told_apart_by_content(tmp_path: Path) -> None:
    plain, packed = tmp_path / "a.gz", tmp_path / "b.txt"
    plain.write_text("héllo\n", encoding="utf-8")
    packed.write_bytes(gzip.compress("héllo\n".encode()))
    assert read_text(plain) == read_text(packed) == "héllo\n"


def test_a_byte_order_mark_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "bom.csv"
    path.write_bytes(b"\xef\xbb\xbfsn,gpu\n")
    assert read_text(path) == "sn,gpu\n"


def _truncated(packed: bytes) -> bytes:
    return packed[: len(packed) // 2]


def _damaged(packed: bytes) -> bytes:
    middle = len(packed) // 2
    return packed[:middle] + bytes([packed[middle] ^ 0xFF]) + packed[middle + 1 :]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"x\.gz: is empty; give a file with content"),
        (b" \n\t", r"x\.gz: is empty"),
        (gzip.compress(b"", mtime=0), r"x\.gz: is empty"),
        (
            _truncated(gzip.compress(bytes(range(256)) * 50)),
            r"x\.gz: the gzip data ends too early; .*fetch it again",
        ),
        (_damaged(gzip.compress(bytes(range(256)) * 50)), r"x\.gz: the gzip data is damaged"),
        (b"\xff\xfe\x00bad", r"x\.gz: is not text in UTF-8 \(byte 0\)"),
        (b'{"workflow": {"tasks": [', r"x\.gz: is not complete JSON .*truncated or damaged"),
        (b"a: 1\na: 2\n", r"x\.gz:2: is not usable YAML \(key 'a' is given twice\); repair it"),
        (b"a: [1\n", r"x\.gz:2: is not usable YAML"),
        (
            b"just some words\n",
            r"x\.gz: its content is of no known format\. Known are .*wfformat.*openb-pods",
        ),
        (b"a,b,c\n1,2,3\n", r"x\.gz: its content is of no known format"),
        (b"<html><p>hello</p></html>", r"x\.gz: its content is of no known format"),
        (b"[1, 2, 3]", r"x\.gz: its content is of no known format"),
        (b'"text"', r"x\.gz: its content is of no known format"),
    ],
)
def test_unusable_content_is_refused_by_every_loader(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "x.gz"
    path.write_bytes(content)
    for load in (load_workload, load_cluster, load_law):
        with pytest.raises(InvalidFile, match=message):
            load(path)


def test_a_missing_path_is_refused(tmp_path: Path) -> None:
    for load in (load_workload, load_cluster, load_law):
        with pytest.raises(InvalidFile, match="nowhere: no such file"):
            load(tmp_path / "nowhere")


def test_a_folder_where_a_file_is_needed(tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match="is a folder where a file is needed"):
        read_text(tmp_path)


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("words")
    (tmp_path / ".hidden").write_text("words")
    for load in (load_workload, load_cluster, load_law):
        with pytest.raises(InvalidFile, match="folder without data files"):
            load(tmp_path)


def test_data_files_are_sorted_and_deep(tmp_path: Path) -> None:
    for name in ("b/z.csv", "a/y.csv", "c.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    assert [path.name for path in data_files(tmp_path)] == ["y.csv", "z.csv", "c.csv"]


@pytest.mark.parametrize(
    ("name", "stem"),
    [("a/b/trace.csv.gz", "trace"), ("x.json", "x"), ("plain", "plain"), ("a.b.json", "a.b"), (".rc", ".rc")],
)
def test_file_stem(name: str, stem: str) -> None:
    assert file_stem(name) == stem


def test_csv_with_a_short_line_is_refused() -> None:
    with pytest.raises(InvalidFile, match="f: line 3 has 1 fields, the header 2; the file is truncated"):
        parse_csv("a,b\n1,2\n3\n", "f", needs=("a",))


def test_csv_without_rows_or_columns_is_refused() -> None:
    with pytest.raises(InvalidFile, match="has a header but no rows"):
        parse_csv("a,b\n", "f", needs=("a",))
    with pytest.raises(InvalidFile, match="has no column 'c'; its columns are a, b"):
        parse_csv("a,b\n1,2\n", "f", needs=("c",))


def test_csv_keeps_quoted_separators() -> None:
    assert parse_csv('a,b\n"1,5",2\n', "f", needs=("a",)) == [{"a": "1,5", "b": "2"}]


def test_json_nan_is_no_json() -> None:
    with pytest.raises(InvalidFile, match="is not complete JSON"):
        parse_json('{"a": NaN}', "f")


def test_yaml_documents() -> None:
    assert parse_yaml("a: 1\n---\n---\nb: [2]\n", "f") == [{"a": 1}, {"b": [2]}]
    with pytest.raises(InvalidFile, match="holds no YAML document"):
        parse_yaml("# nothing\n", "f")
    with pytest.raises(InvalidFile, match="a key must be a plain word"):
        parse_yaml("? [a]\n: 1\n", "f")
    with pytest.raises(InvalidFile, match="not usable YAML"):
        parse_yaml("a: !!python/object:os.system {}\n", "f")


def test_deep_nesting_is_refused_not_crashed() -> None:
    with pytest.raises(InvalidFile, match=r"nested too deeply|not usable YAML"):
        parse_yaml("[" * 20000, "f")
