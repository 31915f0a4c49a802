"""The `depends` language of DAG tasks: `A.Succeeded && (B.Failed || !C)`.

Two things follow from an expression, and they are not the same. A task **waits** for every task that its
expression names, whatever the operators: even `A || B` waits for both. Only then is the expression
**evaluated**, and where it is false the task is omitted. A bare name stands for `(A.Succeeded || A.Skipped ||
A.Daemoned)`, with `Errored` and `Failed` added as A's `continueOn` says.

Source: Argo Workflows 4.0, `workflow/common/ancestry.go` (which names are found), `dag.go`
(evaluateDependsLogic), the precedence of expr-lang (`?:` < `||` < `&&` < `==`, `!=` < `!`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from math import prod
from typing import Final

__all__ = ["Depends", "DependsError", "Result", "Terms", "dependencies_as_depends", "parse_depends"]

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<result>[a-zA-Z0-9][-a-zA-Z0-9]*?\.[A-Z][a-zA-Z]+)|(?P<name>[a-zA-Z0-9][-a-zA-Z0-9]*)"
    r"|(?P<operator>&&|\|\||==|!=|[!()?:])|(?P<other>\S.*))",
    re.ASCII | re.DOTALL,
)
_CONJUNCTION: Final = re.compile(
    r"\s*[a-zA-Z0-9][-a-zA-Z0-9]*\s*(?:&&\s*[a-zA-Z0-9][-a-zA-Z0-9]*\s*)*", re.ASCII
)
_BRUTE_FORCE: Final = 256  # combinations of results that are tried one by one
_DEEPEST: Final = 100  # nested parentheses and negations
_MANY_OPERANDS: Final = 20  # joined with && by `dependencies`, shown in full below this


class Result(StrEnum):
    """What can be asked of a task that is fulfilled."""

    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    ERRORED = "Errored"
    SKIPPED = "Skipped"
    OMITTED = "Omitted"
    DAEMONED = "Daemoned"
    ANY_SUCCEEDED = "AnySucceeded"
    ALL_FAILED = "AllFailed"


_OF_ITEMS: Final = frozenset({Result.ANY_SUCCEEDED, Result.ALL_FAILED})
_ASKED: Final = {result.value: frozenset({result}) for result in Result}
_LEVELS: Final = {"||": 1, "&&": 2, "==": 3, "!=": 3}
_BARE: Final = frozenset({Result.SUCCEEDED, Result.SKIPPED, Result.DAEMONED})

Results = frozenset[Result]
"""What holds of one task at once (of a group whose items succeeded: Succeeded and AnySucceeded)."""

Terms = Mapping[str, Results]
"""By task, the results that hold of it."""


class DependsError(ValueError):
    """An expression that is not of the language; the message says what to write instead."""


@dataclass(frozen=True, slots=True)
class _Term:
    task: str
    accepted: Results

    def holds(self, terms: Terms) -> bool:
        return not self.accepted.isdisjoint(terms[self.task])


@dataclass(frozen=True, slots=True)
class _Not:
    inner: _Expression

    def holds(self, terms: Terms) -> bool:
        return not self.inner.holds(terms)


@dataclass(frozen=True, slots=True)
class _Junction:
    parts: tuple[_Expression, ...]
    is_and: bool

    def holds(self, terms: Terms) -> bool:
        values = (part.holds(terms) for part in self.parts)
        return all(values) if self.is_and else any(values)


@dataclass(frozen=True, slots=True)
class _Equal:
    left: _Expression
    right: _Expression

    def holds(self, terms: Terms) -> bool:
        return self.left.holds(terms) == self.right.holds(terms)


@dataclass(frozen=True, slots=True)
class _Choice:
    test: _Expression
    then: _Expression
    other: _Expression

    def holds(self, terms: Terms) -> bool:
        return (self.then if self.test.holds(terms) else self.other).holds(terms)


_Expression = _Term | _Not | _Junction | _Equal | _Choice


def _tasks_of(expression: _Expression) -> Iterator[str]:
    match expression:
        case _Term(task):
            yield task
        case _Not(inner):
            yield from _tasks_of(inner)
        case _Junction(parts):
            for part in parts:
                yield from _tasks_of(part)
        case _Equal(left, right):
            yield from _tasks_of(left)
            yield from _tasks_of(right)
        case _Choice(test, then, other):
            for part in (test, then, other):
                yield from _tasks_of(part)


@dataclass(frozen=True, slots=True)
class Depends:
    """A parsed expression.

    `tasks` are the tasks that must be fulfilled first, in order of appearance. `of_items` are those of them
    that are asked for `AnySucceeded` or `AllFailed`, which only a fan-out has.
    """

    text: str
    tasks: tuple[str, ...]
    of_items: frozenset[str]
    _expression: _Expression

    def holds(self, terms: Terms) -> bool:
        """Tell whether the task runs, given what became of each of `tasks`."""
        return self._expression.holds(terms)

    def outcomes(self, possible: Mapping[str, tuple[Results, ...]]) -> frozenset[bool]:
        """Return the values that the expression can take when tasks may end in any of their `possible` ways.

        Exact while the ways number few; a larger conjunction or disjunction is taken apart and its parts are
        treated as independent, which can only add a value.
        """
        if all(len(possible[name]) == 1 for name in self.tasks):
            return frozenset({self.holds({name: possible[name][0] for name in self.tasks})})
        return _outcomes(self._expression, possible)


def _outcomes(expression: _Expression, possible: Mapping[str, tuple[Results, ...]]) -> frozenset[bool]:
    names = tuple(dict.fromkeys(_tasks_of(expression)))
    if prod(len(possible[name]) for name in names) <= _BRUTE_FORCE:
        ways = product(*(possible[name] for name in names))
        return frozenset(expression.holds(dict(zip(names, way, strict=True))) for way in ways)
    match expression:
        case _Not(inner):
            return frozenset(not value for value in _outcomes(inner, possible))
        case _Junction(parts, is_and):
            found = [_outcomes(part, possible) for part in parts]
            decided = not is_and  # one part with this value decides the whole
            whole: set[bool] = set()
            if any(decided in values for values in found):
                whole.add(decided)
            if all((not decided) in values for values in found):
                whole.add(not decided)
            return frozenset(whole)
        case _:
            return frozenset({True, False})


class _Parser:
    """Precedence climbing over the tokens; `text` is the current one, empty at the end."""

    def __init__(self, text: str, bare: Callable[[str], Results]) -> None:
        self.tokens = self._scan(text)
        self.bare = bare
        self.depth = 0
        self.tasks: dict[str, None] = {}
        self.of_items: set[str] = set()
        self.position = -1
        self.kind: str | None = None
        self.text = ""
        self._advance()

    @staticmethod
    def _scan(text: str) -> list[tuple[str | None, str]]:
        tokens: list[tuple[str | None, str]] = [
            (match.lastgroup, match[match.lastgroup or 0]) for match in _TOKEN.finditer(text.strip())
        ]
        tokens.append(("end", ""))
        return tokens

    def _advance(self) -> None:
        self.position += 1
        self.kind, self.text = self.tokens[self.position]
        if self.kind == "other":
            raise DependsError(
                f"it cannot be read from {self.text[:20]!r} on; write task names, task.Result, &&, ||, ! "
                "and parentheses"
            )

    def whole(self) -> _Expression:
        expression = self.choice()
        if self.kind != "end":
            raise DependsError(
                f"{self.text!r} follows where an operator is due; join the tasks with && or ||"
            )
        return expression

    def _take(self, sign: str) -> bool:
        if self.text != sign:
            return False
        self._advance()
        return True

    def choice(self) -> _Expression:
        test = self.binary(1)
        if not self._take("?"):
            return test
        then = self.choice()
        if not self._take(":"):
            raise DependsError("a '?' has no ':'; write condition ? then : otherwise")
        return _Choice(test, then, self.choice())

    def binary(self, lowest: int) -> _Expression:
        left = self.unary()
        while (level := _LEVELS.get(self.text, 0)) >= lowest:
            sign = self.text
            if sign in ("&&", "||"):
                parts = [left]
                while self.text == sign:
                    self._advance()
                    parts.append(self.binary(level + 1))
                left = _Junction(tuple(parts), is_and=sign == "&&")
            else:
                self._advance()
                equal = _Equal(left, self.binary(level + 1))
                left = equal if sign == "==" else _Not(equal)
        return left

    def unary(self) -> _Expression:
        if self.kind in ("name", "result"):
            return self.term()
        self.depth += 1
        if self.depth > _DEEPEST:
            raise DependsError(f"it nests deeper than {_DEEPEST}; write it flatter")
        sign = self.text
        if sign not in ("!", "("):
            raise DependsError(
                f"{sign!r} stands where a task is due; name one" if sign else "it ends early; name a task"
            )
        self._advance()
        inner = _Not(self.unary()) if sign == "!" else self.choice()
        if sign == "(" and not self._take(")"):
            raise DependsError("a '(' is not closed; add the ')'")
        self.depth -= 1
        return inner

    def term(self) -> _Term:
        is_bare, text = self.kind == "name", self.text
        self._advance()
        if is_bare:
            self.tasks.setdefault(text)
            return _Term(text, self.bare(text))
        task, _, asked = text.partition(".")
        self.tasks.setdefault(task)
        accepted = _ASKED.get(asked)
        if accepted is None:
            raise DependsError(f"{text!r} asks for no known result; write one of {', '.join(Result)}")
        if accepted <= _OF_ITEMS:
            self.of_items.add(task)
        return _Term(task, accepted)


def _bare(continue_on: Mapping[str, Results], task: str) -> Results:
    extra = continue_on.get(task)
    return _BARE | extra if extra else _BARE


def parse_depends(text: str, continue_on: Mapping[str, Results] | None = None) -> Depends:
    """Parse the `depends` of a task.

    `continue_on` holds the failures that a bare name accepts, by task (`Failed`, `Errored`).

    Raises:
        DependsError: the text is not an expression of the language.
    """
    if _CONJUNCTION.fullmatch(text):  # nearly all are
        names = tuple(name.strip() for name in text.split("&&"))
        return dependencies_as_depends(names, continue_on or {}, text)
    parser = _Parser(text, lambda task: _bare(continue_on or {}, task))
    expression = parser.whole()
    return Depends(text, tuple(parser.tasks), frozenset(parser.of_items), expression)


def dependencies_as_depends(
    names: tuple[str, ...], continue_on: Mapping[str, Results], text: str = ""
) -> Depends:
    """Return what a list of `dependencies` stands for: all of them, as bare names."""
    parts = tuple(_Term(name, _bare(continue_on, name)) for name in names)
    if not text:
        text = " && ".join(names[:_MANY_OPERANDS]) + (" && …" if len(names) > _MANY_OPERANDS else "")
    expression = parts[0] if len(parts) == 1 else _Junction(parts, is_and=True)
    return Depends(text, tuple(dict.fromkeys(names)), frozenset(), expression)
