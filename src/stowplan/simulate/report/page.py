"""The page: one HTML file that carries its style, script, Plotly and data, and opens without a network.

Charts are described twice: as figures for the eye, and in words in their captions and labels; the numbers
behind them are in tables. Nothing is loaded from elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib import resources
from typing import Final

from plotly.offline import get_plotlyjs

from stowplan.simulate.report.chart import Chart, encode_json
from stowplan.simulate.report.table import Table

__all__ = ["ByPolicy", "Page", "Section", "render_page"]

_CONTENT_POLICY: Final = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:;"
)


@dataclass(frozen=True, slots=True)
class ByPolicy:
    """A chart that shows one policy at a time; the reader chooses which."""

    chart_of: Mapping[str, Chart]


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page under a heading of the second level.

    `blocks` are drawn in order; a block with a chart has its own heading. `selects_policy` puts the choice of
    the policy at its head.
    """

    heading: str
    lead: str = ""
    blocks: Sequence[tuple[str, Chart | ByPolicy | Table]] = ()
    facts: Mapping[str, Sequence[tuple[str, str]]] = field(
        default_factory=dict[str, Sequence[tuple[str, str]]]
    )
    selects_policy: bool = False
    in_pairs: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """All that is shown."""

    title: str
    lead: str
    findings: Sequence[str]
    sections: Sequence[Section]
    policies: Sequence[str]
    footer: str


def render_page(page: Page) -> str:
    """Return the HTML document."""
    charts: dict[str, object] = {}
    sections = "\n".join(
        _section(number, section, page.policies, charts) for number, section in enumerate(page.sections)
    )
    links = "".join(
        f'<li><a href="#part-{number}">{escape(section.heading)}</a></li>'
        for number, section in enumerate(page.sections)
    )
    findings = "".join(f"<li>{escape(finding)}</li>" for finding in page.findings)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_CONTENT_POLICY}">
<title>{escape(page.title)}</title>
<link rel="icon" href="data:,">
<style>
{_asset("page.css")}</style>
</head>
<body>
<header>
<h1>{escape(page.title)}</h1>
<p>{escape(page.lead)}</p>
<ul class="findings">{findings}</ul>
<nav aria-label="Parts of this report"><ul>{links}</ul></nav>
<noscript><p class="note">The charts need JavaScript; the tables do not.</p></noscript>
</header>
<main>
{sections}
</main>
<footer><p>{escape(page.footer)}</p></footer>
<script>{get_plotlyjs()}</script>
<script type="application/json" id="charts">{encode_json(charts)}</script>
<script>
{_asset("page.js")}</script>
</body>
</html>
"""


def _section(number: int, section: Section, policies: Sequence[str], charts: dict[str, object]) -> str:
    parts = [
        f'<section aria-labelledby="part-{number}"><h2 id="part-{number}">{escape(section.heading)}</h2>'
    ]
    if section.lead:
        parts.append(f"<p>{escape(section.lead)}</p>")
    if section.selects_policy:
        parts.append(_selector(policies))
    blocks = [
        _block(f"chart-{number}-{position}", heading, block, charts)
        for position, (heading, block) in enumerate(section.blocks)
    ]
    if section.in_pairs:
        parts.append(f'<div class="pair">{"".join(blocks)}</div>')
    else:
        parts += blocks
    for heading, facts in section.facts.items():
        entries = "".join(f"<dt>{escape(name)}</dt><dd>{escape(words)}</dd>" for name, words in facts)
        parts.append(f"<h3>{escape(heading)}</h3><dl>{entries}</dl>")
    parts.append("</section>")
    return "\n".join(parts)


def _selector(policies: Sequence[str]) -> str:
    choices = "".join(
        f'<label><input type="radio" name="policy" value="{escape(policy)}"'
        f"{' checked' if index == 0 else ''}>"
        f"{escape(policy)}</label>"
        for index, policy in enumerate(policies)
    )
    return f'<fieldset class="selector"><legend>Policy</legend><div>{choices}</div></fieldset>'


def _block(name: str, heading: str, block: Chart | ByPolicy | Table, charts: dict[str, object]) -> str:
    title = f"<h3>{escape(heading)}</h3>" if heading else ""
    if isinstance(block, Table):
        return f"<div>{title}{block.to_html()}</div>"
    if isinstance(block, ByPolicy):
        charts[name] = {"by_policy": {policy: _entry(chart) for policy, chart in block.chart_of.items()}}
        live = ' aria-live="polite"'
    else:
        charts[name] = _entry(block)
        live = ""
    return (
        f"<figure>{title}"
        f'<div class="legend" id="{name}-legend" role="group" aria-label="What is shown"></div>'
        f'<div class="chart" role="img" data-chart="{name}" data-caption="{name}-caption" '
        f'data-legend="{name}-legend"></div>'
        f'<figcaption id="{name}-caption"{live}></figcaption></figure>'
    )


def _entry(chart: Chart) -> dict[str, object]:
    return {"figure": chart.figure, "words": chart.words, "note": chart.note}


def _asset(name: str) -> str:
    return resources.files(__package__ or __name__).joinpath(name).read_text(encoding="utf-8")
