"""The report in a real browser, from a file and without a network, as whoever receives it opens it."""

import itertools
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from playwright.sync_api import Page as BrowserPage
from playwright.sync_api import sync_playwright

from stowplan.simulate.clusters import load_cluster
from stowplan.simulate.experiment import run_experiment
from stowplan.simulate.report.assemble import Facts, experiment_page
from stowplan.simulate.report.facts import cluster_facts, version_facts, workload_facts
from stowplan.simulate.report.gantt import gantt_chart
from stowplan.simulate.report.page import ByPolicy, Page, Section, render_page
from stowplan.simulate.workloads import load_workload
from tests.synthetic_experiment import synthetic_data

ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
POLICIES = ("kube-scheduler", "srpt", "best-fit")

Opened = Callable[..., AbstractContextManager[BrowserPage]]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Path:
    """The report of a small real run."""
    cluster = load_cluster(repository / "examples" / "clusters" / "three-zones.yaml")
    workload = load_workload(repository / "examples" / "workloads" / "variant-calling.yaml")
    experiment = run_experiment(cluster, workload, POLICIES, range(1, 3))
    facts = Facts(
        title="A <report> & its title",
        lead="Lead.",
        nodes=tuple(node.name for node in cluster.nodes),
        sections={
            "Cluster": cluster_facts(cluster),
            "Workload": workload_facts(workload),
            "Versions": version_facts(),
            "Command": [("Command line", "stowplan simulate " + "--a-very-long-option " * 20)],
        },
    )
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(experiment_page(experiment, facts), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def opened(chromium: str) -> Generator[Opened]:
    """Open a file in the browser; the console must stay silent, and nothing may be asked of the network."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(ARGUMENTS))

        @contextmanager
        def open_file(path: Path, *, width: int = 1280, dark: bool = False) -> Generator[BrowserPage]:
            context = browser.new_context(
                viewport={"width": width, "height": 900},
                color_scheme="dark" if dark else "light",
                offline=True,
            )
            page = context.new_page()
            complaints: list[str] = []
            requests: list[str] = []
            page.on("console", lambda message: complaints.append(message.text))
            page.on("pageerror", lambda error: complaints.append(str(error)))
            page.on("request", lambda request: requests.append(request.url))
            page.goto(path.as_uri())
            page.wait_for_function("document.documentElement.dataset.drawn === 'true'")
            yield page
            assert complaints == []
            assert [url for url in requests if not url.startswith(("file:", "data:", "blob:"))] == []
            context.close()

        yield open_file
        browser.close()


def drawn_marks(page: BrowserPage) -> dict[str, int]:
    """How many drawn shapes each chart has: bars, lines, points, error bars, pixels of a heat map."""
    script = """() => Object.fromEntries([...document.querySelectorAll(".chart")].map(
        (chart) => [chart.dataset.chart, chart.querySelectorAll(MARKS).length]
    ))"""
    script = script.replace("MARKS", repr(".point > path, path.point, path.js-line, .hm image"))
    return cast("dict[str, int]", page.evaluate(script))


def has_no_sideways_scroll(page: BrowserPage) -> bool:
    """Whether the page itself is no wider than the window (tables scroll inside their own box)."""
    return bool(page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"))


def test_every_chart_is_drawn(opened: Opened, report: Path) -> None:
    with opened(report) as page:
        marks = drawn_marks(page)
        assert len(marks) == 7
        assert all(count > 0 for count in marks.values()), marks
        assert page.title() == "A <report> & its title"


def test_the_policy_selector_redraws(opened: Opened, report: Path) -> None:
    with opened(report) as page:
        gantt = page.locator("figure", has=page.get_by_role("heading", name="Who ran where"))
        chart = gantt.locator(".chart")
        assert "kube-scheduler: 180 tasks" in gantt.locator("figcaption").inner_text()
        before = chart.inner_html()
        page.get_by_label("best-fit", exact=True).check(force=True)
        page.wait_for_function("document.querySelector('[aria-label^=\"best-fit: 180 tasks\"]') !== null")
        assert "best-fit: 180 tasks" in gantt.locator("figcaption").inner_text()
        assert chart.inner_html() != before
        assert all(count > 0 for count in drawn_marks(page).values())


def test_the_selector_works_by_keyboard(opened: Opened, report: Path) -> None:
    with opened(report) as page:
        page.get_by_label("kube-scheduler", exact=True).focus()
        page.keyboard.press("ArrowRight")
        page.wait_for_function("document.querySelector('[aria-label^=\"srpt: 180 tasks\"]') !== null")


def test_a_legend_hides_and_shows(opened: Opened, report: Path) -> None:
    with opened(report) as page:
        figure = page.locator("figure", has=page.get_by_role("heading", name="All workflows"))
        curves = figure.locator("path.js-line")
        assert curves.count() == len(POLICIES)
        button = figure.get_by_role("button", name="srpt")
        button.click()
        assert button.get_attribute("aria-pressed") == "false"
        assert curves.count() == len(POLICIES) - 1
        button.click()
        assert curves.count() == len(POLICIES)


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1280])
def test_it_fits_every_width_in_light_and_dark(opened: Opened, report: Path, width: int, dark: bool) -> None:
    with opened(report, width=width, dark=dark) as page:
        assert has_no_sideways_scroll(page)
        assert all(count > 0 for count in drawn_marks(page).values())
        ground, ink = (
            page.evaluate(f"getComputedStyle(document.body).{name}") for name in ("backgroundColor", "color")
        )
        assert (brightness(ground) < brightness(ink)) is dark
        tick = page.locator(".chart .xtick text").first.evaluate("e => getComputedStyle(e).fill")
        assert abs(brightness(tick) - brightness(ground)) > 100


def brightness(colour: str) -> float:
    """The mean of red, green and blue of `rgb(r, g, b)`, 0–255."""
    return float(
        np.mean([float(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(",")[:3]])
    )


def test_charts_keep_their_height_when_the_window_changes(opened: Opened, report: Path) -> None:
    heights = "[...document.querySelectorAll('.chart .main-svg:first-child')].map(e => e.clientHeight)"
    with opened(report) as page:
        before = page.evaluate(heights)
        page.set_viewport_size({"width": 700, "height": 600})
        page.wait_for_timeout(400)
        assert page.evaluate(heights) == before
        assert has_no_sideways_scroll(page)


def test_what_a_screen_reader_needs_is_there(opened: Opened, report: Path) -> None:
    with opened(report) as page:
        assert page.locator("html").get_attribute("lang") == "en"
        assert page.locator("h1").count() == 1
        levels = page.evaluate("[...document.querySelectorAll('h1,h2,h3')].map(e => Number(e.tagName[1]))")
        assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
        for chart in page.locator(".chart").all():
            assert len(chart.get_attribute("aria-label") or "") > 20
        for table in page.locator("table").all():
            assert table.locator("thead th[scope=col]").count() >= 2
            assert table.locator("tbody th[scope=row]").count() >= 1
        names = page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
        assert len(names) == len(set(names))


def test_ten_thousand_tasks_stay_usable(opened: Opened, tmp_path: Path) -> None:
    data = synthetic_data(tasks=10_000, nodes=300, seeds=1)
    charts = {policy: gantt_chart(data, policy, most_bars=1500) for policy in data.policies}
    section = Section("One run", blocks=[("Who ran where", ByPolicy(charts))], selects_policy=True)
    page_text = render_page(
        Page(title="Many", lead="", findings=(), sections=(section,), policies=data.policies, footer="")
    )
    path = tmp_path / "many.html"
    path.write_text(page_text, encoding="utf-8")
    assert len(page_text) < 6_000_000
    with opened(path, width=390) as page:
        assert page.locator(".hm image").count() == 1
        assert "Too many to draw one by one" in page.locator("figcaption").inner_text()
        assert has_no_sideways_scroll(page)
        took_ms = page.evaluate(
            """async () => {
                const begin = performance.now();
                document.querySelectorAll("input[name=policy]")[2].click();
                await new Promise(requestAnimationFrame);
                return performance.now() - begin;
            }"""
        )
        assert took_ms < 2000
