"""From a path to the law that it holds."""

from __future__ import annotations

from pathlib import Path

from stowplan.errors import InvalidFile
from stowplan.simulate.files import data_files, read_text
from stowplan.simulate.formats import Use, recognise
from stowplan.simulate.laws.colocation import ColocationLaw, parse_colocations
from stowplan.simulate.laws.drift import DriftLaw, parse_drift
from stowplan.simulate.laws.machines import MachineLaw, parse_runs
from stowplan.simulate.laws.placement import PlacementLaw, parse_placements
from stowplan.simulate.laws.throughput import ThroughputLaw, parse_throughputs

__all__ = ["Law", "load_law"]

Law = MachineLaw | PlacementLaw | ThroughputLaw | ColocationLaw | DriftLaw


def load_law(path: Path | str) -> Law:
    """Return the law of a file; of a folder Lotaru's machine law, which needs several files.

    Raises:
        InvalidFile: the path is missing, unreadable, truncated, of no known format, or holds no law.
        UnknownName: a Lotaru file or folder lacks the reference machine.
    """
    path = Path(path)
    if path.is_dir():
        texts = {str(file): read_text(file) for file in data_files(path)}
        for name, text in texts.items():
            if (found := recognise(text, name)).name != "lotaru":
                raise InvalidFile(
                    f"{path}: {name} is {found.holds}; only Lotaru's law is read from a folder, name one file"
                )
        return MachineLaw.of(run for name, text in texts.items() for run in parse_runs(text, name))
    text, name = read_text(path), str(path)
    found = recognise(text, name)
    match found.name:
        case "lotaru":
            return MachineLaw.of(parse_runs(text, name))
        case "sia":
            return parse_placements(text, name)
        case "gavel":
            return parse_throughputs(text, name)
        case "lucid":
            return parse_colocations(text, name)
        case "azure-vm-noise":
            return parse_drift(text, name)
        case _:
            use = (
                "a workload"
                if Use.WORKLOAD in found.use
                else "a cluster"
                if Use.CLUSTER in found.use
                else "no law"
            )
            raise InvalidFile(f"{name}: is {found.holds}, which is {use}; {found.advice}")
