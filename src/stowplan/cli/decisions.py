"""The commands that look at decisions: why they came out so, and whether they would again."""

from __future__ import annotations

from typing import Annotated

import typer

from stowplan.cli.options import HistoryUrl, Output, OutputFormat, Server

__all__ = ["explain", "replay"]


def explain(
    *,
    name: Annotated[
        str,
        typer.Argument(
            metavar="POD|WORKFLOW",
            help="A name, or pod/NAME, workflow/NAME where both are there.",
            show_default=False,
        ),
    ],
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", metavar="NAME", help="Where it is.")
    ] = "default",
    history: HistoryUrl = "",
    server: Server = "http://127.0.0.1:10451",
    output: Output = OutputFormat.TABLE,
) -> None:
    """Say why a pod is where it is, or how far a workflow is.

    Of a pod: where it was placed and why, who else could have taken it, what refused the others, what was
    foretold and what it took, and every decision on it in order, also that it must wait. Of a workflow: its
    tasks, where each runs or ran, foretold and real durations, and what it waits for. Asks the history if one
    is named, else the running scheduler.
    """
    from stowplan.cli.explain import explain_object

    raise typer.Exit(explain_object(name, namespace, history=history, server=server, output=output))


def replay(
    *,
    decision: Annotated[
        str,
        typer.Argument(
            metavar="DECISION", help="The name of a decision, as explain tells it.", show_default=False
        ),
    ],
    history: HistoryUrl = "",
    output: Output = OutputFormat.TABLE,
) -> None:
    """Make a decision again from its record, and compare it to the last bit.

    The cluster, the tasks and the generator are put back as they were, the cycle is run again, and
    placements, refusals, scores and explanations are compared. The first difference, if there is one, is an
    error.
    """
    from stowplan.cli.replay import replay_by_name

    raise typer.Exit(replay_by_name(decision, history=history, output=output))
