"""Laws of others: small files in their formats, what they say, and what is refused."""

from pathlib import Path

import numpy as np
import pytest

from stowplan.errors import InvalidFile, InvalidInput, UnknownName
from stowplan.simulate.laws import (
    Job,
    MachineLaw,
    load_law,
    parse_colocations,
    parse_drift,
    parse_placements,
    parse_runs,
    parse_throughputs,
)

LOTARU = (
    "Label,Machine,Workflow,NumberSequences,Task,Realtime,%cpu,cpus,memory,peak_rss,read_bytes,write_bytes,"
    "TaskInputSize\n"
)


def run(machine: str, task: str, milliseconds: int, sequences: int = 1) -> str:
    return f"train,{machine},wf,{sequences},{task},{milliseconds},100,2,4e9,1e9,10,20,{sequences}\n"


def test_machine_factors_are_medians_of_matched_runs() -> None:
    text = LOTARU + "".join(
        run("local", "align", 1000 * n, n) + run("old", "align", 1000 * n * factor, n)
        for n, factor in ((2, 1), (3, 2), (4, 4))
    )
    law = MachineLaw.of(parse_runs(text, "f"))
    factor = law.factors["wf/align"]["old"]
    assert (factor.median, factor.low, factor.high, factor.pairs) == (2.0, 1.0, 4.0, 3)
    assert law.machine_factors("wf/align") == (("old", 2.0),)


def test_short_reference_runs_are_left_out_and_unmeasured_tasks_are_typical() -> None:
    text = (
        LOTARU
        + run("local", "a", 2000)
        + run("old", "a", 3000)
        + run("local", "b", 900)
        + run("old", "b", 9000)
    )
    text += run("local", "c", 2000, 5) + run("new", "c", 1000, 5)
    law = MachineLaw.of(parse_runs(text, "f"))
    assert set(law.factors) == {"wf/a", "wf/c"}
    assert law.machine_factors("wf/b") == (("new", 0.5), ("old", 1.5))
    assert law.machine_factors("wf/a") == (("new", 0.5), ("old", 1.5))
    assert law.typical("old") == 1.5
    with pytest.raises(UnknownName, match="machine type 'odl'; did you mean 'old'"):
        law.typical("odl")


def test_the_reference_machine_must_be_there() -> None:
    with pytest.raises(UnknownName, match="reference machine 'local'"):
        MachineLaw.of(parse_runs(LOTARU + run("old", "a", 2000), "f"))


def test_a_folder_gives_the_machine_law_only(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(LOTARU + run("local", "a", 2000))
    (tmp_path / "b.csv").write_text(LOTARU + run("old", "a", 3000))
    law = load_law(tmp_path)
    assert isinstance(law, MachineLaw)
    assert law.machines == ("old",)
    (tmp_path / "c.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\nn,1,1,0,\n")
    with pytest.raises(InvalidFile, match=r"c\.csv is nodes of the openb GPU cluster .*name one file"):
        load_law(tmp_path)
    with pytest.raises(InvalidFile, match="which is a cluster; pass it as --cluster"):
        load_law(tmp_path / "c.csv")


def test_placements() -> None:
    law = parse_placements(
        "placement,local_bsz,step_time,sync_time\n2113,8,0.5,0.1\n", "x/bert-placements-aws.csv.gz"
    )
    (time,) = law.times
    assert (law.job, law.cluster, law.is_sync_in_step) == ("bert", "aws", True)
    assert (time.gpus_on, time.gpus, time.nodes, time.local_batch) == ((1, 1, 2, 3), 7, 4, 8)
    pipelined = parse_placements(
        "local_bsz,step_time,sync_time,placement\n1,0.1,0.3,8\n", "gpt-placements-rtx.csv"
    )
    assert not pipelined.is_sync_in_step


@pytest.mark.parametrize(
    "row", ["105,8,1,1", "1a,8,1,1", ",8,1,1", "1,0,1,1", "1,x,1,1", "1,8,-1,1", "1,8,nan,1", "1,8,1,"]
)
def test_unusable_placements_are_refused(row: str) -> None:
    with pytest.raises(InvalidFile, match=r"f: line 2: (placement|local_bsz|step_time|sync_time) is"):
        parse_placements(f"placement,local_bsz,step_time,sync_time\n{row}\n", "f")


THROUGHPUTS = """{
 "v100": {
  "('LM (batch size 5)', 1)": {"null": 10.0, "('ResNet (batch size 16)', 2)": [4.0, 6.0]},
  "('ResNet (batch size 16)', 2)": {"null": 8.0, "('LM (batch size 5)', 1)": [0, 0]}
 },
 "v100_unconsolidated": {"('LM (batch size 5)', 1)": {"null": 2.0}}
}"""


def test_throughputs() -> None:
    law = parse_throughputs(THROUGHPUTS, "f")
    lm, resnet = Job("LM (batch size 5)", 1), Job("ResNet (batch size 16)", 2)
    assert law.alone == {"v100": {lm: 10.0, resnet: 8.0}}
    assert law.pairs == {"v100": {(lm, resnet): (4.0, 6.0)}}  # zero means: does not fit
    assert law.spread_alone == {"v100": {lm: 2.0}}
    assert law.slowdowns("v100") == (0.4,)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("10.0", "-1.0", r"v100: .* has the rate -1\.0"),
        ("[4.0, 6.0]", "[4.0, -6.0]", r"has the rate \(4\.0, -6\.0\)"),
        ("10.0", "[1.0, 2.0]", r"one number alone, two in a pair"),
        ("[4.0, 6.0]", "4.0", r"one number alone, two in a pair"),
        ("10.0", '"fast"', r"is not a table of throughputs: Expected"),
        (
            '(\'LM (batch size 5)\', 1)": {"null": 10.0',
            'LM": {"null": 10.0',
            r"'LM' is no job; it must be written like",
        ),
        ('(\'LM (batch size 5)\', 1)": {"null": 10.0', '(\'LM\', 0)": {"null": 10.0', r"is no job"),
    ],
)
def test_unusable_throughputs_are_refused(old: str, new: str, message: str) -> None:
    assert old in THROUGHPUTS
    with pytest.raises(InvalidFile, match=message):
        parse_throughputs(THROUGHPUTS.replace(old, new, 1), "f")


LUCID = (
    "model1,dataset1,batchsize1,amp1,speed1,model2,dataset2,batchsize2,amp2,speed2,gpu_util,gmem_util,gmem\n"
)


def test_colocations() -> None:
    law = parse_colocations(
        LUCID + "A,d,8,0,1.0,B,e,16,1,0.8,30,20,500\nA,d,8,0,0.5,B,e,16,1,0.7,99,60,900\n", "f"
    )
    first = law.pairs[0]
    assert (first.first, first.second) == ("A/d/batch 8/full precision", "B/e/batch 16/mixed precision")
    assert first.mean_speed == pytest.approx(0.9)
    assert law.curve((0.5,)) == ((0.5, pytest.approx(0.9), 1), (1.0, pytest.approx(0.6), 1))
    with pytest.raises(InvalidInput, match=r"in the bin up to 0\.6; use wider bins"):
        law.curve()
    with pytest.raises(InvalidInput, match="must ascend"):
        law.curve((0.8, 0.5))


@pytest.mark.parametrize("row", ["A,d,8,0,0,B,e,16,1,0.8,30,20,500", "A,d,8,0,1,B,e,16,1,0.8,130,20,500"])
def test_unusable_colocations_are_refused(row: str) -> None:
    with pytest.raises(InvalidFile, match="f: line 2 has a speed of 0 or a utilisation above 100 %"):
        parse_colocations(LUCID + row + "\n", "f")


DRIFT = "value,runtime,starttime,VM_id\n"


def drift_rows(*values: float) -> str:
    return DRIFT + "".join(
        f"{value},1,2024-01-01 00:{index:02d}:00.0,{index}\n" for index, value in enumerate(values)
    )


def test_drift_is_relative_to_the_median_and_in_order_of_time() -> None:
    text = (
        DRIFT + "50,1,2024-01-01 00:02:00.0,0\n100,1,2024-01-01 00:00:00.0,1\n100,1,2024-01-01 00:01:00.5,2\n"
    )
    law = parse_drift(text, "a/mlc__d8s__mib_s.csv.gz")
    assert (law.benchmark, law.machine, law.unit) == ("mlc", "d8s", "mib_s")
    assert law.times_s.tolist() == [0.0, 60.5, 120.0]
    assert law.factors.tolist() == [1.0, 1.0, 0.5]
    assert law.degraded_share() == pytest.approx(1 / 3)
    assert law.degraded_levels(count=2) == (0.5, 0.5)


def test_a_latency_that_rises_is_a_capacity_that_falls() -> None:
    law = parse_drift(drift_rows(100, 100, 200), "latency__vm__ns.csv")
    assert law.factors.tolist() == [1.0, 1.0, 0.5]


def test_levels_ascend_and_need_something_degraded() -> None:
    law = parse_drift(drift_rows(*np.linspace(10, 100, 25), *[100] * 30), "b__vm__iops.csv")
    levels = law.degraded_levels(count=5)
    assert list(levels) == sorted(levels)
    assert all(0.1 <= level < 0.9 for level in levels)
    with pytest.raises(InvalidInput, match=r"0 of 3 measurements are below 0\.9"):
        parse_drift(drift_rows(100, 100, 100), "b__vm__iops.csv").degraded_levels()


@pytest.mark.parametrize(
    "row", ["0,1,2024-01-01 00:00:00.0,0", "x,1,2024-01-01 00:00:00.0,0", "1,1,yesterday,0"]
)
def test_unusable_drift_is_refused(row: str) -> None:
    with pytest.raises(InvalidFile, match=r"f: line 2: (value|starttime) is"):
        parse_drift(DRIFT + row + "\n", "f")
