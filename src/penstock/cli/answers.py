"""How answers are printed: as a table, as JSON, as CSV; whole, or row by row as they come."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final

import polars as pl
import typer
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.cli.figures import number
from penstock.model.types import is_numeric
from penstock.query.answer import Answer
from penstock.query.forms import csv_text, json_value, objects, rows, text_value, typed
from penstock.query.values import values

#: After how many rows a table on the screen ends.
LONGEST: Final = 1000
#: How wide a column of rows that come one by one is at most.
_WIDEST: Final = 40


class Format(StrEnum):
    """How an answer is printed."""

    table = "table"
    json = "json"
    csv = "csv"


class Printer:
    """Prints answers in one format. With `timing`, how long they took stands below a table."""

    def __init__(self, console: Console, format: Format, *, timing: bool = False) -> None:
        self.console, self.format, self.timing = console, format, timing

    def answer(self, answer: Answer, seconds: float = 0.0) -> None:
        """An answer of the store."""
        if self.format is Format.json:
            typer.echo(json.dumps(objects(answer), ensure_ascii=False))
        elif self.format is Format.csv:
            typer.echo(csv_text(answer.schema.names, rows(answer)), nl=False)
        else:
            height = answer.table.num_rows
            self.console.print(as_table(answer, LONGEST))
            more = height - LONGEST
            count = f"{number(height)} row{'' if height == 1 else 's'}"
            hidden = f"; {number(more)} of them not shown: use --format csv or json" if more > 0 else ""
            self.console.print(f"{count}{hidden}{self._took(seconds)}")

    def frame(self, frame: pl.DataFrame) -> None:
        """Prints a frame."""
        self.answer(typed(frame.to_arrow(compat_level=pl.CompatLevel.oldest())))

    def rows(self, columns: Sequence[str], rows: Sequence[Sequence[object]], seconds: float = 0.0) -> None:
        """A small table that is not a frame."""
        if self.format is Format.json:
            typer.echo(json.dumps([dict(zip(columns, map(json_value, row), strict=True)) for row in rows]))
        elif self.format is Format.csv:
            typer.echo(_csv([columns, *rows]), nl=False)
        elif len(columns) == 1:  # a text of several lines, as EXPLAIN gives
            self.console.print(Text("\n".join(str(value) for (value,) in rows)), soft_wrap=True)
        else:
            table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
            for name in columns:
                table.add_column(Text(name), overflow="fold")
            for row in rows:
                table.add_row(*map(_cell, row))
            self.console.print(table)
            self.console.print(f"{len(rows)} row{'' if len(rows) == 1 else 's'}{self._took(seconds)}")

    def message(self, text: str, seconds: float = 0.0) -> None:
        """What was done; beside an answer in another format than a table it is not part of it."""
        if self.format is Format.table:
            self.console.print(Text(f"{text}{self._took(seconds)}"), soft_wrap=True)
        else:
            typer.echo(text, err=True)

    def _took(self, seconds: float) -> str:
        return f" ({seconds * 1000:.0f} ms)" if self.timing else ""


class Ticker:
    """Prints rows as they come: lines of a table whose columns grow, a JSON object a line, or CSV."""

    def __init__(self, console: Console, format: Format, columns: Sequence[str]) -> None:
        self._console, self._format, self._columns = console, format, columns
        self._widths = [0] * len(columns)
        if format is Format.csv:
            typer.echo(_csv([columns]), nl=False)

    def print(self, rows: Iterable[Mapping[str, object]]) -> None:
        came = [[row[name] for name in self._columns] for row in rows]
        for row in came:
            if self._format is Format.json:
                shown = [json_value(value) for value in row]
                typer.echo(json.dumps(dict(zip(self._columns, shown, strict=True)), ensure_ascii=False))
            elif self._format is Format.csv:
                typer.echo(_csv([[json_value(value) for value in row]]), nl=False)
        if self._format is Format.table and came:
            self._lines([[text_value(value) for value in row] for row in came])

    def _lines(self, rows: list[list[str]]) -> None:
        """Lines below a head, which is printed again where a column has grown."""
        asked = [max(cell_len(text) for text in column) for column in zip(self._columns, *rows, strict=True)]
        widths = [min(_WIDEST, max(pair)) for pair in zip(self._widths, asked, strict=True)]
        if widths != self._widths:
            self._widths = widths
            head = [Text(_fit(name, width), style="bold") for name, width in zip(self._columns, widths, strict=True)]
            self._console.print(Text("  ").join(head), soft_wrap=True)
        for row in rows:
            cells = [
                Text(_fit(text, width), style="dim" if text == "null" else "")
                for text, width in zip(row, widths, strict=True)
            ]
            self._console.print(Text("  ").join(cells), soft_wrap=True)


def as_table(answer: Answer, longest: int) -> Table:
    """The first rows of an answer as a table; numbers to the right, null in grey."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name, kind in answer.schema:
        table.add_column(Text(name), justify="right" if is_numeric(kind) else "left", overflow="fold")
    columns = [values(column.slice(0, longest)) for column in answer.table.columns]
    for row in zip(*columns, strict=True):
        table.add_row(*map(_cell, row))
    return table


def _cell(value: object) -> Text:
    return Text(text_value(value), style="dim" if value is None else "")


def _fit(text: str, width: int) -> str:
    return text + " " * (width - cell_len(text))


def _csv(rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
