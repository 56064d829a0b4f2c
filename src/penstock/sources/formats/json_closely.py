"""Lines of JSON as columns, where some may not be plain: each is looked at as closely as it needs.

DuckDB parses all lines at once and tells those that are not plainly of their column's type. These are read one by one
(`json_values`).
"""

from __future__ import annotations

import atexit
import json
import os
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import polars as pl
import pyarrow as pa

from penstock.kernel.expressions import dtype
from penstock.model.types import Schema
from penstock.sources.base import MALFORMED, REASON
from penstock.sources.formats.json_values import row

if TYPE_CHECKING:
    import duckdb

#: How many threads a task parses with.
_THREADS: Final = 4
#: The types that DuckDB reads, as it names them. Values of the others it passes on as text.
_DUCKDB: Final[Mapping[str, str]] = {
    "string": "VARCHAR",
    "bigint": "BIGINT",
    "int": "INTEGER",
    "smallint": "SMALLINT",
    "tinyint": "TINYINT",
    "double": "DOUBLE",
    "float": "FLOAT",
    "boolean": "BOOLEAN",
    "timestamp": "TIMESTAMPTZ",
    "date": "DATE",
}
_NUMBERS: Final = "'DOUBLE', 'BIGINT', 'UBIGINT'"
#: The JSON types, in DuckDB's words, that a column takes as they are.
_PLAIN: Final[Mapping[str, str]] = {
    "string": "'VARCHAR'",
    "double": _NUMBERS,
    "float": _NUMBERS,
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
#: Numbers of so few characters come through DuckDB's doubles unharmed.
_EXACT: Final = "length({0}) <= 15 AND {0} NOT LIKE '%e%'"
#: A comma before a closing bracket, or before as many blanks as may hide one: DuckDB would take it.
_COMMA: Final = r",(?:[}\]]|[ \t\r][ \t\r}\]])"


def closely(lines: pl.Series, schema: Schema, blank: bool) -> pl.DataFrame:
    """The columns of the schema, `MALFORMED`: the text of lines that do not fit, and `REASON`, where it is known.

    Blank lines are left out; with `blank` they stay, and do not fit.
    """
    table = lines.alias("__line").to_frame().select("__line", *_suspicions(schema)).to_arrow()
    batches = table.to_batches(max_chunksize=max(1, -(-len(lines) // _THREADS)))
    connection = _connection()
    connection.register("lines", pa.Table.from_batches(batches, table.schema))
    try:
        return _mended(connection.sql(_query(schema)).to_arrow_table(), schema, blank)
    finally:
        connection.unregister("lines")


def _suspicions(schema: Schema) -> list[pl.Expr]:
    """What may be wrong with a line that DuckDB does not see: names that come twice, and a comma too many."""
    line = pl.col("__line")
    names = [line.str.count_matches(f'"{name}"', literal=True) for name in schema.names]
    return [pl.sum_horizontal(names).alias("__names"), line.str.contains(_COMMA).alias("__comma")]


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
    # A time is taken as its text first, to be judged by its form; so is a decimal.
    types = {name: "VARCHAR" if kind in _TIMES else _DUCKDB.get(kind, "VARCHAR") for name, kind in schema}
    paths = ["$", *(f"$.{name}" for name in schema.names)]
    line = "CASE WHEN json_valid(__line) THEN __line ELSE 'null' END"
    there = " + ".join(f"(__t[{number + 2}] IS NOT NULL)::INT" for number in range(len(schema.names)))
    # A name may also come twice because one of the two is escaped.
    suspect = f"__names > {there} OR contains(__line, '\\u00')"
    twice = f"CASE WHEN {suspect} THEN len(json_keys(__line)) <> len(list_distinct(json_keys(__line))) ELSE FALSE END"
    odd, values = ["__t[1] IS DISTINCT FROM 'OBJECT'", "__comma", twice], []
    for number, (name, kind) in enumerate(schema):
        value, json_type = f'"{name}"', f"__t[{number + 2}]"
        plain = f"{json_type} IN ({_PLAIN.get(kind, _WHOLE)}) AND {value} IS NOT NULL"
        typed = f'__r."{name}"'
        if kind in _TIMES:
            plain = f"{plain} AND ({_TIMES[kind].format(typed)})"
            typed = f"TRY_CAST({typed} AS {_DUCKDB[kind]})"
        elif kind.startswith("decimal("):
            plain = f"{json_type} IN ({_NUMBERS}) AND {value} IS NOT NULL AND {_EXACT.format(typed)}"
            typed = f"TRY_CAST({typed} AS {kind})"
        elif kind not in _DUCKDB:
            plain, typed = "FALSE", "NULL"
        odd.append(f"NOT ({json_type} IS NULL OR {json_type} = 'NULL' OR ({plain}))")
        values.append(f"{typed} AS {value}")
    columns = ", ".join(f'"{name}"' for name in schema.names)
    return f"""
        SELECT {columns}, CASE WHEN {" OR ".join(odd)} THEN __line END AS __odd
        FROM (SELECT __line, __names, __comma, __r, __t, {", ".join(values)} FROM (
            SELECT __line, __names, __comma, from_json({line}, '{json.dumps(types)}') AS __r,
                json_type({line}, {paths}) AS __t
            FROM lines))"""


def _mended(table: pa.Table, schema: Schema, blank: bool) -> pl.DataFrame:
    """What DuckDB gave, after the odd lines were looked at."""
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    frame = frame.select(*(_typed(name, kind) for name, kind in schema), "__odd")
    none = [pl.lit(None, pl.String).alias(name) for name in (MALFORMED, REASON)]
    if frame["__odd"].null_count() == frame.height:
        return frame.drop("__odd").with_columns(none)
    if not blank:
        frame = frame.filter((pl.col("__odd").str.strip_chars() != "").fill_null(True))
    places = frame["__odd"].is_not_null().arg_true()
    rows: list[dict[str, Any]] = [row(line, schema) for line in frame["__odd"].gather(places)]
    columns = []
    for name, kind in schema:
        values = pl.Series(name, [row.get(name) for row in rows], dtype=_physical(kind)).cast(dtype(kind))
        columns.append(_scattered(frame[name], places, values))
    for name in (MALFORMED, REASON):
        empty = pl.Series(name, [None], dtype=pl.String).new_from_index(0, frame.height)
        columns.append(empty.scatter(places, pl.Series([row.get(name) for row in rows], dtype=pl.String)))
    return pl.DataFrame(columns)


def _typed(name: str, kind: str) -> pl.Expr:
    """A column as DuckDB gave it; of a type that it does not read, nothing yet."""
    is_there = kind in _DUCKDB or kind.startswith("decimal(")
    return pl.col(name).cast(dtype(kind)) if is_there else pl.lit(None, dtype(kind)).alias(name)


def _scattered(column: pl.Series, places: pl.Series, values: pl.Series) -> pl.Series:
    """A column with other values at some places; Polars itself cannot do that with lists."""
    at = pl.repeat(None, len(column), dtype=pl.UInt32, eager=True)
    at = at.scatter(places, pl.int_range(len(values), dtype=pl.UInt32, eager=True))
    there = values.gather(at).alias(column.name)
    return there.zip_with(at.is_not_null(), column)


def _physical(kind: str) -> pl.DataType:
    """What values of Python are made a column of: times are numbers."""
    if kind.startswith("array<"):
        return pl.List(_physical(kind[6:-1]))
    return {"timestamp": pl.Int64(), "date": pl.Int32()}.get(kind) or dtype(kind)
