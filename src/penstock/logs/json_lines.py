"""Lines of JSON as columns, inside Spark's tasks: one object a line, by name and type of the stream's columns.

What each value becomes is what Spark's own JSON reader makes of it (tested on edge values), several times faster:
DuckDB parses all lines at once and tells those that are not plainly of their column's type; these are looked at one by
one. A line that does not fit is malformed as a whole.
"""

from __future__ import annotations

import atexit
import json
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import polars as pl
import pyarrow as pa

from penstock.errors import RowError
from penstock.logs.base import MALFORMED
from penstock.model.expressions.casts import cast_value
from penstock.model.types import Schema

if TYPE_CHECKING:
    import duckdb

#: How many threads a task parses with, and how many bytes of a file it takes at a time.
_THREADS, _BLOCK = 4, 24 << 20
#: The types that are read here, as DuckDB, Polars and its physical form name them.
TYPES: Final[Mapping[str, tuple[str, pl.DataType]]] = {
    "string": ("VARCHAR", pl.String()),
    "bigint": ("BIGINT", pl.Int64()),
    "int": ("INTEGER", pl.Int32()),
    "smallint": ("SMALLINT", pl.Int16()),
    "tinyint": ("TINYINT", pl.Int8()),
    "double": ("DOUBLE", pl.Float64()),
    "boolean": ("BOOLEAN", pl.Boolean()),
    "timestamp": ("TIMESTAMPTZ", pl.Datetime("us", "UTC")),
    "date": ("DATE", pl.Date()),
}
#: The JSON types, in DuckDB's words, that a column takes as they are.
_PLAIN: Final[Mapping[str, str]] = {
    "string": "'VARCHAR'",
    "double": "'DOUBLE', 'BIGINT', 'UBIGINT'",
    "boolean": "'BOOLEAN'",
    "timestamp": "'VARCHAR'",
    "date": "'VARCHAR'",
}
_WHOLE: Final = "'BIGINT', 'UBIGINT'"
#: Texts that every reader takes for the same instant or day, if it takes them at all: DuckDB rounds to six decimals.
_TIMES: Final[Mapping[str, str]] = {
    "timestamp": "({0} LIKE '____-__-__ __:__:__%' OR {0} LIKE '____-__-__T__:__:__%') AND substr({0}, 12, 2) < '24'"
    " AND (length({0}) < 27 OR substr({0}, 27, 1) NOT BETWEEN '0' AND '9')",
    "date": "{0} LIKE '____-__-__' AND length({0}) = 10",
}
#: A number is taken for seconds since 1970, if so many fit.
_SECONDS: Final = (1 << 63) // 1_000_000 - 1
_NAME: Final = re.compile(r"\w+", re.ASCII)
_SPECIAL: Final = {
    "NaN": math.nan, "Infinity": math.inf, "+INF": math.inf, "-Infinity": -math.inf, "-INF": -math.inf,
}  # fmt: skip


def reads(schema: Schema) -> bool:
    """Whether all columns have types and names that are read here."""
    return len(schema.names) > 0 and all(kind in TYPES and _NAME.fullmatch(name) for name, kind in schema)


def decoded(lines: pl.Series, schema: Schema, *, blank: bool = False) -> pl.DataFrame:
    """The columns of the schema, and `MALFORMED`: the text of lines that do not fit.

    Blank lines are left out; with `blank` they stay, and do not fit.
    """
    batches = lines.alias("__line").to_frame().to_arrow().to_batches(max_chunksize=max(1, -(-len(lines) // _THREADS)))
    connection = _connection()
    connection.register("lines", pa.Table.from_batches(batches, pa.schema([("__line", pa.large_string())])))
    try:
        return _mended(connection.sql(_query(schema)).to_arrow_table(), schema, blank)
    finally:
        connection.unregister("lines")


def read_file(path: str, schema: Schema) -> Iterator[pl.DataFrame]:
    """The same for all lines of a file, which may be compressed, some at a time."""
    with pa.input_stream(path, compression="detect") as file:
        rest = b""
        while block := file.read(_BLOCK):
            whole, end, tail = (rest + block).rpartition(b"\n")
            rest = tail
            if end:
                yield decoded(_lines(whole), schema)
        if rest:
            yield decoded(_lines(rest), schema)


def _lines(text: bytes) -> pl.Series:
    """The lines of a text; what is not UTF-8 is replaced."""
    split = pl.Series([text.decode("utf-8", "replace")]).str.split("\n").explode(empty_as_null=True)
    return split.str.strip_suffix("\r")


@lru_cache(maxsize=1)
def _connection() -> duckdb.DuckDBPyConnection:
    """DuckDB in this process. Spark has tasks of its own for many files: a few threads do."""
    import duckdb

    connection = duckdb.connect(config={"threads": min(_THREADS, os.cpu_count() or 1)})
    connection.execute("SET TimeZone = 'UTC'")
    atexit.register(_connection.cache_clear)  # or DuckDB complains of what is left of it
    return connection


@lru_cache(maxsize=64)
def _query(schema: Schema) -> str:
    """The columns, and the text of odd lines: they are to be looked at one by one.

    Each line is parsed once for the values and once for their types.
    """
    # A time is taken as its text first, to be judged by its form.
    asked = {name: "VARCHAR" if kind in _TIMES else TYPES[kind][0] for name, kind in schema}
    paths = ["$", *(f"$.{name}" for name in schema.names)]
    line = "CASE WHEN json_valid(__line) THEN __line ELSE 'null' END"
    odd, values = ["__t[1] IS DISTINCT FROM 'OBJECT'"], []
    for number, (name, kind) in enumerate(schema):
        value, told = f'"{name}"', f"__t[{number + 2}]"
        plain = f"{told} IN ({_PLAIN.get(kind, _WHOLE)}) AND {value} IS NOT NULL"
        taken = f'__r."{name}"'
        if kind in _TIMES:
            plain = f"{plain} AND ({_TIMES[kind].format(taken)})"
            taken = f"TRY_CAST({taken} AS {TYPES[kind][0]})"
        odd.append(f"NOT ({told} IS NULL OR {told} = 'NULL' OR ({plain}))")
        values.append(f"{taken} AS {value}")
    columns = ", ".join(f'"{name}"' for name in schema.names)
    return f"""
        SELECT {columns}, CASE WHEN {" OR ".join(odd)} THEN __line END AS __odd
        FROM (SELECT __line, __r, __t, {", ".join(values)} FROM (
            SELECT __line, from_json({line}, '{json.dumps(asked)}') AS __r, json_type({line}, {paths}) AS __t
            FROM lines))"""


def _mended(table: pa.Table, schema: Schema, blank: bool) -> pl.DataFrame:
    """What DuckDB gave, after the odd lines were looked at."""
    found = pl.from_arrow(table)
    assert isinstance(found, pl.DataFrame)
    found = found.select(*(pl.col(name).cast(TYPES[kind][1]) for name, kind in schema), "__odd")
    if found["__odd"].null_count() == found.height:
        return found.drop("__odd").with_columns(pl.lit(None, pl.String).alias(MALFORMED))
    if not blank:
        found = found.filter((pl.col("__odd").str.strip_chars() != "").fill_null(True))
    places = found["__odd"].is_not_null().arg_true()
    rows: list[dict[str, Any]] = [_row(line, schema) for line in found["__odd"].gather(places)]
    physical = {"timestamp": pl.Int64(), "date": pl.Int32()}
    columns = []
    for name, kind in schema:
        values = pl.Series([row.get(name) for row in rows], dtype=physical.get(kind, TYPES[kind][1]))
        columns.append(found[name].scatter(places, values.cast(TYPES[kind][1])))
    malformed = pl.Series(MALFORMED, [None], dtype=pl.String).new_from_index(0, found.height)
    bad = pl.Series([row.get(MALFORMED) for row in rows], dtype=pl.String)
    return pl.DataFrame([*columns, malformed.scatter(places, bad)])


def _row(line: str, schema: Schema) -> dict[str, Any]:
    """One line's values; if it does not fit, only its text."""
    try:
        tokens = _tokens(line)
        return {name: _READ.get(kind, _whole)(tokens[name], kind) for name, kind in schema if name in tokens}
    except (ValueError, RowError, RecursionError):
        return {MALFORMED: line}


def _tokens(line: str) -> dict[str, str]:
    """The members of an object, each with the text of its value. Of several with one name the last counts."""
    found: dict[str, str] = {}
    text, at = line, _blank(line, 0)
    if text[at : at + 1] != "{":
        raise ValueError("no object")
    at = _blank(text, at + 1)
    if text[at : at + 1] == "}":
        at += 1
    else:
        while True:
            if text[at : at + 1] != '"':
                raise ValueError("no name")
            name, at = _DECODER.raw_decode(text, at)
            at = _blank(text, at)
            if text[at : at + 1] != ":":
                raise ValueError("no value")
            at = _blank(text, at + 1)
            _, end = _DECODER.raw_decode(text, at)
            found[name] = text[at:end]
            at = _blank(text, end)
            if text[at : at + 1] not in (",", "}"):
                raise ValueError("no end")
            at += 1
            if text[at - 1] == "}":
                break
            at = _blank(text, at)
    if _blank(text, at) != len(text):
        raise ValueError("more than one value")
    return found


_DECODER: Final = json.JSONDecoder()
_BLANKS: Final = re.compile(r"[ \t\r\n]*")


def _blank(text: str, at: int) -> int:
    match = _BLANKS.match(text, at)
    return match.end() if match else at


def _text(token: str, kind: str) -> object:
    if token == "null":
        return None
    return json.loads(token) if token.startswith('"') else token


def _whole(token: str, kind: str) -> object:
    if token == "null":
        return None
    return cast_value(int(token), "bigint" if abs(int(token)) < 1 << 63 else "string", kind)


def _double(token: str, kind: str) -> object:
    if token == "null":
        return None
    if token.startswith('"'):
        return _SPECIAL[_known(json.loads(token))]
    if token in ("NaN", "Infinity", "-Infinity"):
        return _SPECIAL[token]
    if token in ("true", "false") or token[0] in "[{":
        raise ValueError("no number")
    return float(token)


def _known(text: str) -> str:
    if text not in _SPECIAL:
        raise ValueError("no number")
    return text


def _boolean(token: str, kind: str) -> object:
    if token not in ("true", "false", "null"):
        raise ValueError("no boolean")
    return {"true": True, "false": False}.get(token)


def _time(token: str, kind: str) -> object:
    if token == "null":
        return None
    if token.startswith('"'):
        return cast_value(json.loads(token), "string", kind)
    seconds = int(token)
    if kind != "timestamp" or abs(seconds) > _SECONDS:
        raise ValueError("no time")
    return seconds * 1_000_000


_READ: Final[Mapping[str, Callable[[str, str], object]]] = {
    "string": _text,
    "double": _double,
    "boolean": _boolean,
    "timestamp": _time,
    "date": _time,
}
