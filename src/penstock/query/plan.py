"""The plan of a question: DuckDB's SQL, its parameters, what it reads of each view, and the columns of the answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from penstock.model.time import Instant
from penstock.model.types import Schema
from penstock.sql.read import parse_one
from penstock.sql.statements import History, Question


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


def compile_query(
    select: Question | str,
    tables: Mapping[str, Schema],
    *,
    now: Instant | None = None,
) -> Plan:
    """The plan of a question over these views. `now` fixes the current time."""
    from penstock.query.compile import compile_tree  # builds on the values of this module

    statement = parse_one(select) if isinstance(select, str) else select
    if isinstance(statement, History):
        raise statement.source.error(
            "HISTORY(stream) can be read by Spark only", statement.tables[0].name,
            hint="in a shell: penstock ask \"SELECT … FROM HISTORY(stream)\"; here, ask a view",
        )  # fmt: skip
    if not isinstance(statement, Question):
        raise statement.source.error("this is not a SELECT over views", statement.whole)
    return compile_tree(statement, tables, now=now)
