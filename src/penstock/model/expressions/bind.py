"""From syntax to a typed tree: names are looked up in the schema, Spark's coercions are made explicit.

>>> from penstock.model.types import Schema
>>> bind("Price > 1.5", Schema.parse("price double")).tree.args
(Column(name='price', type='double'), Literal(value=1.5, type='double'))
>>> bind("soundex(name)", Schema.parse("name string")).outside
'the function soundex is outside the kernel'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from sqlglot import exp

from penstock.model.expressions.arithmetic import ARITHMETIC
from penstock.model.expressions.casts import check_casts
from penstock.model.expressions.coerce import Outside, cast, common_of, comparable
from penstock.model.expressions.fold import fold
from penstock.model.expressions.functions import FUNCTIONS, Rule
from penstock.model.expressions.intervals import interval
from penstock.model.expressions.literals import number, text
from penstock.model.expressions.nested import NESTED, field, item
from penstock.model.expressions.parse import ParsedExpression, canonical, parse
from penstock.model.expressions.patterns import like, rlike
from penstock.model.expressions.tree import INTERVAL, VOID, Call, Column, Literal, Node
from penstock.model.types import Schema, type_name


@dataclass(frozen=True)
class Bound:
    """An expression over a schema. Either `tree` is what it means, or `outside` says why it is Spark's to evaluate."""

    text: str
    columns: frozenset[str]
    type: str | None
    outside: str | None
    tree: Node | None


@lru_cache(maxsize=4096)
def bind(text: str, schema: Schema) -> Bound:
    """Gives an expression its meaning over a schema; an unknown column is an error."""
    parsed = parse(text)
    columns = frozenset(schema.find(name) for name in sorted(parsed.columns))
    canonical_text = _with_declared_names(parsed, schema)
    try:
        tree = Binder(schema).node(parsed.tree)
        check_casts(tree)
        tree = fold(tree)
        if tree.type in (VOID, INTERVAL):
            raise Outside(f"a column of type {tree.type} is outside the kernel")
        return Bound(canonical_text, columns, tree.type, None, tree)
    except Outside as outside:
        return Bound(canonical_text, columns, _type_of(parsed.tree), outside.reason, None)


def _with_declared_names(parsed: ParsedExpression, schema: Schema) -> str:
    tree = parsed.tree.copy()
    for column in tree.find_all(exp.Column):
        column.parts[0].set("this", schema.find(column.parts[0].name))
    return canonical(tree)


def _type_of(tree: exp.Expr) -> str | None:
    """What is known of the type of an expression that is outside."""
    tree = tree.unnest()
    if isinstance(tree, exp.Cast):
        try:
            return target(tree.to)
        except Outside:
            return None
    return "boolean" if isinstance(tree, (exp.Predicate, exp.Connector, exp.Not)) else None


def target(to: exp.DataType) -> str:
    """The type that a CAST names."""
    name = to.sql("spark").replace(" ", "").lower()
    if name.startswith(("varchar(", "char(")) or name == "timestamp_ntz":
        raise Outside(f"the type {name} is outside the kernel")
    return type_name(name)


class Binder:
    """Binds node by node; the first thing that is outside ends it."""

    rules: ClassVar[Mapping[str, Rule]] = {**FUNCTIONS, **ARITHMETIC, **NESTED}

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def node(self, tree: exp.Expr) -> Node:
        match tree:
            case exp.Paren():
                return self.node(tree.this)
            case exp.Literal():
                return text(tree.name) if tree.is_string else number(tree.name)
            case exp.RawString():
                return text(tree.name)
            case exp.HexString():
                return Literal(bytes.fromhex(tree.name.rjust(len(tree.name) + len(tree.name) % 2, "0")), "binary")
            case exp.Boolean():
                return Literal(bool(tree.this), "boolean")
            case exp.Null():
                return Literal(None, VOID)
            case exp.Neg():
                return self.negative(tree)
            case exp.Interval():
                return interval(tree)
            case exp.Anonymous():
                return self.call(tree)
            case exp.Column():
                return self.column(tree)
            case exp.Cast():
                return self.cast(tree)
            case exp.Add() | exp.Sub() | exp.Mul() | exp.Div() | exp.Mod() | exp.IntDiv():
                return self.rules[_OPERATORS[type(tree)]](self.node(tree.this), self.node(tree.expression))
            case (
                exp.EQ()
                | exp.NEQ()
                | exp.LT()
                | exp.LTE()
                | exp.GT()
                | exp.GTE()
                | exp.NullSafeEQ()
                | exp.NullSafeNEQ()
            ):
                return self.compare(tree)
            case exp.And() | exp.Or():
                return self.logic(_OPERATORS[type(tree)], tree.this, tree.expression)
            case exp.Not():
                return self.logic("not", tree.this)
            case exp.DPipe():
                return self.rules["concat"](self.node(tree.this), self.node(tree.expression))
            case exp.Concat():
                return self.rules["concat"](*map(self.node, tree.expressions))
            case exp.RegexpLike():
                return rlike(self.node(tree.this), self.node(tree.expression))
            case exp.Is():
                return self.is_(tree)
            case exp.Between():
                return self.between(tree)
            case exp.In():
                return self.in_(tree)
            case exp.Like() | exp.ILike():
                return self.like(tree)
            case exp.Escape():
                return self.escape(tree)
            case exp.Case():
                return self.case(tree)
            case exp.If():
                return self.if_(tree)
            case exp.Extract():
                return self.extract(tree)
            case exp.Trim():
                return self.trim(tree)
            case exp.Substring():
                return self.substring(tree)
            case exp.StrPosition():
                return self.position(tree)
            case exp.Bracket() if len(tree.expressions) == 1:
                return item(self.node(tree.this), self.node(tree.expressions[0]))
            case exp.Dot() if isinstance(tree.expression, exp.Identifier):
                return field(self.node(tree.this), tree.expression.name)
        raise Outside(f"'{tree.sql('spark')}' is outside the kernel")

    def call(self, tree: exp.Anonymous) -> Node:
        name = tree.name.lower()
        rule = self.rules.get(name)
        if rule is None or any(isinstance(arg, (exp.Lambda, exp.Var, exp.Star)) for arg in tree.expressions):
            raise Outside(f"the function {name} is outside the kernel")
        args = [self.node(arg) for arg in tree.expressions]
        try:
            return rule(*args)
        except TypeError:
            raise Outside(f"{name} of {len(args)} arguments is outside the kernel") from None

    def column(self, tree: exp.Column) -> Node:
        name = self.schema.find(tree.parts[0].name)
        node: Node = Column(name, self.schema.type_of(name))
        for part in tree.parts[1:]:
            node = field(node, part.name)
        return node

    def cast(self, tree: exp.Cast) -> Node:
        return cast(self.node(tree.this), target(tree.to), safe=bool(tree.args.get("safe")))

    def negative(self, tree: exp.Neg) -> Node:
        """-2147483648 is one literal, an int; -(2147483648) negates a bigint."""
        arg = tree.this
        if isinstance(arg, exp.Literal) and not arg.is_string:
            return number("-" + arg.name)
        return self.rules["negative"](self.node(arg))

    def compare(self, tree: exp.Binary) -> Node:
        left, right = comparable(self.node(tree.this), self.node(tree.expression), "comparison")
        match tree:
            case exp.NEQ():
                return Call("not", (Call("eq", (left, right), "boolean"),), "boolean")
            case exp.NullSafeNEQ():
                return Call("not", (Call("same", (left, right), "boolean"),), "boolean")
        return Call(_OPERATORS[type(tree)], (left, right), "boolean")

    def logic(self, name: str, *trees: exp.Expr) -> Node:
        args = [self.node(tree) for tree in trees]
        if any(arg.type not in ("boolean", "string", VOID) for arg in args):
            raise Outside(f"{name.upper()} is outside the kernel")
        return Call(name, tuple(cast(arg, "boolean") for arg in args), "boolean")

    def is_(self, tree: exp.Is) -> Node:
        arg, what = self.node(tree.this), tree.expression
        if isinstance(what, exp.Null):
            return Call("is_null", (arg,), "boolean")
        if isinstance(what, exp.Boolean) and arg.type in ("boolean", "string", VOID):
            return Call("is_true" if what.this else "is_false", (cast(arg, "boolean"),), "boolean")
        raise Outside(f"IS {what.sql()} of {arg.type} is outside the kernel")

    def between(self, tree: exp.Between) -> Node:
        if tree.args.get("symmetric"):
            raise Outside("BETWEEN SYMMETRIC is outside the kernel")
        value, low, high = (self.node(tree.args[key]) for key in ("this", "low", "high"))
        above = Call("ge", comparable(value, low, "comparison"), "boolean")
        return Call("and", (above, Call("le", comparable(value, high, "comparison"), "boolean")), "boolean")

    def in_(self, tree: exp.In) -> Node:
        nodes = [self.node(tree.this), *map(self.node, tree.expressions)]
        kind = common_of(nodes, "IN")
        if len(nodes) < 2 or kind == VOID:
            raise Outside("IN of nothing is outside the kernel")
        return Call("in", tuple(cast(node, kind) for node in nodes), "boolean")

    def like(self, tree: exp.Like | exp.ILike, escape: str = "\\") -> Node:
        if isinstance(tree.expression, (exp.Any, exp.All, exp.Tuple)):
            raise Outside("LIKE ANY and LIKE ALL are outside the kernel")
        match = like(self.node(tree.this), self.node(tree.expression), escape, fold=isinstance(tree, exp.ILike))
        return Call("not", (match,), "boolean") if tree.args.get("negate") else match

    def escape(self, tree: exp.Escape) -> Node:
        if not isinstance(tree.this, (exp.Like, exp.ILike)) or not isinstance(tree.expression, exp.Literal):
            raise Outside("ESCAPE is outside the kernel")
        return self.like(tree.this, tree.expression.name)

    def case(self, tree: exp.Case) -> Node:
        subject = None if tree.this is None else self.node(tree.this)
        branches: list[tuple[Node, Node]] = []
        for branch in tree.args["ifs"]:
            condition = self.node(branch.this)
            if subject is not None:
                condition = Call("eq", comparable(subject, condition, "CASE"), "boolean")
            branches.append((condition, self.node(branch.args["true"])))
        default = tree.args.get("default")
        return choose(branches, Literal(None, VOID) if default is None else self.node(default))

    def if_(self, tree: exp.If) -> Node:
        if tree.args.get("false") is None:
            raise Outside("if of 2 arguments is outside the kernel")
        return choose([(self.node(tree.this), self.node(tree.args["true"]))], self.node(tree.args["false"]))

    def extract(self, tree: exp.Extract) -> Node:
        part = self.rules.get(_PARTS.get(tree.this.name.upper(), ""))
        if part is None:
            raise Outside(f"extract of {tree.this.name} is outside the kernel")
        return part(self.node(tree.expression))

    def trim(self, tree: exp.Trim) -> Node:
        name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(tree.args.get("position") or "").upper(), "trim")
        chars = tree.args.get("expression")
        return self.rules[name](*([] if chars is None else [self.node(chars)]), self.node(tree.this))

    def substring(self, tree: exp.Substring) -> Node:
        rest = [tree.args[key] for key in ("start", "length") if tree.args.get(key) is not None]
        return self.rules["substring"](self.node(tree.this), *map(self.node, rest))

    def position(self, tree: exp.StrPosition) -> Node:
        start = tree.args.get("position")
        rest = [] if start is None else [self.node(start)]
        return self.rules["locate"](self.node(tree.args["substr"]), self.node(tree.this), *rest)


def choose(branches: list[tuple[Node, Node]], default: Node) -> Node:
    """CASE: the values in their common type."""
    kind = common_of([*(value for _, value in branches), default], "CASE")
    if any(condition.type != "boolean" for condition, _ in branches):
        raise Outside("a condition that is not a boolean is outside the kernel")
    pairs = [part for condition, value in branches for part in (condition, cast(value, kind))]
    return Call("case", (*pairs, cast(default, kind)), kind)


_OPERATORS: dict[type[exp.Expr], str] = {
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%", exp.IntDiv: "div",
    exp.EQ: "eq", exp.LT: "lt", exp.LTE: "le", exp.GT: "gt", exp.GTE: "ge", exp.NullSafeEQ: "same",
    exp.And: "and", exp.Or: "or",
}  # fmt: skip
#: The fields of EXTRACT, as the functions that give them.
_PARTS = {
    "YEAR": "year", "YEARS": "year", "Y": "year", "QUARTER": "quarter", "QTR": "quarter", "MONTH": "month",
    "MON": "month", "MONTHS": "month", "WEEK": "weekofyear", "WEEKS": "weekofyear", "W": "weekofyear", "DAY": "day",
    "D": "day", "DAYS": "day", "DAYOFWEEK": "dayofweek", "DOW": "dayofweek",
    "DOY": "dayofyear", "HOUR": "hour", "H": "hour", "HOURS": "hour", "MINUTE": "minute", "MINUTES": "minute",
}  # fmt: skip
