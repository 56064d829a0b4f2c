"""What may stand in a SELECT over views: the nodes and functions that the store knows and that only read."""

from __future__ import annotations

import difflib
import re

from sqlglot import exp

from penstock.sql.errors import Piece, Source

#: The parts of a query and of its expressions. Operators are all let through: see `_OPERATORS`.
_PARTS = (
    exp.Select, exp.Subquery, exp.SetOperation, exp.With, exp.CTE, exp.From, exp.Join, exp.Where, exp.Group, exp.Having,
    exp.Order, exp.Ordered, exp.Limit, exp.Offset, exp.Distinct, exp.Table, exp.TableAlias, exp.Column, exp.Identifier,
    exp.Star, exp.Alias, exp.Literal, exp.Boolean, exp.Null, exp.Paren, exp.Tuple, exp.Between, exp.In, exp.Case,
    exp.If, exp.Exists, exp.Window, exp.WindowSpec, exp.Filter, exp.Interval, exp.Var, exp.Cast, exp.DataType,
)  # fmt: skip
_OPERATORS = (
    exp.And, exp.Or, exp.Not, exp.Neg, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Is, exp.NullSafeEQ,
    exp.NullSafeNEQ, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.IntDiv, exp.DPipe, exp.Like, exp.BitwiseAnd,
    exp.BitwiseOr,
)  # fmt: skip
#: Functions under SQLGlot's names, each with the name people write.
FUNCTIONS: dict[type[exp.Expr], str] = {
    exp.Count: "count", exp.Sum: "sum", exp.Avg: "avg", exp.Min: "min", exp.Max: "max", exp.Abs: "abs",
    exp.Round: "round", exp.Coalesce: "coalesce", exp.Nullif: "nullif", exp.Lower: "lower", exp.Upper: "upper",
    exp.Length: "length", exp.Trim: "trim", exp.Substring: "substring", exp.Replace: "replace",
    exp.Concat: "concat", exp.RowNumber: "row_number", exp.Rank: "rank", exp.DenseRank: "dense_rank",
    exp.PercentRank: "percent_rank", exp.CumeDist: "cume_dist", exp.Ntile: "ntile", exp.Lag: "lag", exp.Lead: "lead",
    exp.FirstValue: "first_value", exp.LastValue: "last_value", exp.NthValue: "nth_value",
    exp.CurrentTimestamp: "current_timestamp", exp.CurrentDate: "current_date", exp.Date: "date",
    exp.TsOrDsToDate: "date", exp.Sign: "sign",
}  # fmt: skip
#: Functions of the store that SQLGlot has no name for.
PLAIN = frozenset({
    "instr", "substr", "typeof", "json_extract", "json_array_length", "date", "datetime", "time", "strftime",
    "unixepoch", "julianday", "total", "ifnull", "iif", "unicode", "hex", "ltrim", "rtrim", "now",
})  # fmt: skip
_TYPES = {
    exp.DType.INT, exp.DType.BIGINT, exp.DType.DOUBLE, exp.DType.FLOAT, exp.DType.TEXT, exp.DType.VARCHAR,
    exp.DType.BOOLEAN, exp.DType.DATE, exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPNTZ,
}  # fmt: skip
_WORDS = {"SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "YEAR", "MILLISECOND", "MICROSECOND"}


def check_nodes(tree: exp.Expr, source: Source, whole: Piece) -> None:
    """Refuses a query that holds anything that is not listed here."""
    for node in tree.walk():
        if isinstance(node, exp.Func) and not isinstance(node, (*_PARTS, *_OPERATORS)):
            _check_function(node, source, whole)
        elif not isinstance(node, (*_PARTS, *_OPERATORS)):
            raise source.error(
                f"{_said(node)} is not answered here", place(node, whole),
                hint="ask with a plain SELECT over views",
            )  # fmt: skip
        if isinstance(node, exp.DataType) and (node.this not in _TYPES or node.expressions):
            raise source.error(
                f"the store has no type {node.sql('spark')}", place(node, whole),
                detail="there are: int, bigint, float, double, string, boolean, date, timestamp",
            )  # fmt: skip
        if isinstance(node, exp.Var) and node.name.upper().removesuffix("S") not in _WORDS:
            raise source.error(f"«{node.name}» is not answered here", place(node, whole))
        if isinstance(node, exp.WindowSpec):
            _check_frame(node, source, whole)
        if isinstance(node, exp.Select) and set(_said_of(node)) - _CLAUSES:
            word = min(set(_said_of(node)) - _CLAUSES)
            raise source.error(f"{word.upper()} is not answered here", place(node, whole))


_CLAUSES = {
    "expressions", "from_", "joins", "where", "group", "having", "order", "limit", "offset", "distinct",
    "with_", "kind", "from", "with",
}  # fmt: skip


def _said_of(node: exp.Expr) -> list[str]:
    return [name for name, value in node.args.items() if value]


def _check_function(node: exp.Expr, source: Source, whole: Piece) -> None:
    if isinstance(node, exp.Anonymous):
        name = node.name.lower()
        if name in PLAIN:
            return
    elif type(node) in FUNCTIONS:
        return
    else:
        name = node.sql_name().lower() if isinstance(node, exp.Func) else str(node.key)
    names = sorted({*FUNCTIONS.values(), *PLAIN})
    at, name = _written(source, whole, name, names)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.7)
    raise source.error(
        f"the store has no function «{name}»", at,
        detail=f"there are: {', '.join(names)}", hint=f"did you mean {near[0]}?" if near else None,
    )  # fmt: skip


def _written(source: Source, whole: Piece, name: str, known: list[str]) -> tuple[int, str]:
    """Where a function that is not known stands, and its name as it was written."""
    for found in re.finditer(r"(\w+)\s*\(", source.text[whole.start : whole.end]):
        if found[1].lower() not in {*known, "in", "over", "filter", "exists", "and", "or", "as", "from", "by", "cast"}:
            return whole.start + found.start(), found[1].lower()
    return whole.start, name


_FRAME = {"ROWS", "RANGE", "GROUPS", "PRECEDING", "FOLLOWING", "UNBOUNDED", "CURRENT ROW"}


def _check_frame(node: exp.WindowSpec, source: Source, whole: Piece) -> None:
    """The words of a window's frame are kept as text: only known ones may get through."""
    for name, value in node.args.items():
        if isinstance(value, str):
            if value.upper() not in _FRAME:
                raise source.error(f"«{value}» cannot stand in a window's frame", whole)
            node.set(name, value.upper())


def _said(node: exp.Expr) -> str:
    return f"«{node.sql('spark')[:60]}»"


def place(node: exp.Expr, whole: Piece) -> int:
    """Where a node begins in the text, as far as SQLGlot tells: it marks names only."""
    for part in node.walk():
        start = part.meta.get("start")
        if start is not None:
            return int(start)
    return whole.start
