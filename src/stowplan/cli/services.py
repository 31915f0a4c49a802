"""The commands that run services, look at them, and check their configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stowplan.cli.options import ConfigFile, Output, OutputFormat, Server

__all__ = ["config_app", "serve_app", "status"]

serve_app = typer.Typer(help="Run a service.", no_args_is_help=True)
config_app = typer.Typer(help="Look at the configuration of the services.", no_args_is_help=True)


@serve_app.command()
def scheduler(
    *,
    config: ConfigFile = None,
    mode: Annotated[
        str | None,
        typer.Option(
            "--mode",
            metavar="extender|binder|gate|shadow",
            help="How decisions become facts (scheduler.mode).",
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="The scheduler that pods name (scheduler.name)."),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option("--policy", metavar="NAME", help="See stowplan policies (scheduler.policy)."),
    ] = None,
    kubeconfig: Annotated[
        Path | None,
        typer.Option("--kubeconfig", metavar="FILE", help="The cluster (kubernetes.kubeconfig)."),
    ] = None,
    context: Annotated[
        str | None,
        typer.Option("--context", metavar="NAME", help="A context of the kubeconfig (kubernetes.context)."),
    ] = None,
    history: Annotated[
        str | None,
        typer.Option("--history", metavar="URL", help="Where what ran is kept (history.url)."),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(
            "--listen",
            metavar="HOST:PORT",
            help="Where health, metrics and status are (http.host, http.port).",
        ),
    ] = None,
    extender_listen: Annotated[
        str | None,
        typer.Option(
            "--extender-listen",
            metavar="HOST:PORT",
            help="Where kube-scheduler asks (extender.host, extender.port).",
        ),
    ] = None,
    elect: Annotated[
        bool | None,
        typer.Option("--elect/--no-elect", help="Whether one of several instances leads (lease.enable)."),
    ] = None,
    log_format: Annotated[
        str | None, typer.Option("--log-format", metavar="json|text", help="How log lines look (log.format).")
    ] = None,
) -> None:
    """Place pods of a cluster until SIGTERM.

    In mode extender kube-scheduler asks for scores and places; binder places the pods that name Stowplan as
    their scheduler; gate releases gated pods in order and prefers a node; shadow only writes down what it
    would have done. Options go before the environment (STOWPLAN_SCHEDULER__MODE), that before the file.
    """
    from stowplan.cli.serve import run_scheduler

    overrides: dict[str, object] = {
        "scheduler.mode": mode,
        "scheduler.name": name,
        "scheduler.policy": policy,
        "kubernetes.kubeconfig": kubeconfig,
        "kubernetes.context": context,
        "history.url": history,
        "lease.enable": elect,
        "log.format": log_format,
    }
    raise typer.Exit(run_scheduler(config, overrides, {"http": listen, "extender": extender_listen}))


@config_app.command()
def check(*, config: ConfigFile = None) -> None:
    """Check the configuration and write it as it takes effect, defaults and environment included."""
    from stowplan.cli.serve import check_config

    raise typer.Exit(check_config(config))


def status(*, server: Server = "http://127.0.0.1:10451", output: Output = OutputFormat.TABLE) -> None:
    """Say what a running scheduler does now.

    Mode, leader, queues, bindings under way, how the copies of the cluster's objects fare, the history, how
    well durations were foretold, and what works in a lesser way.
    """
    from stowplan.cli.status import show_status

    raise typer.Exit(show_status(server, output))
