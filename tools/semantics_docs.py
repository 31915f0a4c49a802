"""Bring the tables in docs/SEMANTICS.md up to date: `python tools/semantics_docs.py`. A test holds it so.

Between `<!-- table: NAME -->` and the empty line after it stands a table made from the code's own data.
"""

import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from stowplan.core.semantics import CATALOGUE, LEVEL_NAMES, PLATFORMS, FaultKind, LevelRule, Quantity

PAGE = Path(__file__).resolve().parent.parent / "docs" / "SEMANTICS.md"
BLOCK = re.compile(r"<!-- table: (?P<name>[a-z]+) -->\n(?:\|.*\n)*")


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def number(amount: float) -> str:
    """A bound as text; large powers of two, which bytes are bounded by, as such."""
    if amount >= 2**20 and math.log2(amount).is_integer():
        return f"2^{math.log2(amount):g}"
    return f"{amount:g}"


def span(low: float, high: float) -> str:
    """Two bounds as text."""
    return f"{number(low)} … {number(high)}"


def described(one: Quantity) -> list[str]:
    """The row of one quantity."""
    scale = f"{'log, ' if one.is_log else ''}{span(one.score_low, one.score_high)}"
    bounds = span(one.low, one.high) + (f" (+{one.slack:.0%})" if one.slack else "")
    return [
        f"`{one.name}`",
        one.unit,
        f"{one.meaning}: {one.formula}",
        bounds,
        ", ".join(one.sources),
        f"{one.stale_after_s:g} s",
        scale,
    ]


def quantities() -> str:
    """Every quantity but the faults, which differ only in what is counted."""
    faults = {kind.quantity_name for kind in FaultKind}
    heads = [
        "quantity",
        "unit",
        "meaning: formula",
        "possible",
        "sources, best first",
        "stale after",
        "score scale",
    ]
    return table(heads, (described(one) for one in CATALOGUE.values() if one.name not in faults))


def faults() -> str:
    """Every kind of fault."""
    return table(
        ["quantity", "unit", "possible", "stale after"],
        (
            [f"`{one.name}`", one.unit, span(one.low, one.high), f"{one.stale_after_s:g} s"]
            for one in (CATALOGUE[kind.quantity_name] for kind in FaultKind)
        ),
    )


def levels() -> str:
    """What the levels are called and cost."""
    rule = LevelRule()
    return table(
        ["level", "name", "factor on the node's score"],
        (
            [str(level), name, f"{weight:g}"]
            for level, (name, weight) in enumerate(zip(LEVEL_NAMES, rule.weights, strict=True))
        ),
    )


def platforms() -> str:
    """At which await each platform's levels begin."""
    return table(
        ["platform", *(f"level {level}" for level in range(1, len(LEVEL_NAMES))), "origin"],
        (
            [f"`{one.platform}`", *(f"{bound * 1e3:g} ms" for bound in one.bounds_s), one.origin]
            for one in PLATFORMS.values()
        ),
    )


TABLES = {made.__name__: made for made in (quantities, faults, levels, platforms)}


def updated(page: str) -> str:
    """The page with every table as it is now."""
    return BLOCK.sub(lambda block: f"<!-- table: {block['name']} -->\n{TABLES[block['name']]()}", page)


if __name__ == "__main__":
    PAGE.write_text(updated(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
