"""What follows from the configuration alone: policies, rules with the node pool, whose pods are ours."""

from pathlib import Path

import pytest

from stowplan.core.constraints import NO_RULES
from stowplan.core.domain import (
    ClusterState,
    Node,
    NodeSet,
    PendingTask,
    Phase,
    PodShape,
    Resources,
    Task,
    Workflow,
    WorkflowProgress,
    WorkProfile,
    freeze_labels,
)
from stowplan.core.lookahead import LookAhead, Timed
from stowplan.errors import InvalidInput
from stowplan.kube.api.status import SchedulingStatus
from stowplan.kube.live.pod import LivePod, MainContainer
from stowplan.kube.plan import GATE
from stowplan.registry import write_release
from stowplan.serve.config import Config, load_config
from stowplan.serve.parts import make_engine, make_policies, rules_with_pool, selection, setup_of
from stowplan.serve.scheduler.interface import Mode
from stowplan.serve.scheduler.settings import SchedulerSettings
from stowplan.serve.sections import LookAheadConfig, SchedulerConfig
from tests.learned_cases import random_release


def pod(scheduler_name: str = "default-scheduler", gates: tuple[str, ...] = ()) -> LivePod:
    return LivePod(
        key="lab/a",
        namespace="lab",
        name="a",
        uid="u",
        shape=PodShape(scheduler_name=scheduler_name, scheduling_gates=gates),
        phase="Pending",
        node_name="",
        is_terminating=False,
        created_s=0.0,
        started_s=None,
        status=SchedulingStatus(),
        reason="",
        message="",
        can_preempt=True,
        owner=None,
        identity=None,
        main=MainContainer("image", (), 0, 0),
    )


@pytest.mark.parametrize(
    ("mode", "named", "gated", "other"),
    [
        (Mode.BINDER, True, False, False),
        (Mode.GATE, False, True, False),
        (Mode.EXTENDER, False, True, False),
        (Mode.SHADOW, True, True, True),
    ],
)
def test_each_mode_has_its_pods(mode: Mode, *, named: bool, gated: bool, other: bool) -> None:
    is_ours = selection(SchedulerConfig(mode=mode, name="stowplan"))
    assert is_ours(pod("stowplan")) == named
    assert is_ours(pod(gates=(GATE,))) == gated
    assert is_ours(pod()) == other
    assert is_ours(pod(gates=("somebody.example/gate",))) == other


def test_a_node_pool_keeps_all_other_nodes_out() -> None:
    config = SchedulerConfig(node_pool={"pool": "batch"})
    state = ClusterState()
    for name, labels in (("in", {"pool": "batch"}), ("out", {"pool": "web"}), ("unlabelled", {})):
        resources = Resources({"cpu": 4000, "memory": 1 << 30, "pods": 10})
        state.apply(NodeSet(Node(name, resources, labels=freeze_labels(labels))))
    filters = make_engine(config, state, setup_of(config, NO_RULES)).filters_of(PodShape())
    assert [name for name, row in state.rows() if filters.feasible[row]] == ["in"]
    assert filters.counts() == {"RuleTable": 2}


def test_without_a_pool_the_rules_stay_as_they_are() -> None:
    assert rules_with_pool(SchedulerConfig(), NO_RULES) is NO_RULES


def test_a_policy_that_does_not_exist_is_named_with_the_nearest() -> None:
    with pytest.raises(InvalidInput, match=r"scheduler.policy: unknown policy 'srtp'.*'srpt'"):
        make_policies(SchedulerConfig(policy="srtp"))


def test_look_ahead_is_around_the_policy_with_its_options_and_never_twice() -> None:
    options = {"solved_nodes": 4}
    config = SchedulerConfig(
        policy="srpt-physics",
        policy_options=options,
        look_ahead=LookAheadConfig(alternatives=("kube-scheduler", "srpt-physics")),
    )
    setup = setup_of(config, NO_RULES)
    assert setup.policy == "look-ahead"
    assert setup.options == {
        "policy": "srpt-physics",
        "options": options,
        "alternatives": ["kube-scheduler"],
    }
    engine = make_engine(config, ClusterState(), setup)
    assert isinstance(engine.policy, LookAhead)
    assert isinstance(engine.policy.make_budget(), Timed)


def test_without_look_ahead_the_policy_decides_itself() -> None:
    config = SchedulerConfig(policy="srpt", look_ahead=LookAheadConfig(enable=False))
    setup = setup_of(config, NO_RULES)
    assert (setup.policy, setup.options) == ("srpt", {})
    assert make_engine(config, ClusterState(), setup).policy.name == "srpt"


def test_no_fallback_can_be_wished_for() -> None:
    assert make_policies(SchedulerConfig(fallback=""))[1] is None


def learning(folder: Path, *, fallback: str = "srpt", looks_ahead: bool = True) -> SchedulerConfig:
    return SchedulerConfig(
        policy="learned",
        policy_options={"model": str(folder)},
        fallback=fallback,
        look_ahead=LookAheadConfig(enable=looks_ahead),
    )


@pytest.mark.parametrize("looks_ahead", [True, False])
def test_a_release_is_pinned_by_its_digest_in_records(tmp_path: Path, *, looks_ahead: bool) -> None:
    write_release(random_release(), tmp_path / "model")
    config = learning(tmp_path / "model", looks_ahead=looks_ahead)
    setup = setup_of(config, NO_RULES)
    pinned = {"model": str(tmp_path / "model"), "digest": random_release().digest}
    assert (setup.options["options"] if looks_ahead else setup.options) == pinned
    engine = make_engine(config, ClusterState(), setup)
    assert engine.policy.name == ("look-ahead" if looks_ahead else "learned")


@pytest.mark.parametrize("looks_ahead", [True, False])
def test_without_its_model_the_fallback_decides_and_says_so(tmp_path: Path, *, looks_ahead: bool) -> None:
    config = learning(tmp_path / "none", looks_ahead=looks_ahead)
    state = ClusterState()
    state.apply(NodeSet(Node("n", Resources({"cpu": 4000, "memory": 1 << 30, "pods": 10}))))
    engine = make_engine(config, state, setup_of(config, NO_RULES))
    task = Task("t", PodShape(), WorkProfile((Phase(1.0),)), 1.0)
    progress = WorkflowProgress("w", Workflow("w", (task,)), 0.0)
    report = engine.cycle(0.0, [PendingTask("w/t", progress, index, 0.0) for index in progress.start()])
    assert len(report.placed) == 1
    assert report.degraded is not None
    assert report.degraded.used_instead == "srpt"
    assert report.degraded.reason.startswith(f"there is no release of a model at {tmp_path / 'none'}")


def test_without_model_and_fallback_nothing_starts(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"scheduler\.policy: there is no release of a model at"):
        make_policies(learning(tmp_path / "none", fallback=""))


def test_the_guide_has_every_setting_with_its_default(repository: Path) -> None:
    page = (repository / "docs" / "LIVE.md").read_text(encoding="utf-8")
    for path, default in settings(load_config()):
        assert f"| `{path}` | {default} |" in page, f"docs/LIVE.md lacks {path} with its default"


def test_the_guide_says_how_often_conditions_are_written(repository: Path) -> None:
    page = (repository / "docs" / "LIVE.md").read_text(encoding="utf-8")
    times = SchedulerSettings()
    for name, said in (
        ("status_refresh_s", f"at most every {times.status_refresh_s:g} s"),
        ("status_counts_s", f"at most every {times.status_counts_s / 60:g} min"),
        ("status_retry_s", f"after {times.status_retry_s:g} s"),
    ):
        assert f"{said} (`{name}`)" in page, f"docs/LIVE.md lacks {name}"


def settings(config: Config) -> list[tuple[str, str]]:
    """Return every setting of the scheduler with its default as the guide writes it."""
    found: list[tuple[str, str]] = []

    def walk(value: object, path: str) -> None:
        if isinstance(value, dict) and value:
            for name, item in value.items():
                walk(item, f"{path}.{name}" if path else name)
        elif value is None or value in ("", [], {}):
            found.append((path, "–"))
        else:
            found.append((path, f"`{str(value).lower() if isinstance(value, bool) else value}`"))

    walk(config.model_dump(mode="json"), "")
    return found
