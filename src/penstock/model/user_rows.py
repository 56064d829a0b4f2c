"""Rows that users' functions take and give, and the one place where the functions of steps are called.

Values are those of the model (`column_values`): times are numbers here, and `datetime` in a user's function.

>>> from penstock.model.types import Schema
>>> code = RowCode(lambda row: {"n": len(row.line)}, "map(f)", Schema.parse("line string"), Schema.parse("n int"))
>>> made = code.mapped([["two words", None]])
>>> made.parents, made.columns, made.failures
([0], [[9]], {1: "map(f) failed: TypeError: object of type 'NoneType' has no len()"})
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, repeat
from operator import itemgetter
from typing import Any, Final, TypeAlias

from penstock.errors import RowError, unknown
from penstock.model.counters import RowCount, RowCounts, collecting
from penstock.model.expressions.casts import single
from penstock.model.kinds import any_kind
from penstock.model.row_type import row_type
from penstock.model.running_code import running
from penstock.model.storable import has_nul
from penstock.model.types import INTEGERS, Schema

#: The values of several rows, column by column.
ColumnValues: TypeAlias = Sequence[Sequence[Any]]
#: Why a function failed on a row, by the row's number.
Failures: TypeAlias = dict[int, str]

#: Types of Python whose values need no look at each of them.
_PLAIN: Final[dict[str, type]] = {"string": str, "boolean": bool, "double": float, **dict.fromkeys(INTEGERS, int)}
_NOTHING: Final = type(None)
_NO_ROWS: Final = (str, bytes, Mapping)


@dataclass
class MadeRows:
    """Rows that a function made. `parents` are the numbers of the rows that they came from, in order."""

    parents: list[int]
    columns: list[list[Any]]
    failures: Failures
    counts: list[RowCount]


@dataclass
class FilteredRows:
    """Which rows a function keeps."""

    keeps: list[bool]
    failures: Failures
    counts: list[RowCount]


class RowCode:
    """A user's function that takes rows of one schema one by one, and gives rows of another.

    `who` is how messages name the function.
    """

    def __init__(self, function: Callable[..., Any], who: str, takes: Schema, gives: Schema | None = None) -> None:
        self._function, self._who = function, who
        self._row = partial(tuple.__new__, row_type("Row", takes.names))  # `_make` checks the number of values again
        self._turns = [any_kind(kind).give for _, kind in takes]
        self._columns = [] if gives is None else [_Column(name, kind) for name, kind in gives]
        self._names = tuple(column.name for column in self._columns)
        self._ddl = "" if gives is None else gives.ddl()

    def calling(self, function: Callable[..., Any]) -> RowCode:
        """The same with another function in its place."""
        code = copy.copy(self)
        code._function = function
        return code

    # The one place where a user's function is called

    def _results(
        self, columns: ColumnValues, failures: Failures, call: Callable[[Any], Any]
    ) -> tuple[list[Any], list[RowCount]]:
        """What a call gives for each row, and what it counts; nothing that counts for rows on which it fails."""
        results: list[Any] = []
        take = results.append
        with collecting(RowCounts(results)) as counted, running(self._who, results):
            for row in self._rows(columns):
                try:
                    take(call(row))
                except Exception as error:  # whatever it is, it concerns this row
                    message = error.message if isinstance(error, RowError) else f"{type(error).__name__}: {error}"
                    failures[len(results)] = f"{self._who} failed: {message}"
                    take(None)
        return results, counted.counts

    def _rows(self, columns: ColumnValues) -> Iterable[Any]:
        turned = [
            values if turn is None else [None if value is None else turn(value) for value in values]
            for values, turn in zip(columns, self._turns, strict=True)
        ]
        return map(self._row, zip(*turned, strict=True))

    # Forms of functions

    def filtered(self, columns: ColumnValues) -> FilteredRows:
        """Whether each row stays. A row on which the function fails does not."""
        failures: Failures = {}
        function = self._function
        results, counts = self._results(columns, failures, lambda row: bool(function(row)))
        return FilteredRows([bool(keeps) for keeps in results], failures, _of_good_rows(counts, failures))

    def mapped(self, columns: ColumnValues) -> MadeRows:
        """One row for each row."""
        failures: Failures = {}
        results, counts = self._results(columns, failures, self._function)
        parents = list(range(len(results)))
        if failures:
            parents = [number for number in parents if number not in failures]
            results = [results[number] for number in parents]
        return self._made(parents, results, failures, counts)

    def flat_mapped(self, columns: ColumnValues) -> MadeRows:
        """Any number of rows for each row. If one of them is not a row, none of them counts."""
        failures: Failures = {}
        results, counts = self._results(columns, failures, self._several)
        parents = chain.from_iterable(repeat(number, len(rows)) for number, rows in enumerate(results) if rows)
        rows = list(chain.from_iterable(rows for rows in results if rows))
        return self._made(list(parents), rows, failures, counts)

    def _several(self, row: Any) -> list[Any]:
        """The rows that the function gives for one row. A generator runs here."""
        results = self._function(row)
        if type(results) is list:
            return results
        if results is None:
            return []
        if isinstance(results, _NO_ROWS) or not isinstance(results, Iterable):
            raise RowError(f"it gave {type(results).__name__}, and must give rows, for example a list of them")
        return list(results)

    # What a function gives, as rows

    def _made(self, parents: list[int], results: list[Any], failures: Failures, counts: list[RowCount]) -> MadeRows:
        """Rows as columns of the declared types. What is not a row of these types fails."""
        columns = self._at_once(results)
        if columns is None:
            rows = []
            for parent, result in zip(parents, results, strict=True):
                try:
                    rows.append(self._values(result))
                except RowError as error:
                    rows.append((None,) * len(self._names))
                    failures.setdefault(parent, f"{self._who}: {error.message}")
            columns = [list(values) for values in zip(*rows, strict=True)]
        for place, column in enumerate(self._columns):
            if not column.is_plain(columns[place]):
                columns[place], wrong = column.taken(columns[place])
                for at, reason in wrong.items():
                    failures.setdefault(parents[at], f"{self._who}: {reason}")
        if failures:
            good = [at for at, parent in enumerate(parents) if parent not in failures]
            parents = [parents[at] for at in good]
            columns = [[values[at] for at in good] for values in columns]
        return MadeRows(parents, columns, failures, _of_good_rows(counts, failures))

    def _at_once(self, results: list[Any]) -> list[list[Any]] | None:
        """The columns, where all results have one form; None where each must be looked at."""
        types, count = set(map(type, results)), len(self._names)
        if not results:
            return [[] for _ in self._names]
        if count == 1 and not any(issubclass(kind, tuple | Mapping) for kind in types):
            return [results]
        if types not in ({dict}, {tuple}) or set(map(len, results)) != {count} or count == 1:
            return None
        try:
            return [list(map(itemgetter(part), results)) for part in (self._names if types == {dict} else range(count))]
        except KeyError:
            return None

    def _values(self, result: Any) -> tuple[Any, ...]:
        """A row as values in the order of its columns: a dictionary, a tuple, or the value of the only column."""
        names = self._names
        if isinstance(result, Mapping):
            for name in result:
                if name not in names:
                    raise RowError(unknown("column", str(name), names).message)
            return tuple([result.get(name) for name in names])
        if len(names) == 1 and not isinstance(result, tuple):
            return (result,)
        if not isinstance(result, tuple | list) or len(result) != len(names):
            raise RowError(f"it gave {result!r}, and must give a dictionary or a tuple of {self._ddl}")
        return tuple(result)


class _Column:
    """One column that a function gives."""

    def __init__(self, name: str, kind: str) -> None:
        self.name, self.kind = name, kind
        self._take = any_kind(kind).take
        self._plain = {_PLAIN[kind], _NOTHING} if kind in _PLAIN else set()
        self._bound = 1 << (INTEGERS[kind] - 1) if kind in INTEGERS else 0

    def is_plain(self, values: list[Any]) -> bool:
        """Whether all values are of the column's type as they are. Looks at all of them at once."""
        types = set(map(type, values))
        if not types <= self._plain:
            return False
        there = [value for value in values if value is not None] if _NOTHING in types else values
        if self._bound:
            return not there or (min(there) >= -self._bound and max(there) < self._bound)
        return self.kind != "string" or _is_text("".join(there))

    def taken(self, values: list[Any]) -> tuple[list[Any], Failures]:
        """The values in the column's type, and why some cannot be."""
        fitted: list[Any] = []
        wrong: Failures = {}
        for at, value in enumerate(values):
            try:
                fitted.append(None if value is None else self._value(value))
            except RowError as error:
                fitted.append(None)
                wrong[at] = error.message
        return fitted, wrong

    def _value(self, value: Any) -> Any:
        try:
            fitted = self._take(value)
        except RowError as error:
            raise RowError(f"the column '{self.name}': {error.message}") from None
        if isinstance(fitted, str) and not _is_text(fitted):
            raise RowError(has_nul(self.name) if "\0" in fitted else f"the column '{self.name}' is not text")
        return single(fitted) if self.kind == "float" else fitted


def _of_good_rows(counts: list[RowCount], failures: Failures) -> list[RowCount]:
    return [one for one in counts if one.row not in failures] if counts and failures else counts


def _is_text(text: str) -> bool:
    """Whether a text can be stored: without NUL and without half of a surrogate pair."""
    if "\0" in text:
        return False
    try:
        text.isascii() or text.encode()
    except UnicodeEncodeError:
        return False
    return True
