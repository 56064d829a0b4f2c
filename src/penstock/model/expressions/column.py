"""Expressions as Python objects. Each prints as the SQL that it stands for, and goes wherever SQL text goes.

>>> condition = (col("price") * 2 > 10) & col("country").is_in("CH", "AT")
>>> print(condition)
price * 2 > 10 AND country IN ('CH', 'AT')
>>> print(when(col("price") > 100, "large").otherwise("small").alias("size"))
CASE WHEN price > 100 THEN 'large' ELSE 'small' END AS size
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import IntEnum
from typing import TypeAlias, overload

from penstock.errors import DefinitionError
from penstock.model.expressions.bind import Binder
from penstock.model.expressions.parse import parse
from penstock.model.naming import split_alias, valid_name
from penstock.model.time import duration, instant, show_instant
from penstock.model.types import type_name


class Rank(IntEnum):
    """How tightly an operator binds. An operand that binds less tightly needs brackets."""

    OR = 1
    AND = 2
    NOT = 3
    COMPARISON = 4
    SUM = 5
    PRODUCT = 6
    SIGN = 7
    ATOM = 8


@dataclass(frozen=True, eq=False, repr=False)
class Expression:
    """An expression over the columns of a row: `ps.col("price") * 2 > 10`.

    Operators are Python's; `&`, `|` and `~` stand for AND, OR and NOT. Python values become literals.
    """

    sql: str
    rank: Rank = Rank.ATOM
    name: str | None = None  # as given by `alias`

    def __str__(self) -> str:
        return self.sql if self.name is None else f"{self.sql} AS {self.name}"

    def __repr__(self) -> str:
        return f"ps.expr({str(self)!r})"

    def __bool__(self) -> bool:
        raise DefinitionError(
            f"'{self}' has no value before it runs: 'and', 'or', 'not', 'in' and chained comparisons need one",
            hint="write & for and, | for or, ~ for not, with brackets around comparisons; x.is_in(…); x.between(…)",
        )

    def alias(self, name: str) -> Expression:
        """The same under a name, for `select` and `group_by`."""
        if not valid_name(name):
            raise DefinitionError(f"'{name}' cannot be a column's name", hint="use letters, digits and underscores")
        return Expression(self.sql, self.rank, name)

    # comparison and logic

    def __eq__(self, other: object) -> Expression:  # type: ignore[override]
        return self._compare("=", other)

    def __ne__(self, other: object) -> Expression:  # type: ignore[override]
        return self._compare("<>", other)

    def __lt__(self, other: object) -> Expression:
        return self._compare("<", other)

    def __le__(self, other: object) -> Expression:
        return self._compare("<=", other)

    def __gt__(self, other: object) -> Expression:
        return self._compare(">", other)

    def __ge__(self, other: object) -> Expression:
        return self._compare(">=", other)

    __hash__ = None  # type: ignore[assignment]  # equality makes an expression

    def __and__(self, other: object) -> Expression:
        return _binary(self, "AND", other, Rank.AND)

    def __rand__(self, other: object) -> Expression:
        return _binary(other, "AND", self, Rank.AND)

    def __or__(self, other: object) -> Expression:
        return _binary(self, "OR", other, Rank.OR)

    def __ror__(self, other: object) -> Expression:
        return _binary(other, "OR", self, Rank.OR)

    def __invert__(self) -> Expression:
        return Expression(f"NOT {_operand(self, Rank.NOT)}", Rank.NOT)

    def same_as(self, other: object) -> Expression:
        """Equality for which two nulls are equal: SQL's `<=>`."""
        return self._compare("<=>", other)

    def is_null(self) -> Expression:
        return self._suffixed("IS NULL")

    def is_not_null(self) -> Expression:
        return self._suffixed("IS NOT NULL")

    def is_in(self, *values: object) -> Expression:
        """Whether it equals one of the values."""
        if not values:
            raise DefinitionError("is_in without values", hint="write for example ps.col('country').is_in('CH', 'AT')")
        return self._suffixed(f"IN ({', '.join(lit(value).sql for value in values)})")

    def between(self, low: object, high: object) -> Expression:
        """Whether it lies from `low` to `high`, both included."""
        above = Rank(Rank.COMPARISON + 1)
        return self._suffixed(f"BETWEEN {_operand(low, above)} AND {_operand(high, above)}")

    def like(self, pattern: str) -> Expression:
        """Whether the text matches a pattern with `%` and `_`."""
        return self._suffixed(f"LIKE {lit(pattern).sql}")

    def rlike(self, pattern: str) -> Expression:
        """Whether a part of the text matches a regular expression."""
        return self._suffixed(f"RLIKE {lit(pattern).sql}")

    def contains(self, part: object) -> Expression:
        return call("contains", self, part)

    def startswith(self, prefix: object) -> Expression:
        return call("startswith", self, prefix)

    def endswith(self, suffix: object) -> Expression:
        return call("endswith", self, suffix)

    # arithmetic

    def __add__(self, other: object) -> Expression:
        return _binary(self, "+", other, Rank.SUM)

    def __radd__(self, other: object) -> Expression:
        return _binary(other, "+", self, Rank.SUM)

    def __sub__(self, other: object) -> Expression:
        return _binary(self, "-", other, Rank.SUM)

    def __rsub__(self, other: object) -> Expression:
        return _binary(other, "-", self, Rank.SUM)

    def __mul__(self, other: object) -> Expression:
        return _binary(self, "*", other, Rank.PRODUCT)

    def __rmul__(self, other: object) -> Expression:
        return _binary(other, "*", self, Rank.PRODUCT)

    def __truediv__(self, other: object) -> Expression:
        return _binary(self, "/", other, Rank.PRODUCT)

    def __rtruediv__(self, other: object) -> Expression:
        return _binary(other, "/", self, Rank.PRODUCT)

    def __mod__(self, other: object) -> Expression:
        return _binary(self, "%", other, Rank.PRODUCT)

    def __rmod__(self, other: object) -> Expression:
        return _binary(other, "%", self, Rank.PRODUCT)

    def __neg__(self) -> Expression:
        return Expression(f"-{_operand(self, Rank.ATOM)}", Rank.SIGN)

    # parts and types

    def __getitem__(self, item: object) -> Expression:
        """An element of an array, or the value of a key of a map."""
        return Expression(f"{_operand(self, Rank.ATOM)}[{lit(item).sql}]")

    def __iter__(self) -> Expression:
        raise DefinitionError(f"'{self}' cannot be iterated over", hint="take an element: x[0], or explode the stream")

    def field(self, name: str) -> Expression:
        """A field of a struct."""
        return Expression(f"{_operand(self, Rank.ATOM)}.{_quoted(name)}")

    def cast(self, kind: str) -> Expression:
        """The value in another type: `ps.col("price").cast("decimal(10,2)")`."""
        return Expression(f"CAST({self.sql} AS {type_name(kind)})")

    def _compare(self, operator: str, other: object) -> Expression:
        above = Rank(Rank.COMPARISON + 1)
        return Expression(f"{_operand(self, above)} {operator} {_operand(other, above)}", Rank.COMPARISON)

    def _suffixed(self, suffix: str) -> Expression:
        return Expression(f"{_operand(self, Rank(Rank.COMPARISON + 1))} {suffix}", Rank.COMPARISON)


#: What a definition takes: SQL text or an expression object.
Sql: TypeAlias = str | Expression


def col(name: str) -> Expression:
    """A column by its name: `ps.col("price") > 1`. `stream["price"]` does the same and checks that it exists."""
    if not isinstance(name, str) or not name:
        raise DefinitionError(f"not a column's name: {name!r}", hint="for SQL text there is ps.expr(…)")
    return Expression(_quoted(name))


def lit(value: object) -> Expression:
    """A Python value as a literal. An expression stays as it is.

    >>> print(lit("it's"), lit(1.5), lit(None), lit(timedelta(minutes=90)))
    'it\\'s' 1.5D NULL INTERVAL '5400' SECOND
    """
    match value:
        case Expression():
            return Expression(value.sql, value.rank)
        case None:
            return Expression("NULL")
        case bool():
            return Expression("TRUE" if value else "FALSE")
        case int():
            return Expression(str(value), Rank.SIGN if value < 0 else Rank.ATOM)
        case float():
            return _double(value)
        case Decimal() if value.is_finite():
            return _decimal(value)
        case str():
            escaped = value.replace("\\", "\\\\").replace("'", "\\'")
            return Expression(f"'{escaped}'")
        case bytes():
            return Expression(f"X'{value.hex().upper()}'")
        case datetime():
            return Expression(f"TIMESTAMP '{show_instant(instant(value))}'")  # without a zone it is in UTC
        case date():
            return Expression(f"DATE '{value.isoformat()}'")
        case timedelta():
            seconds, micros = divmod(duration(value), 1_000_000)
            text = f"{seconds}.{micros:06}" if micros else str(seconds)
            return Expression(f"INTERVAL '{text}' SECOND")
    raise DefinitionError(
        f"{value!r} ({type(value).__name__}) has no literal in SQL",
        hint="give a number, text, bytes, a boolean, a date, a datetime, a timedelta or None",
    )


def expr(sql: str) -> Expression:
    """SQL text as an expression object: `ps.expr("upper(name)") == "ADA"`. Its syntax is checked at once."""
    body, name = split_alias(sql)
    return Expression(parse(body).text, Rank.OR, name)


def call(function: str, *arguments: object) -> Expression:
    """A call of a SQL function by its name."""
    return Expression(f"{function}({', '.join(lit(argument).sql for argument in arguments)})")


@dataclass(frozen=True)
class Case:
    """CASE with the branches so far; `otherwise` ends it."""

    branches: tuple[tuple[str, str], ...]

    def when(self, condition: Sql, value: object) -> Case:
        """One more branch, for rows on which no branch before it holds."""
        return Case((*self.branches, (sql_text(condition), lit(value).sql)))

    def otherwise(self, value: object = None) -> Expression:
        """The value where no branch holds."""
        branches = " ".join(f"WHEN {condition} THEN {result}" for condition, result in self.branches)
        return Expression(f"CASE {branches} ELSE {lit(value).sql} END")


def when(condition: Sql, value: object) -> Case:
    """A value by conditions: `ps.when(ps.col("n") > 9, "many").otherwise("few")`."""
    return Case(()).when(condition, value)


class Functions:
    """The SQL functions as Python functions: `ps.fn.upper(ps.col("name"))`. Python values become literals.

    >>> print(Functions().date_trunc("hour", col("at")))
    date_trunc('hour', at)
    """

    def __getattr__(self, name: str) -> Callable[..., Expression]:
        if name.startswith("_"):
            raise AttributeError(name)

        def function(*arguments: object) -> Expression:
            return call(name, *arguments)

        function.__name__ = name
        function.__doc__ = f"Spark's SQL function `{name}`."
        return function

    def __dir__(self) -> list[str]:
        return sorted(name for name in Binder.rules if name.isidentifier())


@overload
def sql_text(value: Sql) -> str: ...
@overload
def sql_text(value: None) -> None: ...
@overload
def sql_text(value: Sql | None) -> str | None: ...
def sql_text(value: Sql | None) -> str | None:
    """The SQL text of what a definition takes."""
    return str(value) if isinstance(value, Expression) else value


def _binary(left: object, operator: str, right: object, rank: Rank) -> Expression:
    return Expression(f"{_operand(left, rank)} {operator} {_operand(right, Rank(rank + 1))}", rank)


def _operand(value: object, rank: Rank) -> str:
    """The text of an operand, in brackets where it binds less tightly than the operator."""
    operand = lit(value)
    return operand.sql if operand.rank >= rank else f"({operand.sql})"


def _decimal(value: Decimal) -> Expression:
    digits = f"{value:f}"
    if "." not in digits:
        return Expression(f"CAST({digits} AS decimal({len(digits.lstrip('-'))},0))")
    return Expression(digits, Rank.SIGN if value < 0 else Rank.ATOM)


def _double(value: float) -> Expression:
    if not math.isfinite(value):
        name = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        return Expression(f"CAST('{name}' AS double)")
    return Expression(f"{value!r}D", Rank.SIGN if math.copysign(1, value) < 0 else Rank.ATOM)


def _quoted(name: str) -> str:
    plain = name.isidentifier() and name.isascii() and parse(f"`{name}`").text == name
    return name if plain else "`" + name.replace("`", "``") + "`"
