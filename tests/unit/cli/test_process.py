"""What whoever started the process sees: exit codes, one line of complaint, whole tables in pipes."""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import stowplan
from stowplan.cli import process, terminal
from stowplan.cli.process import run
from stowplan.errors import InvalidFile
from stowplan.simulate.report.table import Cell, Column, Table

STOWPLAN = Path(sys.executable).parent / "stowplan"


def started(*arguments: str, **options: object) -> "subprocess.CompletedProcess[str]":
    """Run the installed console script."""
    return subprocess.run([STOWPLAN, *arguments], capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload]


def stub(monkeypatch: pytest.MonkeyPatch, action: Callable[[], object]) -> None:
    """Put `action` in the place of all commands."""

    def app(arguments: Sequence[str], **options: object) -> object:
        del arguments, options
        return action()

    monkeypatch.setattr(process, "app", app)


@pytest.mark.parametrize("argument", ["version", "--version"])
def test_version(argument: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([argument]) == 0
    assert capsys.readouterr().out == f"{stowplan.__version__}\n"


def test_policies_are_listed_with_what_they_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["policies"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["policy", "what", "it", "does"]
    assert lines[2].startswith("kube-scheduler  ")
    assert not any(line.endswith(" ") for line in lines)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["simulat"], "No such command 'simulat'"),
        (["policies", "--wat"], "No such option: --wat"),
        (["simulate", "--seeds", "3"], "Missing option '--cluster'"),
        (["demo", "--seeds", "three"], "Invalid value for '--seeds'"),
        (["feasible", "-f", "x", "-o", "xml"], "Invalid value for '--output'"),
    ],
)
def test_a_command_line_that_cannot_be_used(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("error: ")
    assert complaint in err
    assert "--help" in err


def test_an_error_of_ours_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise InvalidFile("f.yaml: is\nempty; give a file with content")

    stub(monkeypatch, fail)
    assert run([]) == 2
    assert capsys.readouterr().err == "error: f.yaml: is empty; give a file with content\n"


def test_a_defect_shows_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    stub(monkeypatch, fail)
    with pytest.raises(ZeroDivisionError):
        run([])


def test_without_numba_or_polars_it_is_said_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise ModuleNotFoundError(name="polars.dataframe")

    stub(monkeypatch, fail)
    assert run([]) == 2
    assert "needs polars.dataframe" in capsys.readouterr().err


def test_another_missing_module_is_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise ModuleNotFoundError(name="stowplan.cli.nothing")

    stub(monkeypatch, fail)
    with pytest.raises(ModuleNotFoundError):
        run([])


def test_an_interrupt_ends_with_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise KeyboardInterrupt

    stub(monkeypatch, fail)
    assert run([]) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_help_imports_nothing_heavy() -> None:
    script = (
        "import sys\nfrom stowplan.cli import process\nassert process.run(['--help']) == 0\n"
        "print([name for name in ('numpy', 'numba', 'polars', 'plotly') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_serving_installation_answers_what_is_feasible_and_says_what_simulate_needs(
    repository: Path,
) -> None:
    examples = repository / "examples"
    simulate = ["simulate", "-c", "c", "-w", "w", "-p", "srpt", "--out", "o"]
    script = (
        "import sys\nfrom stowplan.cli.process import run\n"
        "for name in ('numba', 'llvmlite', 'polars', 'plotly'):\n    sys.modules[name] = None\n"
        f"assert run(['feasible', '-f', {str(examples / 'objects.yaml')!r}]) == 0\n"
        f"assert run(['policies']) == 0\nassert run({simulate!r}) == 2\nassert run(['demo']) == 2\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "lab/plain: 1 of 3 nodes can take it" in done.stdout
    assert done.stderr.count("install requirements/base.lock in place of requirements/serve.lock") == 2


def test_without_arguments_there_is_help() -> None:
    done = started()
    assert "\nCommands:\n" in done.stdout
    assert done.returncode == 0


def test_a_closed_pipe_is_no_traceback() -> None:
    # The reader is gone before a byte is written, so that the outcome does not depend on buffers.
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(
        [STOWPLAN, "policies"], stdout=write_end, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(write_end)
    assert done.stderr == ""
    assert done.returncode == 1


def test_what_a_pipe_cannot_encode_is_replaced() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = started("policies", env=environment)
    assert done.returncode == 0
    assert "kube-scheduler" in done.stdout


class TestTables:
    TABLE = Table(
        "A title",
        (Column("name", holds_words=True), Column("number"), Column("words", holds_words=True)),
        [
            (Cell("a"), Cell("1.5", "good"), Cell("long words " * 30)),
            (Cell("[b]"), Cell("22.5", "bad"), Cell("x")),
        ],
        "A caption.",
    )

    def test_a_pipe_gets_everything_uncut_and_without_colour(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        terminal.show_table(self.TABLE)
        out = capsys.readouterr().out
        assert ("long words " * 30).strip() in out
        assert "\x1b" not in out
        assert "…" not in out
        lines = out.splitlines()
        assert lines[0] == "A title"
        assert lines[3].split()[:2] == ["a", "1.5"]
        assert lines[4].split() == ["[b]", "22.5", "x"]
        assert lines[5] == "A caption."

    @pytest.mark.parametrize("no_color", [False, True])
    def test_a_terminal_gets_folded_words_and_colour_if_wanted(
        self, no_color: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        monkeypatch.setenv("COLUMNS", "60")
        monkeypatch.setenv("TERM", "xterm-256color")
        if no_color:
            monkeypatch.setenv("NO_COLOR", "1")
        else:
            monkeypatch.delenv("NO_COLOR", raising=False)
        terminal.show_table(self.TABLE)
        out = capsys.readouterr().out
        assert ("\x1b[32m" in out) is not no_color
        assert ("\x1b" in out) is not no_color
        assert out.replace("\n", " ").count("long") == 30
        if no_color:
            assert max(map(len, out.splitlines())) <= 60
