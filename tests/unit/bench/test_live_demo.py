"""What the live demo submits and shows."""

from bench.live.demo import COLD, RUNS, table_of, workflows
from bench.live.trials import KUBE_SCHEDULER, Trial
from stowplan.simulate.data import load_demo_recordings
from testbed.argo.batch import EndedWorkflow


def test_every_task_and_dependency_of_the_recordings_is_in_the_workflows() -> None:
    recordings = load_demo_recordings()
    made = workflows()
    assert len(made) == sum(RUNS.values())
    for run in RUNS:
        tasks, edges = recordings[run]
        submitted = made[f"{run.partition('-')[0]}-1"]["spec"]["templates"][0]["dag"]["tasks"]
        assert len(submitted) == len(tasks)
        assert sum(len(task.get("dependencies", ())) for task in submitted) == len(edges)


def _trial(scheduler: str, completions_s: dict[str, float]) -> Trial:
    ended = tuple(
        EndedWorkflow(instance=name, name=name, phase="Succeeded", created_s=100.0, finished_s=100.0 + took_s)
        for name, took_s in completions_s.items()
    )
    return Trial(scheduler=scheduler, began_s=100.0, workflows=ended, pods=())


def test_each_kind_has_a_row_with_the_change_against_the_first() -> None:
    table = table_of(
        {
            KUBE_SCHEDULER: _trial(KUBE_SCHEDULER, {"bwa-1": 100.0, "bwa-2": 60.0, "mag-1": 40.0}),
            COLD: _trial("stowplan", {"bwa-1": 50.0, "bwa-2": 70.0, "mag-1": 44.0}),
        }
    )
    rows = {row[0].text: [(cell.text, cell.verdict) for cell in row[1:]] for row in table.rows}
    assert rows == {
        "bwa": [("80", ""), ("60 (-25%)", "good")],
        "mag": [("40", ""), ("44 (+10%)", "bad")],
        "all, mean": [("67", ""), ("55 (-18%)", "good")],
        "until the last ended": [("100", ""), ("70 (-30%)", "good")],
    }


def test_a_table_needs_no_second_column() -> None:
    (row, *_) = table_of({KUBE_SCHEDULER: _trial(KUBE_SCHEDULER, {"bwa-1": 10.0})}).rows
    assert [cell.text for cell in row] == ["bwa", "10"]
