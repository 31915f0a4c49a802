"""`when` of a step or task: decided here where it is constant, left to run time otherwise.

Argo evaluates `when` with govaluate after it has put the variables in, and takes bare words for text, so that
`heads == heads` needs no quotes. Only what certainly has one value is decided; an expression with a variable
left, or outside the part of the language understood here, stays a condition.

Source: Argo Workflows 4.0, `steps.go` (shouldExecute); Knetic/govaluate (operators and their precedence).
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

__all__ = ["decide"]

_TOKEN: Final = re.compile(
    r"""\s*(?:
      (?P<number>[0-9]+(?:\.[0-9]+)?)(?![A-Za-z0-9_.])
    | (?P<word>[A-Za-z_][A-Za-z0-9_]*)(?![.-])
    | "(?P<double>[^"\\]*)" | '(?P<single>[^'\\]*)'
    | (?P<operator>&&|\|\||==|!=|>=|<=|=~|!~|[<>!(),])
    )""",
    re.VERBOSE | re.ASCII,
)
_DATE: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{1,2}:[0-9]{2}", re.ASCII
)  # govaluate compares as times
_PLAIN_PATTERN: Final = re.compile(r"[-A-Za-z0-9_ .^$|]*", re.ASCII)  # the same to Go; never slow
_LONGEST: Final = 2000  # characters; a longer condition is not decided
_DEEPEST: Final = 50

_Value = bool | float | str
_ORDER: Final[dict[str, Callable[[Any, Any], bool]]] = {
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
}


class _Undecidable(Exception):
    """The expression cannot be decided here."""


class _Evaluation:
    def __init__(self, text: str) -> None:
        self.tokens = list(self._scan(text))
        self.position = 0
        self.depth = 0

    @staticmethod
    def _scan(text: str) -> Iterator[tuple[str, str]]:
        position, end = 0, len(text.rstrip())
        while position < end:
            match = _TOKEN.match(text, position)
            if match is None or match.lastgroup is None:
                raise _Undecidable
            yield match.lastgroup, match[match.lastgroup]
            position = match.end()

    def _peek(self) -> tuple[str, str]:
        return self.tokens[self.position] if self.position < len(self.tokens) else ("end", "")

    def _take(self, *operators: str) -> str | None:
        kind, text = self._peek()
        if kind == "operator" and text in operators:
            self.position += 1
            return text
        return None

    def whole(self) -> _Value:
        value = self.either()
        if self._peek()[0] != "end":
            raise _Undecidable
        return value

    def either(self) -> _Value:
        value = self.both()
        while self._take("||"):
            right = self.both()
            value = _truth(value) | _truth(right)
        return value

    def both(self) -> _Value:
        value = self.comparison()
        while self._take("&&"):
            right = self.comparison()
            value = _truth(value) & _truth(right)
        return value

    def comparison(self) -> _Value:
        left = self.operand()
        if self._peek() == ("word", "in"):
            self.position += 1
            return any(_equal(left, item) for item in self.members())
        sign = self._take("==", "!=", ">=", "<=", "=~", "!~", "<", ">")
        if sign is None:
            return left
        value = _compare(sign, left, self.operand())
        if self._take("==", "!=", ">=", "<=", "=~", "!~", "<", ">"):
            raise _Undecidable  # a chain: rarely meant
        return value

    def members(self) -> list[_Value]:
        if not self._take("("):
            raise _Undecidable
        found = [self.operand()]
        while self._take(","):
            found.append(self.operand())
        if not self._take(")"):
            raise _Undecidable
        return found

    def operand(self) -> _Value:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise _Undecidable
        try:
            if self._take("!"):
                return not _truth(self.operand())
            if self._take("("):
                value = self.either()
                if not self._take(")"):
                    raise _Undecidable
                return value
            kind, text = self._peek()
            self.position += 1
            match kind:
                case "number":
                    return float(text)
                case "word":
                    return text == "true" if text in ("true", "false") else text
                case "double" | "single":
                    return text
                case _:
                    raise _Undecidable
        finally:
            self.depth -= 1


def _truth(value: _Value) -> bool:
    if not isinstance(value, bool):
        raise _Undecidable
    return value


def _equal(left: _Value, right: _Value) -> bool:
    for value in (left, right):
        if isinstance(value, str) and _DATE.match(value):
            raise _Undecidable
    return type(left) is type(right) and left == right


def _compare(sign: str, left: _Value, right: _Value) -> bool:
    if sign in ("==", "!="):
        return _equal(left, right) == (sign == "==")
    if isinstance(left, bool) or type(left) is not type(right):
        raise _Undecidable
    if sign in ("=~", "!~"):
        if not (isinstance(left, str) and isinstance(right, str) and _PLAIN_PATTERN.fullmatch(right)):
            raise _Undecidable
        try:
            return (re.search(right, left, re.ASCII) is not None) == (sign == "=~")
        except re.error as error:
            raise _Undecidable from error
    if isinstance(left, str) and (_DATE.match(left) or _DATE.match(str(right))):
        raise _Undecidable
    return _ORDER[sign](left, right)


def decide(text: str) -> bool | None:
    """Return the value of a `when`, or None where it is only known at run time (or not understood here)."""
    if not text.strip():
        return True
    if "{{" in text or len(text) > _LONGEST:
        return None
    try:
        value = _Evaluation(text).whole()
    except _Undecidable:
        return None
    return value if isinstance(value, bool) else None
