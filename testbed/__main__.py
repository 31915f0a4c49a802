"""The test cluster by hand: `python -m testbed up`, `down`, `list`, `programs`, `images`."""

import sys
import time
from typing import Annotated

import typer

from testbed import cluster, images, programs, site, sweep
from testbed.errors import BedError
from testbed.spec import GIB, ClusterSpec, FakeNodes, RealNode

UNUSABLE = 2  # the exit code for what the caller can mend

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)

Name = Annotated[str | None, typer.Option("--name", help="the cluster's name; one is drawn by default")]


@app.command()
def up(
    name: Name = None,
    real: Annotated[int, typer.Option(help="nodes with real pods, unequal on purpose", min=0, max=16)] = 2,
    fake: Annotated[int, typer.Option(help="nodes that kwok plays", min=0)] = 100,
    *,
    argo: Annotated[bool, typer.Option(help="run the controller of Argo Workflows")] = True,
    prometheus: Annotated[bool, typer.Option(help="run Prometheus and node exporters")] = False,
    delay_ms: Annotated[float, typer.Option(help="one-way delay between real nodes", min=0)] = 0.0,
) -> None:
    """Bring a cluster up that stays until it is taken down, and print how to reach it."""
    spec = ClusterSpec(
        real_nodes=tuple(_real_node(number) for number in range(real)),
        fake_nodes=(FakeNodes(count=fake),) if fake else (),
        argo=argo,
        prometheus=prometheus,
        delay_s=delay_ms / 1e3,
        images=("pause", "busybox", "load", *(("argoexec",) if argo else ())),
    )
    start = time.monotonic()
    running = cluster.start(spec, name, owned=False)
    took_s = time.monotonic() - start
    running.client.close()
    typer.echo(
        f"# cluster {running.site.name}: {real} real and {fake} fake nodes in {took_s:.1f} s", err=True
    )
    typer.echo(f"# end it with: make cluster-down CLUSTER={running.site.name}", err=True)
    typer.echo(f"export KUBECONFIG={running.site.kubeconfig}")
    typer.echo(f"export PATH={programs.program_path('kubectl').parent}:$PATH")


def _real_node(index: int) -> RealNode:
    """Unequal on purpose: every second node has half the cores and half the memory."""
    return (
        RealNode(cpus=1.0, memory_bytes=4 * GIB)
        if index % 2 == 0
        else RealNode(cpus=0.5, memory_bytes=2 * GIB)
    )


@app.command()
def down(
    name: Name = None,
    *,
    everything: Annotated[bool, typer.Option("--all", help="all clusters of this user")] = False,
) -> None:
    """Take a cluster away, wholly; without a name, the only one."""
    for here in list(site.sites()) if everything else [site.find(name)]:
        start = time.monotonic()
        sweep.sweep(here)
        typer.echo(f"cluster {here.name} is gone ({time.monotonic() - start:.1f} s)")


@app.command(name="list")
def list_clusters() -> None:
    """Clusters of this user, running or left over."""
    for here in site.sites():
        state = "its owner is gone" if here.is_orphan() else "owned" if here.owner_pid else "by hand"
        typer.echo(f"{here.name}  {here.whole_range}  {state}  KUBECONFIG={here.kubeconfig}")


@app.command(name="programs")
def build_programs(
    names: Annotated[list[str] | None, typer.Argument(help="of the catalogue; all by default")] = None,
) -> None:
    """Build the programs that are not in the cache yet; with progress."""
    unknown = sorted(set(names or ()) - set(programs.PROGRAMS))
    if unknown:
        typer.echo(
            f"no program is named {', '.join(unknown)}; known: {', '.join(programs.PROGRAMS)}", err=True
        )
        raise typer.Exit(UNUSABLE)
    programs.build(names or (), report=lambda line: typer.echo(f"programs: {line}"))


@app.command(name="images")
def build_images(
    names: Annotated[list[str] | None, typer.Argument(help="of the catalogue; all by default")] = None,
) -> None:
    """Make the images that are not in the cache yet; with progress."""
    unknown = sorted(set(names or ()) - set(images.IMAGES))
    if unknown:
        typer.echo(f"no image is named {', '.join(unknown)}; known: {', '.join(images.IMAGES)}", err=True)
        raise typer.Exit(UNUSABLE)
    for name in names or images.IMAGES:
        images.image_path(name)


def main() -> None:
    """Run the command; what keeps a cluster from being made is one line and exit code 2."""
    try:
        app()
    except BedError as error:
        typer.echo(f"testbed: {error}", err=True)
        sys.exit(UNUSABLE)


if __name__ == "__main__":
    main()
