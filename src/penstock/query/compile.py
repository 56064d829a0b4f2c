"""Compiles the statement of a question: parses it as Spark does, bounds it, plans it, and places its errors."""

from __future__ import annotations

import time
from collections.abc import Mapping

from sqlglot import exp
from sqlglot.errors import ErrorLevel, ParseError
from sqlglot.tokenizer_core import Token, TokenType

from penstock.errors import DefinitionError, PenstockError
from penstock.model.expressions.coerce import Outside
from penstock.model.expressions.tree import INTERVAL, VOID
from penstock.model.time import Instant
from penstock.model.types import Schema
from penstock.query.arithmetic import INTERVALS
from penstock.query.plan import Plan, QueryLimits, Scan
from penstock.query.planner import Planner
from penstock.query.relations import Output
from penstock.sql.dialect import Penstock, tokenize
from penstock.sql.errors import Source, SqlError
from penstock.sql.statements import Question

_OPENS, _CLOSES = (
    (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.CASE),
    (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.END),
)


def compile_tree(
    statement: Question, tables: Mapping[str, Schema], *, now: Instant | None, limits: QueryLimits
) -> Plan:
    """The plan of a question."""
    source, start = statement.source, statement.whole.start
    tree = _parsed(statement, limits)
    planner = Planner(tables, time.time_ns() // 1000 if now is None else now)
    try:
        relation = planner.query(tree, None, {}, top=True)
        schema = _schema(relation.outputs)
    except Outside as error:
        raise _placed(source, start, error, DefinitionError(_in_words(error.reason))) from None
    except SqlError:
        raise
    except PenstockError as error:
        raise _placed(source, start, error, error) from None
    except RecursionError:
        raise source.error("the question is too deep", statement.whole, hint="name the inner parts with WITH") from None
    named = f"WITH {', '.join(planner.named)} " if planner.named else ""
    scans = tuple(
        Scan(use.view, use.name, tuple(sorted(use.columns, key=tables[use.view].names.index)), tuple(use.filters))
        for use in planner.scans
    )
    return Plan(named + relation.sql, tuple(planner.renderer.parameters), scans, schema)


def _parsed(statement: Question, limits: QueryLimits) -> exp.Expr:
    """The tree, with Spark's precedence and every function under its own name."""
    source, whole = statement.source, statement.whole
    tokens = tokenize(statement.text)
    if len(tokens) > limits.tokens:
        hint = "ask in parts, or join with a view"
        raise source.error(
            f"the question has {len(tokens)} words and signs; there may be {limits.tokens}", whole, hint=hint
        )
    if (depth := _brackets(tokens)) > limits.brackets:
        raise source.error(f"the question has {depth} brackets in brackets; there may be {limits.brackets}", whole)
    try:
        trees = Penstock().parser(error_level=ErrorLevel.IMMEDIATE).parse(tokens, statement.text)
    except (ParseError, RecursionError, AttributeError, IndexError, KeyError, TypeError, ValueError):
        raise source.error("cannot read this SELECT", whole, hint="write a SELECT of Spark SQL") from None
    tree = trees[0]
    assert tree is not None
    if (depth := _depth(tree, limits.depth)) > limits.depth:
        hint = "name the inner parts with WITH"
        raise source.error(f"the question is nested more than {limits.depth} deep", whole, hint=hint)
    return tree


def _brackets(tokens: list[Token]) -> int:
    depth = deepest = 0
    for token in tokens:
        depth += (token.token_type in _OPENS) - (token.token_type in _CLOSES)
        deepest = max(deepest, depth)
    return deepest


def _depth(tree: exp.Expr, limit: int) -> int:
    """How deep a tree is; chains of AND and OR count as one."""
    stack, deepest = [(tree, 1)], 0
    while stack:
        node, depth = stack.pop()
        deepest = max(deepest, depth)
        if deepest > limit:
            return deepest
        for child in node.iter_expressions():
            chained = isinstance(node, (exp.And, exp.Or)) and type(child) is type(node)
            stack.append((child, depth if chained else depth + 1))
    return deepest


def _schema(outputs: tuple[Output, ...]) -> Schema:
    seen: set[str] = set()
    for one in outputs:
        if one.type == VOID:
            raise Outside(f"the column '{one.name}' is always NULL and has no type: write CAST(NULL AS type)")
        if one.type in INTERVALS or one.type == INTERVAL:
            hint = "take timestampdiff(SECOND, start, end) or datediff(end, start)"
            raise Outside(f"the column '{one.name}' is an interval, which an answer cannot hold: {hint}")
        if one.name.lower() in seen:
            raise Outside(f"two columns are called '{one.name}': give one an alias")
        seen.add(one.name.lower())
    return Schema(tuple((one.name, one.type) for one in outputs))


def _placed(source: Source, start: int, error: Exception, shown: PenstockError) -> SqlError:
    tree = getattr(error, "tree", None)
    at = start
    if isinstance(tree, exp.Expr):
        at = next((start + int(part.meta["start"]) for part in tree.walk() if "start" in part.meta), start)
    return source.error(shown.message, at, detail=shown.detail, hint=shown.hint)


def _in_words(reason: str) -> str:
    return reason.replace("is outside the kernel", "is not answered here").replace("«", "'").replace("»", "'")
