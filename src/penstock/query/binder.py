"""Binds the expressions of a question: those of a row as the model does; aggregates, window functions, subqueries."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import ClassVar, Protocol, TypeVar

from sqlglot import exp

from penstock.errors import DefinitionError
from penstock.model.expressions.bind import Binder, choose
from penstock.model.expressions.calendar import DAY
from penstock.model.expressions.coerce import Outside, cast, comparable
from penstock.model.expressions.functions import Rule
from penstock.model.expressions.literals import number
from penstock.model.expressions.tree import INTERVAL, VOID, Call, Literal
from penstock.model.time import Instant
from penstock.model.types import Schema, is_integer, is_numeric
from penstock.query import arithmetic
from penstock.query.aggregates import AGGREGATES, ORDERED, WINDOWS, WITHIN_GROUP
from penstock.query.arithmetic import DAYS, INTERVALS
from penstock.query.functions import FUNCTIONS, SPECIAL, UNIT_FIRST, item, part
from penstock.query.intervals import interval
from penstock.query.nodes import Aggregate, Node, Sorted, Subquery, Windowed
from penstock.query.types import is_comparable

#: Every name that a question may call.
NAMES = tuple(sorted({*FUNCTIONS, *AGGREGATES, *WINDOWS, *SPECIAL}))
T = TypeVar("T")
_NOW = ("now", "current_timestamp")
_TODAY = ("current_date", "curdate")


class Place(Protocol):
    """Where an expression stands: what its names mean, and what a subquery in it gives."""

    now: Instant

    def column(self, name: str, table: str | None) -> Node: ...
    def subquery(self, tree: exp.Query, kind: str, arg: Node | None) -> Subquery: ...
    def window(self, name: str) -> exp.Window: ...
    def bind(self, value: object) -> str: ...


class QuestionBinder(Binder):
    """Binds one expression. `aggregates` and `windows` say whether such functions may stand there.

    `over_groups`: an aggregate over a window may take aggregates of groups, as in sum(sum(x)) OVER ().
    """

    rules: ClassVar[Mapping[str, Rule]] = {**FUNCTIONS, **arithmetic.RULES}

    def __init__(
        self, place: Place, *, aggregates: bool = False, windows: bool = False, over_groups: bool = False
    ) -> None:
        super().__init__(Schema(()))
        self.place, self._aggregates, self._windows, self._over_groups = place, aggregates, windows, over_groups

    def node(self, tree: exp.Expr) -> Node:  # type: ignore[override]
        try:
            return self._node(tree)
        except (Outside, DefinitionError) as error:
            if not hasattr(error, "tree"):
                error.tree = tree  # type: ignore[union-attr]
            raise

    def _node(self, tree: exp.Expr) -> Node:
        match tree:
            case exp.And() | exp.Or():
                return self._chain(tree)
            case exp.Window():
                return self._window(tree)
            case exp.Filter():
                return self._filter(tree)
            case exp.WithinGroup():
                return self._within_group(tree)
            case exp.Subquery() | exp.Select():
                return self.place.subquery(_query(tree), "scalar", None)
            case exp.Exists():
                return self.place.subquery(_query(tree.this), "exists", None)
            case exp.In() if tree.args.get("query") is not None:
                return self.place.subquery(_query(tree.args["query"]), "in", self.node(tree.this))
            case exp.In() if tree.args.get("unnest") is not None or tree.args.get("field") is not None:
                raise Outside("IN takes a list of values or a query")
            case exp.CurrentTimestamp():
                return Literal(self.place.now, "timestamp")
            case exp.CurrentDate():
                return Literal(self.place.now // DAY, "date")
            case exp.Bracket():
                if len(tree.expressions) != 1:
                    raise Outside("an array has one index")
                return item(self.node(tree.this), self.node(tree.expressions[0]))  # type: ignore[arg-type]
            case exp.BitwiseAnd() | exp.BitwiseOr() | exp.BitwiseXor():
                symbol = {exp.BitwiseAnd: "&", exp.BitwiseOr: "|", exp.BitwiseXor: "^"}[type(tree)]
                return self.rules[symbol](self.node(tree.this), self.node(tree.expression))
            case exp.Any() if not isinstance(tree.this, (exp.Query, exp.Tuple)):
                return self._aggregate(exp.Anonymous(this="any", expressions=[tree.this]))
            case exp.BitwiseNot():
                return self.rules["~"](self.node(tree.this))
            case exp.Interval():
                return interval(tree)
            case exp.Neg() if isinstance(tree.this, exp.Cast) and _is_number(tree.this.this):
                # -128Y is one literal, whose suffix is read as a cast: 128 is not a tinyint.
                negated = tree.this.copy()
                negated.set("this", exp.Neg(this=negated.this))
                return self.cast(negated)
        return super().node(tree)

    def _chain(self, tree: exp.Expr) -> Node:
        """a AND b AND c … as a balanced tree: a chain may be longer than the stack is deep."""
        kind, terms = type(tree), []
        while isinstance(tree, kind):
            terms.append(tree.expression)
            tree = tree.this
        terms.append(tree)
        nodes = [self._boolean(term) for term in reversed(terms)]
        name = "and" if kind is exp.And else "or"
        while len(nodes) > 1:
            paired: list[Node] = [Call(name, (a, b), "boolean") for a, b in zip(nodes[::2], nodes[1::2], strict=False)]  # type: ignore[arg-type]
            nodes = paired + nodes[len(paired) * 2 :]
        return nodes[0]

    def _boolean(self, tree: exp.Expr) -> Node:
        node = self.node(tree)
        if node.type not in ("boolean", "string", VOID):
            raise Outside(f"AND and OR take booleans, not {node.type}")
        return cast(node, "boolean")  # type: ignore[arg-type]

    def column(self, tree: exp.Column) -> Node:  # type: ignore[override]
        parts = [piece.name for piece in tree.parts]
        if len(parts) > 2:
            raise Outside(f"'{'.'.join(parts)}' is not a column; fields of structs are not supported here")
        return self.place.column(parts[-1], parts[0] if len(parts) == 2 else None)

    def compare(self, tree: exp.Binary) -> Node:  # type: ignore[override]
        left, right = self.node(tree.this), self.node(tree.expression)
        if left.type in INTERVALS or right.type in INTERVALS:
            kinds = {left.type, right.type}
            if not (kinds <= {INTERVAL, DAYS} or len(kinds) == 1):
                raise Outside(f"{left.type} cannot be compared with {right.type}")
            left, right = (_retyped(side) for side in (left, right))
        left, right = comparable(left, right, "comparison")  # type: ignore[arg-type]
        match tree:
            case exp.NEQ():
                return Call("not", (Call("eq", (left, right), "boolean"),), "boolean")
            case exp.NullSafeNEQ():
                return Call("not", (Call("same", (left, right), "boolean"),), "boolean")
        return Call(_COMPARISONS[type(tree)], (left, right), "boolean")

    def if_(self, tree: exp.If) -> Node:  # type: ignore[override]
        otherwise = tree.args.get("false")
        default: Node = Literal(None, VOID) if otherwise is None else self.node(otherwise)
        return choose([(self.node(tree.this), self.node(tree.args["true"]))], default)  # type: ignore[arg-type, list-item]

    def extract(self, tree: exp.Extract) -> Node:  # type: ignore[override]
        return part(tree.this.name, self.node(tree.expression))  # type: ignore[arg-type]

    def call(self, tree: exp.Anonymous) -> Node:  # type: ignore[override]
        name = tree.name.lower()
        if name in _NOW and not tree.expressions:
            return Literal(self.place.now, "timestamp")
        if name in _TODAY and not tree.expressions:
            return Literal(self.place.now // DAY, "date")
        if name in AGGREGATES:
            return self._aggregate(tree)
        if name in WINDOWS:
            hint = "; as an aggregate, its answer would depend on the order of rows: use min_by or max_by"
            raise Outside(
                f"{name} needs OVER (…)" + (hint if name in ("first", "last", "first_value", "last_value") else "")
            )
        rule = self.rules.get(name)
        if rule is None or not name.isidentifier():
            raise unknown_function(name)
        trees = tree.expressions
        if name in UNIT_FIRST and len(trees) == 3:
            args: list[Node] = [Literal(trees[0].name, "string"), *map(self.node, trees[1:])]
        else:
            args = [self.node(arg) for arg in trees]
        return _applied(name, rule, args)

    def _aggregate(self, tree: exp.Anonymous, within: exp.Order | None = None) -> Aggregate:
        name = tree.name.lower()
        if not self._aggregates:
            raise Outside(f"the aggregate {name} is not allowed here")
        inside = QuestionBinder(self.place, aggregates=self._over_groups)
        trees, distinct = list(tree.expressions), False
        if len(trees) == 1 and isinstance(trees[0], exp.Distinct):
            distinct, trees = True, list(trees[0].expressions)
        elif trees and isinstance(trees[0], exp.Distinct):
            distinct, trees = True, [*trees[0].expressions, *trees[1:]]
        if name == "count" and len(trees) == 1 and isinstance(trees[0], exp.Star):
            if distinct:
                raise Outside("count(DISTINCT *) is not supported: name the columns")
            return Aggregate("count", (), "bigint")
        args = [inside.node(arg) for arg in trees]
        order = () if within is None else sorted_terms(within, inside.node)
        if name in WITHIN_GROUP:
            if len(order) != 1:
                raise Outside(f"{name} needs WITHIN GROUP (ORDER BY one value)")
            args = [order[0].node, *args]
        aggregate = _applied(name, AGGREGATES[name], args)
        assert isinstance(aggregate, Aggregate)
        if within is not None and aggregate.name not in ("listagg", "percentile", "percentile_disc"):
            raise Outside(f"{name} takes no WITHIN GROUP")
        if distinct and aggregate.name in ("listagg",) and any(term.node != aggregate.args[0] for term in order):
            raise Outside(f"{name}(DISTINCT …) can be ordered by its own values only")
        if distinct and not is_comparable(aggregate.args[0].type):
            raise Outside(f"DISTINCT of {aggregate.args[0].type} is not supported")
        return Aggregate(aggregate.name, aggregate.args, aggregate.type, distinct, None, order)

    def _within_group(self, tree: exp.WithinGroup) -> Node:
        if not isinstance(tree.this, exp.Anonymous) or tree.this.name.lower() not in AGGREGATES:
            raise Outside("WITHIN GROUP must follow an aggregate")
        return self._aggregate(tree.this, tree.expression)

    def _filter(self, tree: exp.Filter) -> Aggregate:
        aggregate = self.node(tree.this)
        if not isinstance(aggregate, Aggregate):
            raise Outside("FILTER must follow an aggregate")
        where = QuestionBinder(self.place).node(tree.expression.this)
        return Aggregate(
            aggregate.name,
            aggregate.args,
            aggregate.type,
            aggregate.distinct,
            condition(where, "FILTER"),
            aggregate.order,
        )

    def _window(self, tree: exp.Window) -> Windowed:
        if not self._windows:
            raise Outside("a window function is not allowed here")
        inner, ignore = tree.this, False
        if isinstance(inner, (exp.IgnoreNulls, exp.RespectNulls)):
            inner, ignore = inner.this, isinstance(inner, exp.IgnoreNulls)
        if tree.args.get("alias") is not None:
            if tree.args.get("partition_by") or tree.args.get("order") or tree.args.get("spec"):
                raise Outside("a named window is used as it is: OVER name")
            spec = self.place.window(tree.args["alias"].name)
        else:
            spec = tree
        below = QuestionBinder(self.place, aggregates=self._aggregates)
        partition = tuple(
            _comparable(below.node(expression), "PARTITION BY") for expression in spec.args.get("partition_by") or ()
        )
        order = () if spec.args.get("order") is None else sorted_terms(spec.args["order"], below.node)
        frame = self._frame(spec.args.get("spec"), order)
        called = inner.this if isinstance(inner, (exp.Filter, exp.WithinGroup)) else inner
        name = called.name.lower() if isinstance(called, exp.Anonymous) else ""
        if name in WINDOWS:
            duckdb_name, args, kind = _applied(name, WINDOWS[name], [below.node(arg) for arg in called.expressions])
            if name in ORDERED and not order:
                raise Outside(f"{name} needs OVER (ORDER BY …)")
            if name in ORDERED and frame:
                raise Outside(f"{name} takes no frame")
            if kind == VOID:
                raise Outside(f"{name} of NULL is not supported")
            return Windowed(duckdb_name, args, kind, None, ignore, partition, order, frame)
        if name not in AGGREGATES or ignore:
            raise (
                unknown_function(name)
                if name and name not in AGGREGATES
                else Outside(f"{name or 'this'} takes no OVER")
            )
        over = QuestionBinder(self.place, aggregates=True, over_groups=self._aggregates)
        aggregate = over.node(inner)
        assert isinstance(aggregate, Aggregate)
        if aggregate.distinct or aggregate.order:
            raise Outside("DISTINCT and WITHIN GROUP are not allowed in a window function")
        return Windowed(aggregate.name, (), aggregate.type, aggregate, False, partition, order, frame)

    def _frame(self, spec: exp.WindowSpec | None, order: tuple[Sorted, ...]) -> str:
        if spec is None:
            return ""
        kind = str(spec.args.get("kind") or "").upper()
        if kind not in ("ROWS", "RANGE"):
            raise Outside("a frame is of ROWS or of a RANGE")
        start = self._bound(spec.args.get("start"), spec.args.get("start_side"), kind, order)
        if spec.args.get("end") is None:
            return f"{kind} {start}"
        return f"{kind} BETWEEN {start} AND {self._bound(spec.args['end'], spec.args.get('end_side'), kind, order)}"

    def _bound(self, value: object, side: object, kind: str, order: tuple[Sorted, ...]) -> str:
        if isinstance(value, str) and value.upper() == "CURRENT ROW":
            return "CURRENT ROW"
        word = str(side or "").upper()
        if word not in ("PRECEDING", "FOLLOWING"):
            raise Outside("a frame ends PRECEDING, FOLLOWING or at the CURRENT ROW")
        if isinstance(value, str) and value.upper() == "UNBOUNDED":
            return f"UNBOUNDED {word}"
        if not isinstance(value, exp.Literal) or not _is_number(value):
            raise Outside("a frame's bound must be a number")
        bound = number(value.name)
        if kind == "ROWS":
            if not is_integer(bound.type):
                raise Outside("a frame of ROWS has a whole number of them")
            return f"CAST({self.place.bind(bound.value)} AS BIGINT) {word}"
        if len(order) != 1 or not is_numeric(order[0].node.type) or not is_integer(bound.type):
            raise Outside("a RANGE by value needs one numeric term in ORDER BY, and a whole number")
        return f"CAST({self.place.bind(bound.value)} AS INTEGER) {word}"


_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "eq", exp.LT: "lt", exp.LTE: "le", exp.GT: "gt", exp.GTE: "ge", exp.NullSafeEQ: "same",
}  # fmt: skip


def _retyped(node: Node) -> Node:
    """An interval as the whole number that it is."""
    if isinstance(node, Literal):
        return Literal(node.value, "bigint")
    return Call("positive", (node,), "bigint")  # type: ignore[arg-type]


def _query(tree: exp.Expr) -> exp.Query:
    inner = tree
    while isinstance(inner, (exp.Paren, exp.Subquery)) and not (
        isinstance(inner, exp.Subquery) and inner.args.get("order")
    ):
        inner = inner.this
    if not isinstance(inner, exp.Query):
        raise Outside("a query is meant here")
    return inner


def _is_number(tree: object) -> bool:
    return isinstance(tree, exp.Literal) and not tree.is_string


def _applied(name: str, rule: Callable[..., T], args: list[Node]) -> T:
    try:
        return rule(*args)
    except TypeError:
        raise Outside(f"{name} takes another number of arguments than {len(args)}") from None


def condition(node: Node, what: str) -> Node:
    """A condition, which must be boolean."""
    if node.type != "boolean":
        raise Outside(f"{what} needs a boolean, not {node.type}")
    return node


def _comparable(node: Node, what: str) -> Node:
    if node.type != VOID and not is_comparable(node.type):
        raise Outside(f"{what} of {node.type} is not supported")
    return cast(node, "int") if node.type == VOID else node  # type: ignore[arg-type]


def sorted_terms(order: exp.Order, bind: Callable[[exp.Expr], Node]) -> tuple[Sorted, ...]:
    """The terms of an ORDER BY. Nulls come first ascending and last descending, unless it says otherwise."""
    terms = []
    for term in order.expressions:
        if not isinstance(term, exp.Ordered):
            raise Outside("this is not a term of ORDER BY")
        terms.append(
            Sorted(
                _comparable(bind(term.this), "ORDER BY"),
                bool(term.args.get("desc")),
                bool(term.args.get("nulls_first")),
            )
        )
    return tuple(terms)


def unknown_function(name: str) -> DefinitionError:
    """The error for a function that is not known: what there is, and the near miss."""
    near = difflib.get_close_matches(name, NAMES, n=1, cutoff=0.7)
    return DefinitionError(
        f"there is no function '{name}' in queries", detail=f"there are: {', '.join(NAMES)}",
        hint=f"did you mean {near[0]}?" if near else None,
    )  # fmt: skip
