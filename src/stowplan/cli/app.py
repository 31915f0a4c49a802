"""The commands of `stowplan` and their options."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from stowplan import __version__
from stowplan.cli.decisions import explain, replay
from stowplan.cli.options import Output, OutputFormat
from stowplan.cli.services import config_app, serve_app, status
from stowplan.cli.terminal import write

__all__ = ["app"]

app = typer.Typer(
    name="stowplan",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

app.add_typer(serve_app, name="serve")
app.add_typer(config_app, name="config")
app.command()(status)
app.command()(explain)
app.command()(replay)

_DEFAULT_OUT = Path("out")


class PlanOutput(StrEnum):
    """What `plan` writes to standard output."""

    YAML = "yaml"
    PATCH = "patch"
    WHY = "why"


class PlanMode(StrEnum):
    """How Stowplan acts on pods (`stowplan.kube.plan.Mode`)."""

    BINDER = "binder"
    GATE = "gate"
    EXTENDER = "extender"


class TemplateReferencing(StrEnum):
    """What Argo's controller demands of workflows (`stowplan.kube.plan.Referencing`)."""

    NONE = "none"
    STRICT = "strict"
    SECURE = "secure"


def _show_version(is_asked: bool) -> None:
    if is_asked:
        write(__version__)
        raise typer.Exit


@app.callback()
def main(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_show_version, help="Say which version this is."),
    ] = False,
) -> None:
    """Place the tasks of cloud workflows on Kubernetes nodes by what the hardware is really doing."""
    del version  # its callback has answered


@app.command()
def demo(
    *,
    out: Annotated[
        Path, typer.Option("--out", "-O", metavar="DIR", help="Where the results are written.")
    ] = _DEFAULT_OUT / "demo",
    seeds: Annotated[
        int, typer.Option("--seeds", metavar="N", help="How many runs of each policy, seeds 1 to N.")
    ] = 4,
    processes: Annotated[
        int | None,
        typer.Option("--processes", metavar="P", help="Runs at a time; as many as there are cores."),
    ] = None,
) -> None:
    """Compare placement policies on real workflow runs.

    Replays recorded executions of scientific workflows (genomics first) on a simulated cluster under
    kube-scheduler and under better policies, shows what each gains and why, and writes a report.
    """
    from stowplan.cli.demo import run_demo

    raise typer.Exit(run_demo(out=out, seeds=seeds, processes=processes))


@app.command()
def simulate(
    *,
    cluster: Annotated[
        Path,
        typer.Option(
            "--cluster", "-c", metavar="FILE", help="The machines: Stowplan YAML or any supported file."
        ),
    ],
    workload: Annotated[
        Path,
        typer.Option(
            "--workload",
            "-w",
            metavar="PATH",
            help="What runs: Stowplan YAML, or any supported file or folder.",
        ),
    ],
    policies: Annotated[
        list[str],
        typer.Option(
            "--policy",
            "-p",
            metavar="NAME",
            help="A policy to run; repeat to compare. See `stowplan policies`.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-O", metavar="DIR", help="Where the results are written.")],
    seeds: Annotated[
        int, typer.Option("--seeds", metavar="N", help="How many runs of each policy, seeds 1 to N.")
    ] = 5,
    policy_options: Annotated[
        list[str] | None,
        typer.Option(
            "--policy-option",
            metavar="POLICY.NAME=VALUE",
            help="What a policy is told, for example learned.model=models/mine; repeat for more.",
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option("--baseline", metavar="NAME", help="What the others are compared with; else the first."),
    ] = None,
    arrivals: Annotated[
        str,
        typer.Option(
            "--arrivals",
            metavar="HOW",
            help="recorded, at-once, replay[:SPEED], poisson:GAP_S or burst:GAP_S:START_S:LENGTH_S[:FACTOR].",
        ),
    ] = "recorded",
    copies: Annotated[int, typer.Option("--copies", metavar="N", help="Run every workflow N times.")] = 1,
    rules: Annotated[
        Path | None, typer.Option("--rules", metavar="FILE", help="The operator's rule table (YAML).")
    ] = None,
    faults: Annotated[
        Path | None,
        typer.Option("--faults", metavar="FILE", help="What breaks, when and for how long (YAML)."),
    ] = None,
    contention: Annotated[
        bool, typer.Option(help="Whether tasks on one machine slow each other down.")
    ] = True,
    interval_s: Annotated[
        float, typer.Option("--scheduling-interval", metavar="S", help="Seconds between cycles; 0: at once.")
    ] = 0.0,
    binding_s: Annotated[
        float, typer.Option("--binding", metavar="S", help="Seconds until the node knows of a placed task.")
    ] = 0.0,
    pod_startup_s: Annotated[
        float, typer.Option("--pod-startup", metavar="S", help="Seconds until a bound task runs.")
    ] = 0.0,
    processes: Annotated[
        int | None,
        typer.Option("--processes", metavar="P", help="Runs at a time; as many as there are cores."),
    ] = None,
) -> None:
    """Compare policies on your cluster and workload.

    Runs every policy under every seed, shows results and paired differences with 95 % intervals, and writes
    them as Parquet together with one self-contained HTML report.
    """
    from stowplan.cli.experiment import SimulationRequest, run_simulation

    request = SimulationRequest(
        cluster=cluster,
        workload=workload,
        policies=tuple(policies),
        policy_options=tuple(policy_options or ()),
        baseline=baseline,
        seeds=seeds,
        arrivals=arrivals,
        copies=copies,
        rules=rules,
        faults=faults,
        contention=contention,
        scheduling_interval_s=interval_s,
        binding_s=binding_s,
        pod_startup_s=pod_startup_s,
        processes=processes,
        out=out,
    )
    raise typer.Exit(run_simulation(request))


@app.command()
def feasible(
    *,
    files: Annotated[
        list[str],
        typer.Option(
            "--file",
            "-f",
            metavar="PATH",
            help="Kubernetes objects: a file, a folder, or - for standard input.",
        ),
    ],
    rules: Annotated[
        Path | None, typer.Option("--rules", metavar="FILE", help="The operator's rule table (YAML).")
    ] = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Say which nodes can take a pod, and why not the others.

    Reads plain Kubernetes objects (Nodes, Pods, PVs, PVCs, StorageClasses, CSINodes, Namespaces …) as
    `kubectl get -o yaml` writes them. Each pod is judged alone; nothing is bound between.
    """
    from stowplan.cli.feasible import report_feasible

    report_feasible(files, rules, as_json=output is OutputFormat.JSON)


@app.command()
def plan(
    *,
    files: Annotated[
        list[str],
        typer.Option(
            "--file",
            "-f",
            metavar="PATH",
            help="Argo objects: a file, a folder, or - for standard input. Give the templates that they "
            "refer to as well.",
        ),
    ],
    mode: Annotated[
        PlanMode, typer.Option("--mode", help="How Stowplan will act on the pods.")
    ] = PlanMode.BINDER,
    scheduler_name: Annotated[
        str,
        typer.Option(
            "--scheduler-name",
            metavar="NAME",
            help="The scheduler of the pods; in binder mode stowplan, else theirs.",
        ),
    ] = "",
    priority_classes: Annotated[
        list[str] | None,
        typer.Option(
            "--priority-class",
            metavar="NAME",
            help="A PriorityClass for ranks, in extender mode; repeat, the lowest first.",
        ),
    ] = None,
    requests: Annotated[
        str,
        typer.Option(
            "--requests",
            metavar="cpu=Q,memory=Q",
            help="What containers ask for that ask for nothing, or none.",
        ),
    ] = "cpu=100m,memory=128Mi",
    preferences: Annotated[
        list[str] | None,
        typer.Option(
            "--prefer",
            metavar="LABEL=VALUE,…[:WEIGHT]",
            help="Nodes that are preferred, by label; weight 1 to 100, else 50.",
        ),
    ] = None,
    referencing: Annotated[
        TemplateReferencing,
        typer.Option("--template-referencing", help="The controller's setting of that name."),
    ] = TemplateReferencing.NONE,
    allowed_fields: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-field",
            metavar="NAME",
            help="A field that the controller lets workflows set despite of it; repeat for more.",
        ),
    ] = None,
    history: Annotated[
        str,
        typer.Option(
            "--history", metavar="URL", help="The history that expected durations come from; else 60 s each."
        ),
    ] = "",
    output: Annotated[
        PlanOutput, typer.Option("--output", "-o", help="The objects, the JSON patches, or only the reasons.")
    ] = PlanOutput.YAML,
) -> None:
    """Write on workflows what helps to place their pods, and say why.

    Reads Workflows, WorkflowTemplates, ClusterWorkflowTemplates and CronWorkflows and sets the scheduler's
    name, ranks, missing requests and preferred nodes. What their authors set stays. Other kinds pass through.
    Comments are not kept. The reasons go to standard error.
    """
    from stowplan.cli.plan import PlanRequest, run_plan

    request = PlanRequest(
        files=files,
        mode=mode,
        scheduler_name=scheduler_name,
        priority_classes=priority_classes or (),
        requests=requests,
        preferences=preferences or (),
        referencing=referencing,
        allowed_fields=allowed_fields or (),
        history=history,
        output=output,
    )
    raise typer.Exit(run_plan(request))


@app.command()
def train(
    *,
    config: Annotated[
        Path, typer.Option("--config", "-c", metavar="FILE", help="The settings of the training, YAML.")
    ],
    out: Annotated[
        Path,
        typer.Option("--out", "-O", metavar="DIR", help="Where checkpoints and numbers are kept."),
    ],
    processes: Annotated[
        int | None,
        typer.Option("--processes", metavar="P", help="Rollouts at a time, else as the settings say."),
    ] = None,
) -> None:
    """Train the learned policy in simulation, or go on with a training that was stopped.

    Ctrl-C stops after the iteration under way; the same command goes on as if nothing had been. Needs the
    extra `learn`.
    """
    from stowplan.cli.learning import run_training

    raise typer.Exit(run_training(config=config, out=out, processes=processes))


@app.command()
def evaluate(
    *,
    checkpoint: Annotated[
        Path, typer.Option("--checkpoint", metavar="FILE", help="A checkpoint that training wrote.")
    ],
    split: Annotated[
        str, typer.Option("--split", metavar="NAME", help="Whose scenarios: test or validation.")
    ] = "test",
    scenarios: Annotated[
        int, typer.Option("--scenarios", metavar="N", help="How many scenarios are drawn.")
    ] = 20,
    policies: Annotated[
        list[str] | None,
        typer.Option("--policy", "-p", metavar="NAME", help="A policy to compare with; repeat for more."),
    ] = None,
    recordings: Annotated[
        Path | None,
        typer.Option("--recordings", metavar="DIR", help="Recorded workflows, else as in training."),
    ] = None,
    processes: Annotated[int, typer.Option("--processes", metavar="P", help="Runs at a time.")] = 1,
) -> None:
    """Compare a trained network with other policies on scenarios that it has not seen.

    Scenarios of the test split are made of workflow families that training never uses. Needs the extra
    `learn`.
    """
    from stowplan.cli.learning import run_evaluation

    code = run_evaluation(
        checkpoint=checkpoint,
        split=split,
        scenarios=scenarios,
        policies=policies or ("kube-scheduler", "srpt", "srpt-physics"),
        processes=processes,
        recordings=recordings,
    )
    raise typer.Exit(code)


@app.command()
def export(
    *,
    checkpoint: Annotated[
        Path, typer.Option("--checkpoint", metavar="FILE", help="A checkpoint that training wrote.")
    ],
    out: Annotated[
        Path, typer.Option("--out", "-O", metavar="DIR", help="The release, a folder that is not there yet.")
    ],
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="Of the model, for people; else the folder's.")
    ] = "",
) -> None:
    """Write a trained network as a release that can be served.

    The release answers as the network does, which is checked before it is written, and is served without the
    extra `learn`, which this command needs.
    """
    from stowplan.cli.learning import run_export

    run_export(checkpoint=checkpoint, out=out, name=name or out.name)


@app.command()
def policies() -> None:
    """List the policies that can be run."""
    from stowplan.cli.listing import list_policies

    list_policies()


@app.command()
def version() -> None:
    """Say which version this is."""
    write(__version__)
