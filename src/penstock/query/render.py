"""From typed nodes to DuckDB's SQL. Every cast is written out, every literal is a parameter.

>>> renderer = Renderer()
>>> renderer.sql(Call("eq", (Column('r1."tag"', "string"), Literal("x' OR 1=1", "string")), "boolean"))
'(r1."tag" = CAST($1 AS VARCHAR))'
>>> renderer.parameters
["x' OR 1=1"]
"""

from __future__ import annotations

from decimal import Decimal

from penstock.errors import DefinitionError
from penstock.model.expressions.tree import VOID, Call, Column, Literal
from penstock.query.casts import cast_fails, cast_sql
from penstock.query.nodes import Aggregate, Node, Sorted, Subquery, Windowed, children
from penstock.query.rules import CANNOT_FAIL, RULES
from penstock.query.types import duckdb_type

#: A longer SQL text is refused: a question that repeats parts of itself would grow without bound.
MAX_SQL = 2_000_000


class Renderer:
    """Writes nodes as SQL, and collects the parameters."""

    def __init__(self) -> None:
        self.parameters: list[object] = []
        self._numbers: dict[tuple[type, object], int] = {}
        self._written = self._inside = 0

    def bind(self, value: object) -> str:
        """A parameter; equal values of a type share one."""
        key = (type(value), repr(value))
        if key not in self._numbers:
            self.parameters.append(value)
            self._numbers[key] = len(self.parameters)
        return f"${self._numbers[key]}"

    def sql(self, node: Node) -> str:
        """A node as a value."""
        self._inside += 1
        text = self._sql(node)
        self._inside -= 1
        if self._inside == 0:
            self._written += len(text)
        if max(len(text), self._written) > MAX_SQL:
            raise DefinitionError("the query is too large", hint="ask it in parts")
        return text

    def _sql(self, node: Node) -> str:
        match node:
            case Column(name=name):
                return name
            case Literal():
                return self.literal(node)
            case Call(name="and"):
                return self._and_or(node, "FALSE", "AND")
            case Call(name="or"):
                return self._and_or(node, "TRUE", "OR")
            case Call(name="case"):
                return self._case(node)
            case Call(name="cast"):
                return cast_sql(node.args[0].type, node.type, self.sql(node.args[0]), node.safe)
            case Call():
                return RULES[node.name](self, node, *(self.sql(arg) for arg in node.args))
            case Aggregate():
                return self._aggregate(node)
            case Windowed():
                return self._window(node)
            case Subquery():
                return self._subquery(node)

    def predicate(self, node: Node) -> str:
        """A node as a condition, where a null is as good as false: a side that may fail is read only if it counts."""
        if isinstance(node, Call) and node.name in ("and", "or"):
            left, right = (self.predicate(arg) for arg in node.args)
            if not can_fail(node.args[1]):
                return f"({left} {node.name.upper()} {right})"
            if node.name == "and":
                return f"CASE WHEN {left} THEN {right} ELSE FALSE END"
            return f"CASE WHEN {left} THEN TRUE ELSE {right} END"
        return self.sql(node)

    def order(self, terms: tuple[Sorted, ...]) -> str:
        """The terms of an ORDER BY."""
        return ", ".join(
            f"{self.sql(term.node)} {'DESC' if term.descending else 'ASC'} "
            f"NULLS {'FIRST' if term.nulls_first else 'LAST'}"
            for term in terms
        )

    def literal(self, node: Literal) -> str:
        if node.type == VOID:
            return "NULL"
        kind = duckdb_type(node.type)
        value = node.value
        if value is None:
            return f"CAST(NULL AS {kind})"
        if node.type == "date":
            return f"(DATE '1970-01-01' + CAST({self.bind(value)} AS INTEGER))"
        if node.type == "timestamp":
            return f"make_timestamp(CAST({self.bind(value)} AS BIGINT))"
        if isinstance(value, Decimal):
            value = f"{value:f}"
        return f"CAST({self.bind(value)} AS {kind})"

    def _and_or(self, node: Call, decided: str, word: str) -> str:
        left, right = (self.sql(arg) for arg in node.args)
        plain = f"({left} {word} {right})"
        if not can_fail(node.args[1]):
            return plain
        return f"CASE WHEN {left} IS NOT DISTINCT FROM {decided} THEN {decided} ELSE {plain} END"

    def _case(self, node: Call) -> str:
        *branches, default = node.args
        pairs = zip(branches[::2], branches[1::2], strict=True)
        whens = " ".join(f"WHEN {self.predicate(test)} THEN {self.sql(value)}" for test, value in pairs)
        return f"CASE {whens} ELSE {self.sql(default)} END"

    def _aggregate(self, node: Aggregate, over: str = "") -> str:
        where = "" if node.where is None else self.predicate(node.where)
        args = [self.sql(arg) for arg in node.args]
        if where and args and can_fail(node.args[0]):
            args[0] = f"CASE WHEN {where} THEN {args[0]} END"
        return aggregate_sql(self, node, args, where, over)

    def _window(self, node: Windowed) -> str:
        parts = []
        if node.partition:
            parts.append("PARTITION BY " + ", ".join(self.sql(part) for part in node.partition))
        if node.order:
            parts.append("ORDER BY " + self.order(node.order))
        if node.frame:
            parts.append(node.frame)
        over = f" OVER ({' '.join(parts)})"
        if node.aggregate is not None:
            return self._aggregate(node.aggregate, over)
        args = ", ".join(self.sql(arg) for arg in node.args)
        nulls = " IGNORE NULLS" if node.ignore_nulls else ""
        return f"CAST({node.name}({args}{nulls}){over} AS {duckdb_type(node.type)})"

    def _subquery(self, node: Subquery) -> str:
        if node.kind == "exists":
            return f"EXISTS ({node.sql})"
        if node.kind == "in":
            assert node.arg is not None
            return f"({self.sql(node.arg)} IN ({node.sql}))"
        return f"({node.sql})"


def can_fail(node: Node) -> bool:
    """Whether a node may fail on some row."""
    match node:
        case Column() | Literal():
            return False
        case Call(name="cast"):
            own = not node.safe and cast_fails(node.args[0].type, node.type)
        case Call():
            own = node.name not in CANNOT_FAIL
        case _:
            own = True
    return own or any(can_fail(child) for child in children(node))


def aggregate_sql(renderer: Renderer, node: Aggregate, args: list[str], where: str, over: str) -> str:
    """An aggregate as DuckDB computes it."""
    kind = duckdb_type(node.type)

    def call(name: str, inner: str, condition: str = where, order: str = "") -> str:
        distinct = "DISTINCT " if node.distinct else ""
        filtered = f" FILTER (WHERE {condition})" if condition else ""
        return f"{name}({distinct}{inner}{order}){filtered}{over}"

    def both(condition: str) -> str:
        return f"({where}) AND ({condition})" if where else condition

    arg = args[0] if args else ""
    match node.name:
        case "count" if not args:
            return f"count(*){f' FILTER (WHERE {where})' if where else ''}{over}"
        case "count" if len(args) > 1:
            inner = f"({', '.join(args)})" if node.distinct else "1"
            return call("count", inner, both(" AND ".join(f"{arg} IS NOT NULL" for arg in args)))
        case "count_if":
            return (
                call("count", "1", both(arg)) if not node.distinct else call("count", f"CASE WHEN {arg} THEN TRUE END")
            )
        case "avg" if node.type != "double":
            # Spark divides the exact sum, rounded half up.
            precision, scale = node.type[8:-1].split(",")
            total, count = f"CAST({call('sum', arg)} AS VARCHAR)", f"CAST({call('count', arg)} AS VARCHAR)"
            total = f"CASE WHEN {call('count', arg)} > 0 THEN {total} END"
            return f"CAST(spark_decimal_divide({total}, {count}, {precision}, {scale}) AS {kind})"
        case "avg":
            return f"({call('sum', arg)} / {call('count', arg)})"
        case "min_by" | "max_by":
            # DuckDB leaves out rows whose value is null; as a field of a struct it is kept.
            name = "arg_min" if node.name == "min_by" else "arg_max"
            return f"struct_extract({call(name, f'struct_pack(v := {arg}), {args[1]}')}, 'v')"
        case "any_value":
            return call("first", arg)
        case "collect_list" | "collect_set":
            distinct = "DISTINCT " if node.distinct or node.name == "collect_set" else ""
            listed = f"list({distinct}{arg}) FILTER (WHERE {both(f'{arg} IS NOT NULL')}){over}"
            return f"coalesce({listed}, CAST([] AS {kind}))"
        case "listagg":
            order = f" ORDER BY {renderer.order(node.order)}" if node.order else ""
            return call("string_agg", f"{arg}, {args[1]}", order=order)
        case "percentile" | "percentile_disc":
            direction = "'DESC', 'NULLS LAST'" if node.order and node.order[0].descending else "'ASC', 'NULLS LAST'"
            values = f"list_sort({call('list', arg, both(f'{arg} IS NOT NULL'))}, {direction})"
            return f"spark_{node.name}({values}, {args[1]})"
        case "sum":
            return f"CAST({call('sum', arg)} AS {kind})"
    return f"CAST({call(node.name, arg)} AS {kind})"
