"""The commands that run services, look at them, and check their configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stowplan.cli.options import ConfigFile, Output, OutputFormat, Server

__all__ = ["config_app", "serve_app", "status"]

serve_app = typer.Typer(help="Run a service.", no_args_is_help=True)
config_app = typer.Typer(help="Look at the configuration of the services.", no_args_is_help=True)

Mode = Annotated[
    str | None,
    typer.Option(
        "--mode",
        metavar="extender|binder|gate|shadow",
        help="How decisions become facts (scheduler.mode).",
    ),
]
Kubeconfig = Annotated[
    Path | None,
    typer.Option("--kubeconfig", metavar="FILE", help="The cluster (kubernetes.kubeconfig)."),
]
Context = Annotated[
    str | None,
    typer.Option("--context", metavar="NAME", help="A context of the kubeconfig (kubernetes.context)."),
]
History = Annotated[
    str | None,
    typer.Option("--history", metavar="URL", help="Where what ran is kept (history.url)."),
]
Listen = Annotated[
    str | None,
    typer.Option(
        "--listen", metavar="HOST:PORT", help="Where health, metrics and status are (http.host, http.port)."
    ),
]
LogFormat = Annotated[
    str | None, typer.Option("--log-format", metavar="json|text", help="How log lines look (log.format).")
]


@serve_app.command()
def scheduler(
    *,
    config: ConfigFile = None,
    mode: Mode = None,
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="The scheduler that pods name (scheduler.name)."),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option("--policy", metavar="NAME", help="See stowplan policies (scheduler.policy)."),
    ] = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    history: History = None,
    listen: Listen = None,
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
    log_format: LogFormat = None,
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


@serve_app.command()
def webhook(
    *,
    config: ConfigFile = None,
    mode: Mode = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    history: History = None,
    listen: Listen = None,
    webhook_listen: Annotated[
        str | None,
        typer.Option(
            "--webhook-listen",
            metavar="HOST:PORT",
            help="Where the API server calls (webhook.host, webhook.port).",
        ),
    ] = None,
    certificate: Annotated[
        Path | None,
        typer.Option("--certificate", metavar="FILE", help="Serving certificate (webhook.certificate)."),
    ] = None,
    key: Annotated[
        Path | None, typer.Option("--key", metavar="FILE", help="Its private key (webhook.key).")
    ] = None,
    log_format: LogFormat = None,
) -> None:
    """Review workflows when they are created, until SIGTERM.

    Writes on them what helps to place their pods (as plan does), and refuses malformed ones with the path of
    each field. The API server is told of it by what config webhook prints.
    """
    from stowplan.cli.serve import run_webhook

    overrides: dict[str, object] = {
        "scheduler.mode": mode,
        "kubernetes.kubeconfig": kubeconfig,
        "kubernetes.context": context,
        "history.url": history,
        "webhook.certificate": certificate,
        "webhook.key": key,
        "log.format": log_format,
    }
    raise typer.Exit(run_webhook(config, overrides, {"http": listen, "webhook": webhook_listen}))


@config_app.command("extender")
def extender_entry(
    *,
    url: Annotated[
        str, typer.Option("--url", metavar="URL", help="Where kube-scheduler reaches the extender.")
    ] = "http://127.0.0.1:10452",
    has_rules: Annotated[
        bool, typer.Option("--rules", help="The extender has a rule table: ask it to filter too.")
    ] = False,
    weight: Annotated[
        int, typer.Option("--weight", metavar="N", help="Points per level, in tens; see docs/LIVE.md.")
    ] = 10,
    timeout_ms: Annotated[
        float, typer.Option("--timeout-ms", metavar="MS", help="How long kube-scheduler waits for an answer.")
    ] = 100.0,
    authority: Annotated[
        Path | None,
        typer.Option("--ca", metavar="FILE", help="Vouches for the extender's certificate (https)."),
    ] = None,
) -> None:
    """Write the configuration by which kube-scheduler asks the extender."""
    from stowplan.cli.serve import show_extender

    raise typer.Exit(show_extender(url, weight, timeout_ms / 1000, authority, has_rules=has_rules))


@config_app.command("webhook")
def webhook_registration(
    *,
    service: Annotated[
        str | None,
        typer.Option("--service", metavar="NAMESPACE/NAME", help="The Service in front of the webhook."),
    ] = None,
    url: Annotated[
        str | None, typer.Option("--url", metavar="URL", help="Or its https address, outside of the cluster.")
    ] = None,
    authority: Annotated[
        Path | None,
        typer.Option(
            "--ca", metavar="FILE", help="Vouches for its certificate; without, whoever injects it does."
        ),
    ] = None,
    failure_policy: Annotated[
        str,
        typer.Option(
            "--failure-policy", metavar="Ignore|Fail", help="What happens when the webhook does not answer."
        ),
    ] = "Ignore",
) -> None:
    """Write the manifests by which the API server calls the webhook."""
    from stowplan.cli.serve import show_registration

    raise typer.Exit(show_registration(service, url, authority, failure_policy))


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
