"""The load program: amounts are what was asked, its line tells the truth, bad input is refused."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from testbed.errors import MissingPrerequisite
from testbed.images import compiled_program

KIB, MIB = 1 << 10, 1 << 20
LOADS = ("cpu", "bandwidth", "page-cache", "disk", "network", "oom", "hold", "exit")


@dataclass(frozen=True)
class Ended:
    """A load that ended, and what the kernel says that it used."""

    code: int
    line: dict[str, Any]
    cpu_s: float


@pytest.fixture(scope="session")
def load() -> Path:
    try:
        return compiled_program("load")
    except MissingPrerequisite as missing:
        pytest.skip(str(missing))


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    """A folder that is not in memory: there pages cannot be dropped from the page cache."""
    kind = subprocess.run(
        ["stat", "--file-system", "--format=%T", tmp_path], capture_output=True, text=True, check=True
    )
    if kind.stdout.strip() in {"tmpfs", "ramfs"}:
        pytest.skip(f"{tmp_path} is in memory; name a folder on a disk with TMPDIR")
    return tmp_path


def run(load: Path, *arguments: object) -> Ended:
    """Run to the end, and read the one line."""
    return wait(start(load, *arguments))


def start(load: Path, *arguments: object) -> subprocess.Popen[str]:
    command = [str(load), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait(process: subprocess.Popen[str]) -> Ended:
    assert process.stdout is not None
    assert process.stderr is not None
    with process.stdout, process.stderr:
        said = process.stdout.read()
        assert said.count("\n") == 1, process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return Ended(process.returncode, json.loads(said), usage.ru_utime + usage.ru_stime)


def refused(load: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [load, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=10
    )


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def wait_until_working(process: subprocess.Popen[str], loaded_bytes: int = 0) -> None:
    """Wait until it has blocked the signals, which is the first thing it does, and has its memory."""
    for _ in range(500):
        status = Path(f"/proc/{process.pid}/status").read_text()
        blocked = next(line.split()[1] for line in status.splitlines() if line.startswith("SigBlk"))
        if int(blocked, 16) & 1 << (signal.SIGTERM - 1) and resident_bytes(process.pid) >= loaded_bytes:
            return
        time.sleep(0.002)
    raise AssertionError(f"{process.args} did not begin")


# ── arguments ───────────────────────────────────────────────────────────────────────────────────────────────


def test_help_names_every_load(load: Path) -> None:
    said = subprocess.run([load, "--help"], capture_output=True, text=True, check=True).stdout
    assert [line.split()[1] for line in said.splitlines() if line.startswith("  load ")] == list(LOADS)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((), "name a load"),
        (("spin",), "no such load"),
        (("cpu",), "one of --work or --seconds"),
        (("cpu", "--work", 1, "--seconds", 1), "only one of --work or --seconds"),
        (("cpu", "--work", 1, "--work", 1), "--work: given twice"),
        (("cpu", "--work"), "--work: needs a whole number"),
        (("cpu", "--work", 0), "--work 0: must be at least 1"),
        (("cpu", "--work", 1, "--threads", 0), "--threads 0: must be at least 1"),
        (("cpu", "--work", 1, "--threads", 1025), "--threads 1025: must be at most 1024"),
        (
            ("cpu", "--work", 1, "--colour", 1),
            "--colour: no such option; there are --threads --work --seconds",
        ),
        (("cpu", "work", 1), "work: not an option"),
        (("cpu", "--seconds", "-1"), "--seconds -1: must be a number of seconds"),
        (("cpu", "--seconds", "1s"), "--seconds 1s"),
        (("cpu", "--seconds", "nan"), "--seconds nan"),
        (("hold", "--bytes", "1M"), "--bytes 1M: must be a number of bytes, plain or with Ki, Mi or Gi"),
        (("hold", "--bytes", "-1"), "--bytes -1"),
        (("hold", "--bytes", " 1"), "--bytes  1"),
        (("hold", "--bytes", "1.5Gi"), "--bytes 1.5Gi"),
        (("hold", "--bytes", ""), "--bytes : must be"),
        (("hold", "--bytes", "18446744073709551616"), "--bytes 18446744073709551616"),
        (("hold", "--bytes", "18014398509481984Ki"), "--bytes 18014398509481984Ki"),
        (("hold",), "--bytes is missing"),
        (
            ("bandwidth", "--bytes", "64Ki", "--threads", 2, "--seconds", 1),
            "at least 65536 for each of 2 threads",
        ),
        (("page-cache", "--bytes", 1, "--seconds", 1), "--file is missing"),
        (("page-cache", "--file", "", "--bytes", 1, "--seconds", 1), "--file: is empty"),
        (
            ("page-cache", "--file", "/dev/null", "--bytes", 1, "--seconds", 1),
            "/dev/null: is not a regular file",
        ),
        (("disk", "--file", "x", "--bytes", 1), "one of --write or --read"),
        (("disk", "--file", "x", "--bytes", 1, "--read", "--fsync"), "--fsync: is for --write only"),
        (
            ("disk", "--file", "x", "--bytes", 1, "--read", "--direct", "--block-bytes", 1000),
            "--block-bytes 1000: must be a multiple of 4096 with --direct",
        ),
        (("network", "--seconds", 1), "one of --connect or --serve"),
        (
            ("network", "--connect", "localhost:1", "--bytes", 1),
            "--connect localhost:1: must be ADDRESS:PORT",
        ),
        (("network", "--connect", "127.0.0.1:65536", "--bytes", 1), "--connect 127.0.0.1:65536"),
        (("network", "--connect", "127.0.0.1", "--bytes", 1), "--connect 127.0.0.1"),
        (("network", "--connect", "::1:5", "--bytes", 1), "--connect ::1:5"),
        (("network", "--serve", "127.0.0.1:0", "--bytes", 1), "--bytes: is for --connect only"),
        (("network", "--connect", "127.0.0.1:1", "--bytes", 1, "--connections", 1), "is for --serve only"),
        (("exit", "--code", 256), "--code 256: must be at most 255"),
    ],
)
def test_a_bad_argument_is_refused_in_one_line(load: Path, arguments: Sequence[object], named: str) -> None:
    done = refused(load, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert named in done.stderr


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("page-cache", "--file", "/nowhere/x", "--bytes", 1, "--seconds", 1), "/nowhere/x: No such file"),
        (("disk", "--write", "--file", "/proc/x", "--bytes", 1), "/proc/x: No such file"),
        (("hold", "--bytes", 1 << 60), "cannot map 1152921504606846976 bytes: Cannot allocate memory"),
        (
            ("network", "--connect", "127.0.0.1:1", "--bytes", 1, "--patience-seconds", 0),
            "cannot connect to 127.0.0.1:1: Connection refused",
        ),
    ],
)
def test_what_the_system_refuses_is_told_in_one_line(
    load: Path, arguments: Sequence[object], named: str
) -> None:
    done = refused(load, *arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert named in done.stderr


@pytest.mark.parametrize(("text", "number"), [("5000", 5000), ("8Ki", 8 * KIB), ("1Mi", MIB), ("0Gi", 0)])
def test_sizes_have_binary_suffixes(load: Path, text: str, number: int) -> None:
    ended = run(load, "hold", "--bytes", text, "--seconds", 0)
    assert ended.line["asked"]["bytes"] == ended.line["amount"] == number


def test_a_path_with_quotes_stays_one_json_string(load: Path, tmp_path: Path) -> None:
    path = tmp_path / 'a "quoted"\\path\nof two lines'
    ended = run(load, "disk", "--write", "--file", path, "--bytes", 1)
    assert ended.line["asked"]["file"] == str(path)


# ── CPU ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_cpu_work_is_the_same_computation_however_many_threads(load: Path) -> None:
    def least_cpu_s(units: int, threads: int) -> float:
        ended = [run(load, "cpu", "--work", units, "--threads", threads) for _ in range(2)]
        assert all(one.line["amount"] == units and one.line["ended_by"] == "work" for one in ended)
        return min(one.cpu_s for one in ended)

    single, double, shared = least_cpu_s(4, 1), least_cpu_s(8, 1), least_cpu_s(8, 3)
    assert double == pytest.approx(2 * single, rel=0.35)
    # Two threads on the halves of one physical core share its multiplier, so each may take twice as long.
    assert 0.7 * double < shared < 2.6 * double


def test_cpu_seconds_in_the_line_are_those_that_the_kernel_counts(load: Path) -> None:
    ended = run(load, "cpu", "--seconds", 0.08, "--threads", 2)
    told_s = ended.line["cpu_user_s"] + ended.line["cpu_system_s"]
    assert ended.line["ended_by"] == "time"
    # The kernel counts the program's end too, which takes some milliseconds, more on a busy machine.
    assert 0.6 * ended.cpu_s <= told_s <= ended.cpu_s + 0.01
    assert told_s <= 2 * ended.line["wall_s"] + 0.01
    assert 0.08 <= ended.line["wall_s"] < 0.6


# ── memory ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_bandwidth_moves_what_was_asked_on_a_working_set_of_that_size(load: Path) -> None:
    ended = run(load, "bandwidth", "--bytes", "12Mi", "--threads", 2, "--work-bytes", "50000001")
    assert ended.line["amount"] == 50_000_016  # whole elements of 24 bytes
    assert 12 * MIB <= ended.line["peak_resident_bytes"] < 14 * MIB
    assert ended.line["amount_per_s"] == pytest.approx(50_000_016 / ended.line["wall_s"], rel=0.01)


def test_bandwidth_tells_whether_its_working_set_fits_the_largest_cache(load: Path) -> None:
    line = run(load, "bandwidth", "--bytes", "64Ki", "--work-bytes", 24).line
    if "largest_cache_bytes" not in line:
        pytest.skip("this system does not tell the sizes of its caches in /sys/devices/system/cpu")
    assert line["exceeds_largest_cache"] is (line["largest_cache_bytes"] < 64 * KIB)


def test_hold_keeps_its_size_resident(load: Path) -> None:
    process = start(load, "hold", "--bytes", "20Mi", "--seconds", 0.1)
    wait_until_working(process, 20 * MIB)
    held_bytes = resident_bytes(process.pid)
    ended = wait(process)
    assert (ended.line["amount"], ended.line["ended_by"]) == (20 * MIB, "time")
    assert 20 * MIB <= held_bytes < 22 * MIB


def test_oom_grows_step_by_step_to_its_limit(load: Path) -> None:
    started_s = time.monotonic()
    ended = run(load, "oom", "--bytes", "10Mi", "--step", "3Mi", "--step-seconds", 0.02)
    assert time.monotonic() - started_s >= 4 * 0.02
    assert ended.line["amount"] == 10 * MIB
    assert 10 * MIB <= ended.line["peak_resident_bytes"] < 12 * MIB


# ── files ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_page_cache_reads_again_and_again_from_memory(load: Path, storage: Path) -> None:
    ended = run(load, "page-cache", "--file", storage / "x", "--bytes", "1Mi", "--work-bytes", 10_000_001)
    assert (storage / "x").stat().st_size == MIB
    assert ended.line["amount"] == 10_000_001
    assert ended.line["storage_read_bytes"] == 0


def test_page_cache_with_evict_reads_every_pass_from_storage(load: Path, storage: Path) -> None:
    arguments = ("--file", storage / "x", "--bytes", "1Mi", "--work-bytes", "5Mi", "--evict")
    ended = run(load, "page-cache", *arguments)
    assert ended.line["amount"] == 5 * MIB
    assert 5 * MIB <= ended.line["storage_read_bytes"] < 6 * MIB


def test_page_cache_reads_as_much_as_the_kernel_counts(load: Path, storage: Path) -> None:
    process = start(load, "page-cache", "--file", storage / "x", "--bytes", "64Ki", "--seconds", 60)
    wait_until_working(process)
    counted_bytes = 0
    while counted_bytes < 20 * MIB:
        counted_bytes = int(Path(f"/proc/{process.pid}/io").read_text().split()[1])
    process.terminate()
    ended = wait(process)
    assert ended.line["amount"] >= counted_bytes - MIB
    assert ended.line["ended_by"] == "signal"


@pytest.mark.parametrize("direct", [(), ("--direct",)])
@pytest.mark.parametrize("file_bytes", [1, 4096, 3 * MIB + 5])
def test_disk_writes_the_size_that_was_asked(
    load: Path, storage: Path, direct: Sequence[str], file_bytes: int
) -> None:
    arguments = ("--file", storage / "x", "--bytes", file_bytes, "--block-bytes", "1Mi", "--fsync", *direct)
    ended = run(load, "disk", "--write", *arguments)
    assert (storage / "x").stat().st_size == ended.line["amount"] == file_bytes
    assert file_bytes <= ended.line["storage_written_bytes"] < file_bytes + 64 * KIB
    assert (storage / "x").stat().st_blocks * 512 >= file_bytes  # no holes


@pytest.mark.parametrize("direct", [(), ("--direct",)])
def test_disk_reads_from_storage_what_was_asked(load: Path, storage: Path, direct: Sequence[str]) -> None:
    file_bytes = 3 * MIB + 5
    ended = run(load, "disk", "--read", "--file", storage / "x", "--bytes", file_bytes, *direct)
    assert ended.line["amount"] == file_bytes
    assert file_bytes <= ended.line["storage_read_bytes"] < file_bytes + 512 * KIB


@pytest.mark.parametrize("direct", [(), ("--direct",)])
@pytest.mark.parametrize(("work_bytes", "size_bytes"), [(9 * KIB, 9 * KIB), (100 * KIB, 20 * KIB)])
def test_disk_work_beyond_the_file_starts_again_from_its_beginning(
    load: Path, storage: Path, direct: Sequence[str], work_bytes: int, size_bytes: int
) -> None:
    arguments = (
        "--file",
        storage / "x",
        "--bytes",
        "20Ki",
        "--block-bytes",
        "8Ki",
        "--work-bytes",
        work_bytes,
    )
    ended = run(load, "disk", "--write", *arguments, *direct)
    assert ended.line["amount"] == work_bytes
    assert (storage / "x").stat().st_size == size_bytes


def test_what_a_file_needs_first_is_not_counted_as_work(load: Path, storage: Path) -> None:
    ended = run(load, "disk", "--read", "--direct", "--file", storage / "x", "--bytes", "2Mi")
    assert ended.line["storage_written_bytes"] < MIB  # the file was written before
    assert ended.line["setup_s"] > 0


# ── network ─────────────────────────────────────────────────────────────────────────────────────────────────


def listening(load: Path, *arguments: object) -> tuple[subprocess.Popen[str], int]:
    server = start(load, "network", "--serve", "127.0.0.1:0", *arguments)
    assert server.stderr is not None
    return server, int(server.stderr.readline().split()[-1])


def test_every_byte_sent_is_received(load: Path) -> None:
    server, port = listening(load, "--connections", 2)
    sender = start(load, "network", "--connect", f"127.0.0.1:{port}", "--bytes", 3_000_001)
    other = run(load, "network", "--connect", f"127.0.0.1:{port}", "--bytes", "2Mi")
    assert (wait(sender).line["amount"], other.line["amount"]) == (3_000_001, 2 * MIB)
    received = wait(server)
    assert (received.line["amount"], received.line["ended_by"]) == (3_000_001 + 2 * MIB, "work")


def test_a_sender_waits_for_a_receiver_that_comes_later(load: Path) -> None:
    first, port = listening(load)
    first.terminate()
    wait(first)
    sender = start(load, "network", "--connect", f"127.0.0.1:{port}", "--bytes", 1)
    time.sleep(0.03)
    server = start(load, "network", "--serve", f"127.0.0.1:{port}", "--connections", 1)
    assert wait(sender).line["amount"] == wait(server).line["amount"] == 1


def test_a_sender_whose_receiver_dies_says_so(load: Path) -> None:
    server, port = listening(load)
    sender = start(load, "network", "--connect", f"127.0.0.1:{port}", "--seconds", 60)
    time.sleep(0.03)
    server.kill()
    server.communicate()
    said, complaint = sender.communicate(timeout=10)
    assert (sender.returncode, said) == (1, "")
    assert f"127.0.0.1:{port}" in complaint


# ── the end ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "arguments",
    [
        ("cpu", "--work", "1Gi", "--threads", 4),
        ("bandwidth", "--bytes", "2Mi", "--seconds", 60),
        ("page-cache", "--file", "FILE", "--bytes", "1Mi", "--seconds", 60),
        ("disk", "--write", "--file", "FILE", "--bytes", "1Mi", "--seconds", 60, "--direct"),
        ("network", "--serve", "127.0.0.1:0"),
        ("oom", "--bytes", "1Gi", "--step", 1, "--step-seconds", 60),
        ("hold", "--bytes", 0),
        ("exit", "--code", 0, "--seconds", 60),
    ],
    ids=LOADS,
)
def test_sigterm_ends_every_load_at_once_with_its_line(
    load: Path, tmp_path: Path, arguments: Sequence[object]
) -> None:
    process = start(load, *(tmp_path / "x" if word == "FILE" else word for word in arguments))
    wait_until_working(process)
    process.terminate()
    told_s = time.monotonic()
    ended = wait(process)
    assert time.monotonic() - told_s < 1.0
    assert (ended.code, ended.line["ended_by"], ended.line["load"]) == (143, "signal", arguments[0])


def test_sigint_ends_a_load_too(load: Path) -> None:
    process = start(load, "hold", "--bytes", 0)
    wait_until_working(process)
    process.send_signal(signal.SIGINT)
    assert wait(process).code == 130


@pytest.mark.parametrize("arguments", [("cpu", "--seconds", 0), ("hold", "--bytes", 1, "--seconds", 0)])
def test_no_time_at_all_ends_at_once(load: Path, arguments: Sequence[object]) -> None:
    ended = run(load, *arguments)
    assert (ended.code, ended.line["ended_by"]) == (0, "time")


@pytest.mark.parametrize("code", [0, 1, 255])
def test_exit_ends_with_the_code_that_was_asked(load: Path, code: int) -> None:
    ended = run(load, "exit", "--code", code)
    assert (ended.code, ended.line["ended_by"], ended.line["amount"]) == (code, "work", 1)


def test_a_load_whose_output_nobody_reads_still_ends(load: Path) -> None:
    process = start(load, "hold", "--bytes", 0)
    wait_until_working(process)
    assert process.stdout is not None
    process.stdout.close()
    process.terminate()
    assert process.wait(10) in {143, -signal.SIGPIPE}
    assert process.stderr is not None
    process.stderr.close()
