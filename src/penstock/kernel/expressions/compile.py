"""From a bound expression to Polars: one column of values and, only where it can fail, one of failures.

>>> from penstock.model.expressions import bind
>>> from penstock.model.types import Schema
>>> compile(bind("price > 10", Schema.parse("price int"))).error is None
True
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import polars as pl

from penstock.errors import DefinitionError
from penstock.kernel.expressions.casts import cast
from penstock.kernel.expressions.dtypes import constant, dtype
from penstock.kernel.expressions.logic import LOGIC
from penstock.kernel.expressions.nested import NESTED
from penstock.kernel.expressions.numbers import NUMBERS
from penstock.kernel.expressions.outcome import Rule, outcome
from penstock.kernel.expressions.text import TEXT
from penstock.kernel.expressions.time import TIME
from penstock.model.expressions import Bound
from penstock.model.expressions.order import order
from penstock.model.expressions.tree import Call, Column, Literal, Node, is_constant

_RULES: dict[str, Rule] = {**LOGIC, **NUMBERS, **NESTED, **TEXT, **TIME, "cast": cast}
_FINE = pl.lit(None, dtype=pl.String)


@dataclass(frozen=True)
class Compiled:
    """Columns for Polars. Where `error` is a text, the row fails with it and `value` means nothing; None: never."""

    value: pl.Expr
    error: pl.Expr | None


def compile(bound: Bound) -> Compiled:
    """The expression for Polars; one that the kernel cannot evaluate is rejected."""
    if bound.tree is None:
        raise DefinitionError(f"'{bound.text}' is Spark's to evaluate", detail=bound.outside)
    compiled = _node(bound.tree)
    if not bound.columns or not _has_constant_call(bound.tree):
        return compiled
    # Such a call fails, or it would have been computed by `bind`. As a condition it is a scalar, and would leave its
    # length to the result; a column says how many rows there are.
    rows = pl.col(min(bound.columns)).is_null()
    error = None if compiled.error is None else pl.when(rows).then(compiled.error).otherwise(compiled.error)
    return Compiled(pl.when(rows).then(compiled.value).otherwise(compiled.value), error)


def _has_constant_call(node: Node) -> bool:
    return isinstance(node, Call) and (is_constant(node) or any(_has_constant_call(arg) for arg in node.args))


def _node(node: Node) -> Compiled:
    match node:
        case Column(name=name):
            return Compiled(pl.col(name), None)
        case Literal():
            return Compiled(constant(node), None)
        case Call(name="and"):
            return _and_or(node, decided=False)
        case Call(name="or"):
            return _and_or(node, decided=True)
        case Call(name="case"):
            return _case(node)
        case Call(name="coalesce"):
            return _coalesce(node)
        case Call(name="in"):
            return _in(node)
        case Call(name="nanvl"):
            return _nanvl(node)
        case Call():
            return _call(node)


def _call(call: Call) -> Compiled:
    args = [_node(arg) for arg in call.args]
    how = order(call.name)
    own = outcome(_RULES[call.name](call, *_aligned(call, [arg.value for arg in args])))
    if how == "reversed":
        dividend, divisor = args
        stop = divisor.value.is_null() | (divisor.value == 0) if call.safe else divisor.value.is_null()
        error = _first(divisor.error, _only_if(~stop, dividend.error))
    else:
        error = _in_turn(args, stop_at_null=how == "strict")
    if own.fails is None:
        return Compiled(own.value, error)
    if call.safe:
        return Compiled(pl.when(own.fails).then(None).otherwise(own.value), error)
    failure = (
        pl.when(own.fails).then(pl.lit(own.reason) if isinstance(own.reason, str) else own.reason).otherwise(_FINE)
    )
    return Compiled(own.value, failure if error is None else pl.coalesce(error, failure))


def _aligned(call: Call, values: list[pl.Expr]) -> list[pl.Expr]:
    """The arguments, with a constant on the left made as long as what stands on the right.

    Where all rows of a `when` take one constant, Polars 2.1 keeps it as a scalar; after a constant on the left it then
    forgets the number of rows.
    """
    if len(values) == 2 and isinstance(call.args[0], Literal) and isinstance(call.args[1], Call):
        constant, other = values
        return [pl.when(other.is_null()).then(constant).otherwise(constant), other]
    return values


def _in_turn(args: Sequence[Compiled], *, stop_at_null: bool) -> pl.Expr | None:
    """The first failure of arguments that are evaluated one after the other; after a null none is, if so."""
    error: pl.Expr | None = None
    for arg in reversed(args):
        later = error
        if later is not None and stop_at_null:
            later = pl.when(arg.value.is_not_null()).then(later).otherwise(_FINE)
        error = _first(arg.error, later)
    return error


def _first(error: pl.Expr | None, later: pl.Expr | None) -> pl.Expr | None:
    if error is None or later is None:
        return later if error is None else error
    return pl.coalesce(error, later)


def _only_if(condition: pl.Expr, error: pl.Expr | None) -> pl.Expr | None:
    return None if error is None else pl.when(condition).then(error).otherwise(_FINE)


def _and_or(call: Call, *, decided: bool) -> Compiled:
    left, right = (_node(arg) for arg in call.args)
    undecided = (left.value if not decided else ~left.value).fill_null(True)
    value = left.value | right.value if decided else left.value & right.value
    return Compiled(value, _first(left.error, _only_if(undecided, right.error)))


def _case(call: Call) -> Compiled:
    *branches, default = (_node(arg) for arg in call.args)
    value, error = default.value, default.error
    for condition, result in reversed(list(zip(branches[::2], branches[1::2], strict=True))):
        value = pl.when(condition.value).then(result.value).otherwise(value)
        if result.error is not None or error is not None:
            fine = _FINE
            chosen = pl.when(condition.value).then(fine if result.error is None else result.error)
            error = chosen.otherwise(fine if error is None else error)
        error = _first(condition.error, error)
    return Compiled(value.cast(dtype(call.type)) if _all_null(call) else value, error)


def _all_null(call: Call) -> bool:
    return all(isinstance(arg, Literal) and arg.value is None for arg in (*call.args[1::2], call.args[-1]))


def _coalesce(call: Call) -> Compiled:
    args = [_node(arg) for arg in call.args]
    error: pl.Expr | None = None
    for arg in reversed(args):
        error = _first(arg.error, _only_if(arg.value.is_null(), error))
    return Compiled(pl.coalesce(*(arg.value for arg in args)), error)


def _in(call: Call) -> Compiled:
    value, *others = (_node(arg) for arg in call.args)
    if all(isinstance(arg, Literal) for arg in call.args[1:]):
        return Compiled(_among(value.value, [arg for arg in call.args[1:] if isinstance(arg, Literal)]), value.error)
    hits = [other.value == value.value for other in others]
    error: pl.Expr | None = None
    for hit, other in zip(reversed(hits), reversed(others), strict=True):
        error = _first(other.error, _only_if(~hit.fill_null(False), error))
    any_hit = reduce(lambda left, right: left | right, hits)
    return Compiled(any_hit, _first(value.error, _only_if(value.value.is_not_null(), error)))


def _among(value: pl.Expr, constants: list[Literal]) -> pl.Expr:
    """A null among the constants turns 'no' into 'unknown'."""
    known = [literal for literal in constants if literal.value is not None]
    hits = [value == constant(literal) for literal in known]
    any_hit = reduce(lambda left, right: left | right, hits) if hits else pl.lit(False)
    return any_hit if len(known) == len(constants) else pl.when(any_hit).then(True).otherwise(None)


def _nanvl(call: Call) -> Compiled:
    first, second = (_node(arg) for arg in call.args)
    is_nan = first.value.is_nan()
    value = pl.when(is_nan).then(second.value).otherwise(first.value)
    return Compiled(value, _first(first.error, _only_if(is_nan, second.error)))
