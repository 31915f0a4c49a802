"""Results appear whole or not at all."""

from pathlib import Path

import pytest

from stowplan.errors import OutputError
from stowplan.simulate.report.folder import ResultFolder


def test_all_files_appear_together(tmp_path: Path) -> None:
    with ResultFolder(tmp_path / "a" / "b") as folder:
        paths = folder.publish(
            {"x": lambda path: path.write_text("1"), "y": lambda path: path.write_text("2")}
        )
    assert [path.read_text() for path in paths] == ["1", "2"]
    assert sorted(path.name for path in (tmp_path / "a" / "b").iterdir()) == ["x", "y"]


def test_a_writer_that_fails_leaves_earlier_results_as_they_were(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("old")

    def fails(path: Path) -> None:
        path.write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OutputError, match="No space left on device"), ResultFolder(tmp_path) as folder:
        folder.publish({"x": lambda path: path.write_text("new"), "y": fails})
    assert (tmp_path / "x").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_an_interrupt_while_writing_leaves_nothing(tmp_path: Path) -> None:
    def interrupted(path: Path) -> None:
        path.write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), ResultFolder(tmp_path / "new") as folder:
        folder.publish({"x": interrupted})
    assert list(tmp_path.iterdir()) == []


def test_folders_made_for_nothing_are_removed_and_others_stay(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    with pytest.raises(ValueError, match="anything"), ResultFolder(tmp_path / "kept" / "a" / "b"):
        raise ValueError("anything")
    assert list((tmp_path / "kept").iterdir()) == []


def test_a_folder_that_was_there_stays_even_if_empty(tmp_path: Path) -> None:
    with ResultFolder(tmp_path):
        pass
    assert tmp_path.is_dir()


@pytest.mark.parametrize("below", ["file", "file/below", "file/deeper/below"])
def test_what_cannot_be_written_is_refused_on_entry(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match=r"cannot write results to .*--out"), ResultFolder(tmp_path / below):
        pytest.fail("entered")
    assert (tmp_path / "file").read_text() == ""
