"""What a run found, made small: a few cases of each kind of mismatch become files, and permanent tests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from testbed.differential.comparison import compare
from testbed.differential.generator import Case, Manifest, generate
from testbed.differential.kept import write_case
from testbed.differential.oracle import Oracle, Verdicts
from testbed.differential.shrink import shrink
from testbed.differential.tally import Mismatch

__all__ = ["keep_findings", "shrink_mismatch"]

_PER_KIND: Final = 2
_UNKEPT: Final = ("panic", "invalid")
"""Faults of kube-scheduler's and of the generator's are told but not kept: there is no verdict to hold to."""


def keep_findings(
    mismatches: Iterable[Mismatch],
    folder: Path,
    *,
    nodes: int,
    pods: int | None = None,
    program: Path | None = None,
) -> Iterator[str]:
    """Shrink a few mismatches of each kind and filter into `folder`; the case is made as `generate` does.

    Yields:
        A line for each.
    """
    by_kind: dict[tuple[str, str], list[Mismatch]] = defaultdict(list)
    for mismatch in mismatches:
        by_kind[mismatch.kind, mismatch.filter].append(mismatch)
    if not by_kind:
        return
    with Oracle(program=program, has_preemptions=True) as oracle:
        for (kind, name), found in by_kind.items():
            for mismatch in found[:_PER_KIND]:
                where = f"{kind} {name} seed {mismatch.seed} ({mismatch.emphasis}) {mismatch.pod}"
                if kind in _UNKEPT:
                    yield f"{where}: {mismatch.theirs}"
                else:
                    case = generate(mismatch.seed, nodes, mismatch.emphasis, pods=pods)
                    yield f"{where}: {_keep(oracle, mismatch, folder, case)}"


def _keep(oracle: Oracle, mismatch: Mismatch, folder: Path, case: Case) -> str:
    small = shrink_mismatch(oracle, case.objects, mismatch)
    if small is None:
        return "does not show a second time: kube-scheduler contradicts itself, so there is nothing to keep"
    answer = oracle.judge(small)
    if not isinstance(answer, Verdicts):
        return f"is no case any more once it is small: {answer}"
    return f"kept as {write_case(folder, mismatch, small, answer)}"


def shrink_mismatch(oracle: Oracle, objects: Sequence[Manifest], mismatch: Mismatch) -> list[Manifest] | None:
    """Return the objects made small, or None when they do not show a mismatch of that kind and filter."""

    def is_wrong(some: Sequence[Manifest]) -> bool:
        found = compare(some, oracle.judge(some)).mismatches
        return any((one.kind, one.filter) == (mismatch.kind, mismatch.filter) for one in found)

    return shrink(objects, is_wrong) if is_wrong(objects) else None
