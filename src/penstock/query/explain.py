"""How a question is answered: what is read of each view, the SQL that DuckDB runs, and the types of the answer."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.model.types import Schema
from penstock.query.plan import Filter, compile_query
from penstock.sql.statements import Question


def explain_query(question: Question, tables: Mapping[str, Schema]) -> list[str]:
    """The plan of a question, line by line."""
    plan = compile_query(question, tables)
    lines = []
    for scan in plan.scans:
        conditions = "".join(f", where {_shown(condition)}" for condition in scan.filters)
        lines.append(f"{scan.name}: reads {', '.join(scan.columns) or 'the number of rows'} of {scan.view}{conditions}")
    lines.append(plan.sql)
    lines += [f"${number} = {value!r}" for number, value in enumerate(plan.parameters, 1)]
    lines.append(f"answers {plan.schema.ddl()}")
    return lines


def _shown(condition: Filter) -> str:
    return " ".join([condition.column, condition.op, ", ".join(map(repr, condition.values))]).strip()
