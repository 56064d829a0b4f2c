"""Where something stands in a text of SQL, and the error that shows the place.

>>> print(Source("SELECT tga FROM tags", "app.sql").error("unknown column 'tga'", 7, hint="did you mean 'tag'?"))
app.sql:1:8: unknown column 'tga'
    SELECT tga FROM tags
           ^
  hint: did you mean 'tag'?
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from penstock.errors import DefinitionError, PenstockError

#: How much of a long line is shown.
_WIDTH = 110


class SqlError(DefinitionError):
    """A statement that cannot be read or means nothing. `line` and `column` count from 1."""

    def __init__(self, message: str, *, place: Place, detail: str | None = None, hint: str | None = None) -> None:
        super().__init__(f"{place}: {message}\n{place.shown()}", detail=detail, hint=hint)
        self.file, self.line, self.column = place.file, place.line, place.column


@dataclass(frozen=True)
class Place:
    """A line and a column of a text."""

    file: str | None
    line: int
    column: int
    text: str

    def shown(self) -> str:
        """The line, and a caret below the place."""
        text, at = self.text.replace("\t", " "), self.column - 1
        if len(text) > _WIDTH:
            start = max(0, min(at - _WIDTH // 2, len(text) - _WIDTH))
            end = start + _WIDTH
            text = ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")
            at += bool(start) - start
        return f"    {text.rstrip()}\n    {' ' * at}^"

    def __str__(self) -> str:
        return f"{self.file or 'sql'}:{self.line}:{self.column}"


@dataclass(frozen=True)
class Piece:
    """A piece of a text: what it says, and where. Pieces that say the same are equal."""

    text: str
    start: int = field(compare=False, repr=False)
    end: int = field(compare=False, repr=False)


@dataclass(frozen=True)
class Source:
    """A text of SQL and the file that it comes from."""

    text: str
    file: str | None = None

    def place(self, at: int) -> Place:
        at = max(0, min(at, len(self.text)))
        start = self.text.rfind("\n", 0, at) + 1
        end = self.text.find("\n", at)
        line = self.text[start : end if end >= 0 else len(self.text)].rstrip("\r")
        return Place(self.file, self.text.count("\n", 0, at) + 1, at - start + 1, line)

    def error(self, message: str, at: int | Piece, *, detail: str | None = None, hint: str | None = None) -> SqlError:
        """An error at a place."""
        start = at.start if isinstance(at, Piece) else at
        return SqlError(message, place=self.place(start), detail=detail, hint=hint)

    @contextmanager
    def at(self, piece: Piece, words: dict[str, str] | None = None) -> Iterator[None]:
        """Places the errors of the model: at the name that an error is about, or where the piece begins."""
        try:
            yield
        except SqlError:
            raise
        except PenstockError as error:
            raise self.placed(error, piece, words or {}) from error
        except (ArithmeticError, RecursionError, ValueError) as error:
            # Texts that are no SQL at all: a number such as 1e99.5, or a thousand brackets.
            raise self.error(f"cannot understand '{piece.text[:60]}'", piece) from error

    def placed(self, error: PenstockError, piece: Piece, words: dict[str, str]) -> SqlError:
        """An error of the model in SQL's words, at its place within a piece."""
        parts = [_in_sql(part, words) for part in (error.message, error.detail, error.hint)]
        message, detail, hint = parts
        if detail and message and message.startswith("cannot read the expression"):
            detail = None  # it shows the text once more
        return SqlError(message or "", place=self.place(self._within(error, piece)), detail=detail, hint=hint)

    def _within(self, error: PenstockError, piece: Piece) -> int:
        named = re.match(
            r"(?:unknown (?:column|function)|the (?:aggregate|window function|generator)) '?(\w+)'?", error.message
        )
        if named:
            match = re.compile(rf"\b{re.escape(named[1])}\b", re.IGNORECASE).search(self.text, piece.start, piece.end)
            if match:
                return match.start()
        return piece.start


#: How the Python face calls what SQL calls otherwise, in the hints of the model.
_WORDS = (
    ("set event_time='…' on the stream, or use ps.count_window(n) or ps.global_window()",
     "write WATERMARK FOR … on the stream, or use COUNT_WINDOW(…) or no window"),
    ("declare how late its events may be: watermark=ps.bounded('10 seconds')",
     "declare how late its events may be: WATERMARK FOR at AS at - INTERVAL 10 SECONDS"),
    ("give every stream of the view watermark=ps.percentile(…)",
     "give every stream of the view WATERMARK FOR at AS PERCENTILE(at, 99)"),
    ("use ps.each(), ps.after_count(n) or ps.every(period), or another window",
     "use EMIT CHANGES, EMIT AFTER n ROWS or EMIT EVERY period, or another window"),
    ("leave out allow_late, or choose a window in event time",
     "leave out ALLOWED LATENESS, or choose a window in event time"),
    ("use .accumulating() or .retracting()", "use ACCUMULATING or RETRACTING"),
    ("leave out retain, or set event_time='…' on the stream",
     "leave out retention, or write WATERMARK FOR … on the stream"),
    ("leave out retain,", "leave out retention,"), ("end it with .or_finally(…)", "end it with OR FINALLY …"),
    ("use a window in event time, or ps.global_window()", "use a window in event time, or none"),
    ("use count_distinct", "use count(DISTINCT …)"), ("approx_distinct cannot", "approx_count_distinct cannot"),
    ("where: '", "WHERE: '"),
    ("aggregates go into .agg(…)", "aggregates stand on their own in the select list: sum(price) AS total"),
    ("use stream.explode(…)", "write FROM stream LATERAL VIEW explode(…) AS name"),
    ("use stream.transform(…)", "transform the stream in Python"),
    ("; months and years are windows of ps.calendar", "; months and years are windows of CALENDAR(…)"),
    ("make it with app.view(…) first", "make it with CREATE CONTINUOUS VIEW first"),
    ("set event_time='a timestamp'", "write WATERMARK FOR a timestamp"),
    ("use .trigger(ps.on_close()), or mode='panes'", "use EMIT FINAL, or mode = 'panes'"),
    ("use .accumulating(), or mode='panes'", "use ACCUMULATING, or mode = 'panes'"),
    ("ps.after_count", "AFTER n ROWS"), ("ps.after_completeness", "AFTER n PERCENT"), ("ps.every", "EVERY"),
    ("ps.percentile", "PERCENTILE"), ("ps.punctuated", "PUNCTUATED"), ("ps.never()", "NEVER"),
    ("ps.approx_distinct", "approx_count_distinct"), ("ps.quantile", "percentile_approx"),
    ("ps.to_jsonl", "FILES"), ("ps.to_parquet", "FILES"), ("ps.to_console", "CONSOLE"),
    ("ps.to_postgres", "POSTGRES"), ("ps.to_http", "HTTP"), ("ps.to_kafka", "KAFKA"),
    ("ps.global_window()", "a view without a window"), ("sign=", "sign = "), ("mode='", "mode = '"),
    ("with_time", "the event time"), ("event_time", "the event time"), ("where=", "FILTER "),
)  # fmt: skip


def _in_sql(text: str | None, words: dict[str, str]) -> str | None:
    if text is None:
        return None
    for python, sql in (*words.items(), *_WORDS):
        text = text.replace(python, sql)
    return re.sub(r"\bps\.(\w+)", r"\1", text)
