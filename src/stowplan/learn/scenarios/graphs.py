"""Random graphs of workflows: the shapes that scientific and data workflows have, of any size.

A graph is said in layers of templates, as workflow engines say it: a template becomes one task or a
fan-out of equal ones. The shapes are those that Bharathi et al. (WORKS 2008, doi
10.1109/WORKS.2008.4723958) take workflows apart into (process, pipeline, distribution, aggregation), in
larger and smaller pieces.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from stowplan.learn.scenarios.chance import log_uniform

__all__ = ["SHAPES", "Graph", "draw_graph"]

_MOST_PARENTS: Final = 3


@dataclass(slots=True)
class Graph:
    """Tasks by number, with the template of each and the edges between them.

    Attributes:
        template: of each task, 0, 1, …
        edges: (parent, child), each once; a parent has a smaller number.
    """

    template: list[int] = field(default_factory=list[int])
    edges: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])

    def add(self, template: int, width: int) -> list[int]:
        """Add `width` tasks of a template; return their numbers."""
        first = len(self.template)
        self.template += [template] * width
        return list(range(first, first + width))

    def join(self, parents: list[int], children: list[int]) -> None:
        """Let each child wait for every parent."""
        self.edges += [(parent, child) for parent in parents for child in children]

    def follow(self, parents: list[int], children: list[int]) -> None:
        """Let each child wait for the parent at its own place."""
        self.edges += list(zip(parents, children, strict=True))


def _chain(rng: np.random.Generator, most: int) -> Graph:
    """One after the other."""
    return _strands(1, int(rng.integers(2, min(most, 20) + 1)))


def _pipelines(rng: np.random.Generator, most: int) -> Graph:
    """The same steps for each of many samples; half of them are gathered at the end."""
    steps = int(rng.integers(2, 9))
    graph = _strands(max(_log_integer(rng, 2, max((most - 1) // steps, 2)), 1), steps)
    if rng.random() < 0.5:
        last = [task for task, template in enumerate(graph.template) if template == steps - 1]
        graph.join(last, graph.add(steps, 1))
    return graph


def _strands(count: int, steps: int) -> Graph:
    graph = Graph()
    above = graph.add(0, count)
    for step in range(1, steps):
        below = graph.add(step, count)
        graph.follow(above, below)
        above = below
    return graph


def _fans(rng: np.random.Generator, most: int) -> Graph:
    """Split, many at once, gather; once or a few times."""
    graph = Graph()
    times = int(rng.integers(1, 4))
    gathered = graph.add(0, 1)
    for number in range(times):
        wide = graph.add(1 + 2 * number, _log_integer(rng, 2, max(most // times - 2, 2)))
        graph.join(gathered, wide)
        gathered = graph.add(2 + 2 * number, 1)
        graph.join(wide, gathered)
    return graph


def _bag(rng: np.random.Generator, most: int) -> Graph:
    """Independent tasks of one to three templates."""
    graph = Graph()
    count = int(rng.integers(1, 4))
    for template in range(count):
        graph.add(template, _log_integer(rng, 1, max(most // count, 1)))
    return graph


def _layers(rng: np.random.Generator, most: int) -> Graph:
    """Layers of random width; a task waits for one to three of the layer before, a single one for all."""
    graph = Graph()
    above: list[int] = []
    for layer in range(int(rng.integers(2, 9))):
        left = most - len(graph.template)
        if left <= 0:
            break
        is_wide = rng.random() < 0.5
        width = min(left, int(rng.integers(2, 25)) if is_wide else int(rng.integers(1, 3)))
        below = graph.add(layer, width)
        for task in below:
            graph.edges += [
                (parent, task) for parent in _some(rng, above, 0 if width == 1 else _MOST_PARENTS)
            ]
        above = below
    return graph


def _wide(rng: np.random.Generator, most: int) -> Graph:
    """Tasks that wait for any of the earlier ones: many ways of unequal length, few at one depth alike."""
    graph = Graph()
    templates = int(rng.integers(2, 7))
    for _ in range(_log_integer(rng, 4, max(min(most, 150), 4))):
        above = list(range(len(graph.template)))[-int(rng.integers(4, 60)) :]
        (task,) = graph.add(int(rng.integers(templates)), 1)
        parents = [] if rng.random() < 0.1 else _some(rng, above, _MOST_PARENTS)
        graph.edges += [(parent, task) for parent in parents]
    return graph


def _some(rng: np.random.Generator, above: list[int], most: int) -> list[int]:
    """Return one to `most` of them, all when `most` is 0."""
    if not above or most == 0:
        return above
    count = int(rng.integers(1, min(len(above), most) + 1))
    return [above[index] for index in sorted(rng.choice(len(above), count, replace=False).tolist())]


def _log_integer(rng: np.random.Generator, low: int, high: int) -> int:
    return round(log_uniform(rng, low, high))


SHAPES: Final[tuple[Callable[[np.random.Generator, int], Graph], ...]] = (
    _chain,
    _pipelines,
    _fans,
    _bag,
    _layers,
    _wide,
)
_WEIGHTS: Final = (0.1, 0.2, 0.25, 0.1, 0.2, 0.15)  # a proposal


def draw_graph(rng: np.random.Generator, most_tasks: int) -> Graph:
    """Draw a graph of about `most_tasks` tasks at most, at least 2 of them to be of any shape."""
    shape = SHAPES[int(rng.choice(len(SHAPES), p=_WEIGHTS))]
    return shape(rng, max(most_tasks, 2))
