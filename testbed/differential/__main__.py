"""The differential test by hand: `python -m testbed.differential --cases 100000 --out FILE.json`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from testbed.differential import real_run
from testbed.differential.findings import keep_findings
from testbed.differential.run import PODS_PER_CLUSTER, run, summary
from testbed.errors import BedError

UNUSABLE = 2  # the exit code for what the caller can mend

KEPT = Path(__file__).parents[2] / "tests" / "golden" / "constraints" / "shrunk"
"""Where what differed is kept, made small."""


def main(  # noqa: PLR0913, PLR0917  (one argument per option of the command)
    cases: Annotated[int, typer.Option(help="how many pods to judge, at least", min=1)] = 10_000,
    seed: Annotated[int, typer.Option(help="which cases")] = 1,
    processes: Annotated[int, typer.Option(help="how many processes, one core each", min=1)] = 2,
    nodes: Annotated[int, typer.Option(help="nodes of a cluster", min=1)] = 50,
    emphasis: Annotated[
        str | None, typer.Option(help="what all clusters are about, such as preemption; else they take turns")
    ] = None,
    out: Annotated[Path, typer.Option(help="the tally; a run of the same seed goes on from it")] = Path(
        "out/differential.json"
    ),
    program: Annotated[Path | None, typer.Option(help="the oracle, if not the one that was built")] = None,
    *,
    real: Annotated[
        bool, typer.Option("--real", help="ask the real kube-scheduler too, one process")
    ] = False,
) -> None:
    """Compare our constraints with kube-scheduler's on generated clusters, and keep what differs."""
    out.parent.mkdir(parents=True, exist_ok=True)
    progress = None
    try:
        if real:
            raise typer.Exit(real_run.command(out, cases=cases, seed=seed, nodes=nodes, program=program))
        for progress in run(
            out,
            cases=cases,
            seed=seed,
            processes=processes,
            nodes=nodes,
            emphasis=emphasis,
            program=program,
        ):
            done, total = progress.tally.cases, cases
            line = f"{done:,} of {total:,} cases, {progress.tally.different:,} mismatches"
            if sys.stderr.isatty():
                typer.echo(f"\r{line} ", nl=False, err=True)
            elif len(progress.done) % 50 == 0:
                typer.echo(f"{line} ({progress.elapsed_s:,.0f} s)", err=True)
    except KeyboardInterrupt:
        typer.echo(f"\nstopped; {out} holds the tally, the same command goes on from there", err=True)
    except BedError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(UNUSABLE) from None
    if progress is None:
        return
    typer.echo("", err=True)
    typer.echo(summary(progress))
    for line in keep_findings(
        progress.tally.mismatches, KEPT, nodes=nodes, pods=PODS_PER_CLUSTER, program=program
    ):
        typer.echo(line)
    if progress.tally.different:
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
