"""Made-up events in SQL: a built-in generator by its name, or a distribution for each column.

FROM GENERATOR 'posts' WITH (rate = 100)
FROM GENERATOR (page = CHOICE('/home', '/about'), user = UNIFORM(1, 1000), at = TIME()) WITH (rate = 100)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sqlglot import exp

from penstock.errors import DefinitionError, unknown
from penstock.model.expressions import parse
from penstock.sources import Chance, Generator, generator
from penstock.sql.constants import plain
from penstock.sql.errors import Piece, Source
from penstock.sql.options import Options
from penstock.sql.statements import Origin

#: The options of every generator.
OPTIONS = ("rate", "seed", "disorder", "duplicates", "late", "lateness")
#: What makes a column, and what it takes.
DISTRIBUTIONS = {
    "NUMBER": "the event's number",
    "TIME": "the event's time",
    "UNIFORM": "from, to: a number between them; whole if both are",
    "NORMAL": "mean, deviation",
    "CHOICE": "values: each as likely as the others",
    "ZIPF": "values: the first is twice as likely as the second, three times as the third, …",
}


@dataclass(frozen=True)
class Column:
    """One column: the name of a distribution and its constants."""

    name: str
    kind: str
    arguments: tuple[Any, ...]

    def make(self, numbers: np.ndarray, times: np.ndarray, chance: Chance) -> Any:
        match self.kind:
            case "NUMBER":
                return numbers
            case "TIME":
                return times
            case "UNIFORM":
                low, high = self.arguments
                if isinstance(low, int) and isinstance(high, int):
                    return (low + np.floor(chance.uniform() * (high - low + 1))).astype(np.int64)
                return float(low) + chance.uniform() * (float(high) - float(low))
            case "NORMAL":
                mean, deviation = (float(value) for value in self.arguments)
                radius = np.sqrt(-2 * np.log(1 - chance.uniform()))
                return mean + deviation * radius * np.cos(2 * np.pi * chance.uniform())
            case _:
                weights = (
                    np.ones(len(self.arguments)) if self.kind == "CHOICE" else 1 / np.arange(1, len(self.arguments) + 1)
                )
                shares = np.cumsum(weights / weights.sum())
                place = np.minimum(np.searchsorted(shares, chance.uniform(), side="right"), len(self.arguments) - 1)
                return np.array(self.arguments)[place]


@dataclass(frozen=True)
class Columns:
    """The function of a generator: all its columns."""

    columns: tuple[Column, ...]

    def __call__(self, numbers: np.ndarray, times: np.ndarray, chance: Chance) -> dict[str, object]:
        return {column.name: column.make(numbers, times, chance) for column in self.columns}


def generated(source: Source, origin: Origin, options: Options) -> Generator:
    """The log of FROM GENERATOR."""
    arguments = {"rate": 10, **options.take(*OPTIONS)}
    if origin.address is not None:
        with source.at(origin.address):
            return generator(_built_in(origin.address.text), **arguments)
    columns = tuple(_column(source, name, how) for name, how in origin.columns)
    identity = ", ".join(f"{name.text} = {how.text}" for name, how in origin.columns)
    with source.at(origin.kind):
        return replace(generator(Columns(columns), **arguments), identity=f"({identity})")


def _built_in(name: str) -> Callable[..., dict[str, object]]:
    from penstock.dev.demos.trending import posts

    known = {"posts": posts}
    if name not in known:
        raise unknown("generator", name, known)
    return known[name]


def _column(source: Source, name: Piece, how: Piece) -> Column:
    with source.at(how):
        tree = parse(how.text).tree
        if not isinstance(tree, exp.Anonymous) or tree.name.upper() not in DISTRIBUTIONS:
            word = tree.name if isinstance(tree, exp.Anonymous) else how.text
            raise unknown("distribution", word.upper(), DISTRIBUTIONS)
        kind = tree.name.upper()
        arguments = tuple(plain(source, Piece(part.sql("spark"), how.start, how.end)) for part in tree.expressions)
        _check(kind, arguments)
    return Column(name.text, kind, arguments)


def _check(kind: str, arguments: tuple[object, ...]) -> None:
    wanted = {"NUMBER": 0, "TIME": 0, "UNIFORM": 2, "NORMAL": 2}.get(kind)
    numbers = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in arguments)
    if (wanted is None and not arguments) or (wanted is not None and (len(arguments) != wanted or not numbers)):
        raise DefinitionError(f"{kind} takes other values", detail=f"{kind}: {DISTRIBUTIONS[kind]}")
    if len({type(value) for value in arguments}) > 1 and wanted is None:
        raise DefinitionError(f"the values of {kind} must be of one type")
