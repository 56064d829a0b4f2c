"""Compiles the statement of a question: plans it, and places its errors in the text."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping

from sqlglot import exp

from penstock.errors import DefinitionError, PenstockError
from penstock.model.expressions.coerce import Outside
from penstock.model.expressions.tree import INTERVAL, VOID
from penstock.model.time import Instant
from penstock.model.types import Schema
from penstock.query.arithmetic import INTERVALS
from penstock.query.plan import Plan, Scan
from penstock.query.planner import Planner
from penstock.query.relations import Output
from penstock.sql.errors import Source, SqlError
from penstock.sql.statements import Question

#: A parameter, or a name in quotes, which may look like one.
_PARAMETER = re.compile(r'"(?:[^"]|"")*"|\$(\d+)')


def compile_tree(statement: Question, tables: Mapping[str, Schema], *, now: Instant | None) -> Plan:
    """The plan of a question."""
    source, start = statement.source, statement.whole.start
    planner = Planner(tables, time.time_ns() // 1000 if now is None else now)
    try:
        relation = planner.query(statement.tree, None, {}, top=True)
        schema = _schema(relation.outputs)
    except Outside as error:
        raise _placed(source, start, error, DefinitionError(_in_words(error.reason))) from None
    except SqlError:
        raise
    except PenstockError as error:
        raise _placed(source, start, error, error) from None
    except RecursionError:
        raise source.error(
            "the query is nested too deeply", statement.whole, hint="name the inner parts with WITH"
        ) from None
    named = f"WITH {', '.join(planner.named)} " if planner.named else ""
    sql, parameters = _numbered(named + relation.sql, planner.renderer.parameters)
    scans = tuple(
        Scan(use.view, use.name, tuple(sorted(use.columns, key=tables[use.view].names.index)), tuple(use.filters))
        for use in planner.scans
    )
    return Plan(sql, parameters, scans, schema)


def _numbered(sql: str, values: list[object]) -> tuple[str, tuple[object, ...]]:
    """Only the parameters that the text uses: a constant may have become a part of the plan."""
    used: dict[str, int] = {}

    def renumbered(match: re.Match[str]) -> str:
        return match[0] if match[1] is None else f"${used.setdefault(match[1], len(used) + 1)}"

    text = _PARAMETER.sub(renumbered, sql)
    return text, tuple(values[int(number) - 1] for number in used)


def _schema(outputs: tuple[Output, ...]) -> Schema:
    seen: set[str] = set()
    for output in outputs:
        if output.type == VOID:
            raise Outside(f"the column '{output.name}' is always NULL and has no type: write CAST(NULL AS type)")
        if output.type in INTERVALS or output.type == INTERVAL:
            hint = "take timestampdiff(SECOND, start, end) or datediff(end, start)"
            raise Outside(f"the column '{output.name}' is an interval, which an answer cannot hold: {hint}")
        if output.name.lower() in seen:
            raise Outside(f"two columns are called '{output.name}': give one an alias")
        seen.add(output.name.lower())
    return Schema(tuple((column.name, column.type) for column in outputs))


def _placed(source: Source, start: int, error: Exception, cause: PenstockError) -> SqlError:
    tree = getattr(error, "tree", None)
    at = start
    if isinstance(tree, exp.Expr):
        at = next((int(part.meta["start"]) for part in tree.walk() if "start" in part.meta), start)
    return source.error(cause.message, at, detail=cause.detail, hint=cause.hint)


def _in_words(reason: str) -> str:
    return reason.replace("is outside the kernel", "is not supported here").replace("'", "'").replace("'", "'")
