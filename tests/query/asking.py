"""Asks a question of the tables of `tests.query.rows` through the plan, in DuckDB; and writes answers down."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa

from penstock.query.plan import Plan, compile_query
from penstock.query.udfs import register
from tests.query.questions import NOW
from tests.query.rows import SCHEMAS, arrow

ANSWERS = Path(__file__).parent / "answers.json"


def connect() -> duckdb.DuckDBPyConnection:
    """A connection that has the functions of plans."""
    connection = duckdb.connect(config={"threads": 1})
    register(connection)
    return connection


def ask(connection: duckdb.DuckDBPyConnection, question: str) -> tuple[Plan, list[tuple[object, ...]]]:
    """The plan of a question, and the rows of its answer. Each scan gives only the columns that it names."""
    plan = compile_query(question, SCHEMAS, now=NOW)
    for scan in plan.scans:
        table = arrow(scan.view)
        connection.register(scan.name, table.select(list(scan.columns) or table.column_names[:1]))
    table = connection.sql(plan.sql, params=list(plan.parameters)).to_arrow_table()
    assert tuple(table.column_names) == plan.schema.names
    return plan, rows_of(table)


def rows_of(table: pa.Table) -> list[tuple[object, ...]]:
    """The rows of an Arrow table."""
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True)) if table.num_rows else []


def written(value: object) -> object:
    """A value as JSON keeps it, with nothing lost.

    The zeros at the end of a decimal belong to its type.

    >>> written(Decimal("1.50")), written(float("nan")), written(-0.0)
    ({'decimal': '1.5'}, {'float': 'nan'}, {'float': '-0.0'})
    """
    match value:
        case float():
            return {"float": repr(value)}
        case Decimal():
            return {"decimal": f"{value.normalize():f}"}
        case datetime():
            return {"time": (value if value.tzinfo else value.replace(tzinfo=UTC)).astimezone(UTC).isoformat()}
        case date():
            return {"date": value.isoformat()}
        case bytes() | bytearray():
            return {"bytes": bytes(value).hex()}
        case list() | tuple():
            return [written(one) for one in value]
    return value


def same(left: object, right: object, *, near: bool = False) -> bool:
    """Whether two written values are equal; `near` leaves out the last digits, which sums of doubles may differ in."""
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(same(a, b, near=near) for a, b in zip(left, right, strict=True))
    if near and isinstance(left, dict) and isinstance(right, dict) and "float" in left and "float" in right:
        a, b = float(left["float"]), float(right["float"])
        return (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=1e-12)
    return left == right


def in_order(rows: Iterable[object]) -> list[object]:
    """Rows in an order of their own, for answers that have none."""
    return sorted((written(row) for row in rows), key=json.dumps)
