"""Bring the tables in docs/ENCODER.md up to date: `python tools/encoder_docs.py`. A test holds it so.

Between `<!-- table: NAME -->` and the empty line after it stands a table made from the code's own data.
"""

import re
from pathlib import Path

from semantics_docs import number, table

from stowplan.core.encoder import SCHEMA, Column, FeatureGroup, Table

PAGE = Path(__file__).resolve().parent.parent / "docs" / "ENCODER.md"
BLOCK = re.compile(r"<!-- table: (?P<name>[a-z]+) -->\n(?:\|.*\n)*")
HEADS = ["feature", "unit", "meaning", "source", "range", "group", "mask"]


def described(one: Column) -> list[str]:
    """The row of one column."""
    scale = f"{'log, ' if one.is_log else ''}{number(one.low)} … {number(one.high)}"
    groups = ", ".join(f"`{group}`" for group in one.groups)
    return [
        f"`{one.name}`",
        one.unit,
        one.meaning,
        one.source,
        scale,
        groups,
        "yes" if one.has_mask else "",
    ]


def columns(of: Table) -> str:
    """All columns of one table."""
    return table(HEADS, (described(one) for one in of.columns))


def groups() -> str:
    """What each group is about, and how many columns it takes with it."""
    counts = {
        group: sum(group in one.groups for part in SCHEMA.tables for one in part.columns)
        for group in FeatureGroup
    }
    return table(
        ["group", "columns", "without it"],
        ([f"`{group}`", str(count), WITHOUT[group]] for group, count in counts.items()),
    )


def sizes() -> str:
    """How wide the arrays are."""
    rows = (
        [part.name, str(len(part.columns)), str(len(part.masked)), str(part.width)] for part in SCHEMA.tables
    )
    return table(["table", "features", "masks", "numbers in a row"], rows)


WITHOUT = {
    FeatureGroup.MBPI: "load on memory is what the profiles of known tasks say",
    FeatureGroup.STORAGE: "load on disks is what the profiles of known tasks say",
    FeatureGroup.RTT: "all nodes are equally far",
    FeatureGroup.PCIE: "all links are whole",
    FeatureGroup.MEMORY: "free memory is what requests leave",
    FeatureGroup.USAGE: "busy cores are those that profiles and requests say",
    FeatureGroup.HISTORY: "requests, waiting, counts and the shape of the workflow remain",
    FeatureGroup.TOPOLOGY: "tasks are a bag: no order, no depth, no way to an exit",
}
TABLES = {
    "task": lambda: columns(SCHEMA.task),
    "node": lambda: columns(SCHEMA.node),
    "cluster": lambda: columns(SCHEMA.cluster),
    "groups": groups,
    "sizes": sizes,
}


def updated(page: str) -> str:
    """The page with every table as it is now."""
    return BLOCK.sub(lambda block: f"<!-- table: {block['name']} -->\n{TABLES[block['name']]()}", page)


if __name__ == "__main__":
    PAGE.write_text(updated(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
