"""Random workflows: nested dags and steps over a few leaves, with loops, conditions and hooks."""

from typing import Any

from hypothesis import strategies as st

from tests.unit.argo.cases import Json, container, workflow

WHENS = ["", "a == a", "a == b", "{{workflow.status}} == Running", "{{item}} == x"]
LOOPS: list[Json] = [
    {},
    {},
    {},
    {"withItems": ["x", "y"]},
    {"withItems": [{"k": 1}]},
    {"withParam": "{{workflow.uid}}"},
    {"withParam": "[]"},
    {"withSequence": {"count": "3"}},
    {"withSequence": {"count": "400"}},
]


@st.composite
def _call(draw: st.DrawFn, name: str, templates: list[str]) -> Json:
    call: Json = {"name": name, "template": draw(st.sampled_from(templates)), **draw(st.sampled_from(LOOPS))}
    when = draw(st.sampled_from(WHENS))
    if when:
        call["when"] = when
    if draw(st.integers(0, 7)) == 0:
        call["onExit"] = "leaf0"
    return call


@st.composite
def _dag(draw: st.DrawFn, templates: list[str]) -> Json:
    tasks: list[Json] = []
    for number in range(draw(st.integers(1, 5))):
        task = draw(_call(f"t{number}", templates))
        before = [f"t{other}" for other in range(number) if draw(st.booleans())]
        if before:
            results = st.sampled_from(["", "", "", ".Succeeded", ".Failed", ".Skipped"])
            signs = st.sampled_from([" && ", " || "])
            task["depends"] = "".join(
                ("" if place == 0 else draw(signs)) + other + draw(results)
                for place, other in enumerate(before)
            )
        tasks.append(task)
    return {"dag": {"tasks": draw(st.permutations(tasks))}}


@st.composite
def _steps(draw: st.DrawFn, templates: list[str]) -> Json:
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    return {
        "steps": [
            [draw(_call(f"s{number}{place}", templates)) for place in range(size)]
            for number, size in enumerate(sizes)
        ]
    }


@st.composite
def workflows(draw: st.DrawFn) -> Json:
    """A workflow that the controller would take."""
    leaves: list[Json] = [
        container("leaf0"),
        container("leaf1", retryStrategy={"limit": 2}),
        {"name": "leaf2", "suspend": {}},
    ]
    names = [leaf["name"] for leaf in leaves]
    templates: list[Json] = []
    for number in range(draw(st.integers(1, 3))):
        body = draw(st.one_of(_dag(list(names)), _steps(list(names))))
        templates.append({"name": f"m{number}", **body})
        names.append(f"m{number}")
    raw = workflow(*reversed(templates), *leaves)
    if draw(st.booleans()):
        raw["spec"]["onExit"] = "leaf0"
    return raw


JUNK: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(
        ["{{x}}", "{{", "}}", "{{=1+", "a.b", "leaf0", "m0", "t0 && ", "[1", "0", "-1", "\x00", "é" * 300]
    ),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
    st.just([[]]),
    st.just([None]),
)
