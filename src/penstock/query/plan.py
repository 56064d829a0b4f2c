"""The plan of a question: DuckDB's SQL, its parameters, what it reads of each view, and the columns of the answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from sqlglot import exp

from penstock.errors import unknown
from penstock.model.time import Instant
from penstock.model.types import Schema
from penstock.sql.read import parse_one
from penstock.sql.statements import Question


@dataclass(frozen=True)
class Filter:
    """A condition on one column that a store may apply early; the query checks it again.

    `values` are Python's values of the column's type: datetime with UTC, date, Decimal, str, int, float, bool, bytes.
    """

    column: str
    op: Literal["=", "<", "<=", ">", ">=", "in", "is null"]
    values: tuple[object, ...]


@dataclass(frozen=True)
class Scan:
    """What a query reads of one view. `name` is the relation in `Plan.sql`: each use of a view has its own.

    Without columns, only the number of rows counts. All filters must hold.
    """

    view: str
    name: str
    columns: tuple[str, ...]
    filters: tuple[Filter, ...]


@dataclass(frozen=True)
class Plan:
    """A question as DuckDB answers it. Every literal of the question is a parameter: $1, $2, …"""

    sql: str
    parameters: tuple[object, ...]
    scans: tuple[Scan, ...]
    schema: Schema


def compile_query(select: Question | str, tables: Mapping[str, Schema], *, now: Instant | None = None) -> Plan:
    """The plan of a question over these views. `now` fixes the current time."""
    statement = parse_one(select) if isinstance(select, str) else select
    if not isinstance(statement, Question):
        raise statement.source.error("this is no SELECT over views", statement.whole)
    tree = statement.tree
    table = tree.find(exp.Table)
    if table is None or table.name not in tables:
        raise statement.source.placed(unknown("view", "" if table is None else table.name, tables), statement.whole, {})
    schema = tables[table.name]
    if not (len(tree.selects) == 1 and tree.selects[0].is_star):
        schema = schema.pick([schema.find(column.name) for column in tree.selects])
    names = ", ".join(f'"{name}"' for name in schema.names)
    return Plan(f"SELECT {names} FROM scan_1", (), (Scan(table.name, "scan_1", schema.names, ()),), schema)
