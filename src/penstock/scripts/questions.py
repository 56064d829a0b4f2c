"""Questions of a script: a SELECT over the views, answered by the engine that answers from a store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from penstock.model.time import Instant
from penstock.model.types import Schema
from penstock.model.view import View
from penstock.query.errors import QueryError
from penstock.query.explain import explain_query
from penstock.query.plan import Scan, compile_query
from penstock.query.run import shared_engine
from penstock.query.values import column, values
from penstock.sql.answers import table_schema
from penstock.sql.statements import Question

#: The rows of a view, by its name.
Rows = Callable[[str], Sequence[Mapping[str, object]]]


def ask(
    question: Question, views: Mapping[str, View], now: Instant, rows_of: Rows
) -> tuple[list[str], list[tuple[object, ...]]]:
    """The columns and the rows of the answer."""
    schemas = _schemas(views)
    plan = compile_query(question, schemas, now=now)
    try:
        answer = shared_engine().run(plan, lambda scan: _scan(scan, schemas[scan.view], rows_of(scan.view)))
    except QueryError as error:
        raise question.source.error(error.message, question.whole, detail=error.detail, hint=error.hint) from None
    columns = [values(column) for column in answer.table.columns]
    return list(answer.schema.names), list(zip(*columns, strict=True))


def explain(question: Question, views: Mapping[str, View]) -> list[str]:
    """How the question is answered, line by line."""
    return explain_query(question, _schemas(views))


def _schemas(views: Mapping[str, View]) -> dict[str, Schema]:
    return {name: table_schema(view) for name, view in views.items()}


def _scan(scan: Scan, schema: Schema, rows: Sequence[Mapping[str, object]]) -> pa.Table:
    """The rows of a view, in the columns that a question needs."""
    if not scan.columns:
        return pa.table({"__row": pa.nulls(len(rows), pa.bool_())})
    return pa.table({name: column([row[name] for row in rows], schema.type_of(name)) for name in scan.columns})
