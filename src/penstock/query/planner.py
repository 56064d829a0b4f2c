"""From the tree of a question to one SQL text: FROM, WHERE, GROUP BY, HAVING, SELECT and ORDER BY."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from penstock.errors import DefinitionError, unknown
from penstock.model.expressions.coerce import Outside, cast, common
from penstock.model.expressions.tree import VOID, Call, Column
from penstock.model.time import Instant
from penstock.model.types import SCALARS, Schema
from penstock.query.binder import QuestionBinder, condition, sorted_terms
from penstock.query.clauses import at, labelled, normal, refuse_clauses, renamed
from penstock.query.filters import filters_of
from penstock.query.grouping import Grouping
from penstock.query.joins import join
from penstock.query.nodes import Aggregate, Node, Sorted, Subquery, Windowed, children, contains, groups_rows, rewrite
from penstock.query.relations import Output, Relation, ScanUse, quoted
from penstock.query.render import Renderer
from penstock.query.scope import Field, Scope
from penstock.query.types import duckdb_type, is_comparable

_CLAUSES = {
    "expressions", "from_", "joins", "where", "group", "having", "order", "limit", "offset", "distinct", "with_",
    "windows",
}  # fmt: skip
#: The operators, functions, columns and constants of a question, with aliases written out.
MAX_NODES = 100_000
MAX_SCANS = 100
_SET_CLAUSES = {"this", "expression", "distinct", "order", "limit", "offset", "with_"}


@dataclass
class Planner:
    """What all parts of one question share: parameters, scans, common table expressions."""

    tables: Mapping[str, Schema]
    now: Instant
    renderer: Renderer = field(default_factory=Renderer)
    scans: list[ScanUse] = field(default_factory=list)
    #: The common table expressions of the whole question, as SQL.
    named: list[str] = field(default_factory=list)
    #: The columns of scans by their names in SQL.
    origins: dict[str, tuple[ScanUse, str]] = field(default_factory=dict)
    _aliases: int = 0
    _size: int = 0

    def weigh(self, node: Node) -> Node:
        """The node, if the question is not too large with it: aliases that use aliases grow without bound."""
        stack = [node]
        while stack:
            self._size += 1
            if self._size > MAX_NODES:
                raise DefinitionError("the query is too large", hint="ask it in parts")
            stack.extend(children(stack.pop()))
        return node

    def alias(self) -> str:
        """A name for a relation, unique within the question."""
        self._aliases += 1
        return f"r{self._aliases}"

    def query(
        self, tree: exp.Expr, outer: Scope | None, known: Mapping[str, Relation], *, top: bool = False
    ) -> Relation:
        """A query in any form. `known` are the common table expressions that it can see.

        At the top, the columns have the names of the answer.
        """
        tree = _without_brackets(tree)
        known = self._with(tree, known)
        match tree:
            case exp.SetOperation():
                return self._set_operation(tree, outer, known, top)
            case exp.Select():
                return SelectPlanner(self, tree, outer, known, top=top).relation()
        raise at(tree, Outside(f"'{tree.sql('spark')[:60]}' is not a SELECT"))

    def _with(self, tree: exp.Expr, known: Mapping[str, Relation]) -> Mapping[str, Relation]:
        clause = tree.args.get("with_")
        if clause is None:
            return known
        if clause.args.get("recursive"):
            raise at(tree, Outside("WITH RECURSIVE is not supported"))
        known = dict(known)
        for part in clause.expressions:
            inner = self.query(part.this, None, known)
            name = f"q{len(self.named) + 1}"
            self.named.append(f"{name} AS ({inner.sql})")
            outputs = renamed(inner.outputs, part.args.get("alias"))
            known[part.alias.lower()] = Relation(f"SELECT * FROM {name}", outputs)
        return known

    def _set_operation(
        self, tree: exp.SetOperation, outer: Scope | None, known: Mapping[str, Relation], top: bool
    ) -> Relation:
        refuse_clauses(tree, _SET_CLAUSES)
        left, right = self.query(tree.this, outer, known), self.query(tree.expression, outer, known)
        word = "UNION" if isinstance(tree, exp.Union) else "EXCEPT" if isinstance(tree, exp.Except) else "INTERSECT"
        if len(left.outputs) != len(right.outputs):
            detail = f"{len(left.outputs)} columns and {len(right.outputs)} columns"
            raise at(tree, Outside(f"both sides of {word} need the same number of columns, and have {detail}"))
        sides, outputs = [], []
        distinct = bool(tree.args.get("distinct"))
        kinds = [self._common(a, b, word) for a, b in zip(left.outputs, right.outputs, strict=True)]
        for side in (left, right):
            alias, columns = self.alias(), []
            for number, (output, kind) in enumerate(zip(side.outputs, kinds, strict=True), 1):
                node = cast(Column(f"{alias}.{output.column}", output.type), kind)
                text = self.renderer.sql(node)
                columns.append(f"{normal(text, kind) if distinct or word != 'UNION' else text} AS c{number}")
                if (distinct or word != "UNION") and not is_comparable(kind):
                    raise at(tree, Outside(f"{word} of {kind} is not supported"))
            sides.append(f"SELECT {', '.join(columns)} FROM ({side.sql}) AS {alias}")
        outputs = [
            Output(one.name, kind, f"c{n}") for n, (one, kind) in enumerate(zip(left.outputs, kinds, strict=True), 1)
        ]
        sql = f"({sides[0]}) {word}{'' if distinct else ' ALL'} ({sides[1]})"
        return self._ordered(tree, Relation(sql, tuple(outputs)), known, top)

    def _common(self, left: Output, right: Output, word: str) -> str:
        kind = common(left.type, right.type)
        if kind is None:
            raise Outside(f"{word} of {left.type} and {right.type} is not supported")
        return kind

    def _ordered(self, tree: exp.Expr, relation: Relation, known: Mapping[str, Relation], top: bool) -> Relation:
        """ORDER BY and LIMIT of a set operation: over its own columns."""
        alias = self.alias()
        fields = [
            Field("", output.name, Column(f"{alias}.{output.column}", output.type)) for output in relation.outputs
        ]
        part = SelectPlanner(self, exp.Select(), None, known)
        part.scope = Scope(fields)
        part.items = [(field.name, field.node) for field in fields]
        order = part.order(tree.args.get("order"))
        tail = (f" ORDER BY {self.renderer.order(order)}" if order else "") + self.limit(tree)
        if not tail and not top:
            return relation
        outputs = labelled(relation.outputs, top)
        columns = ", ".join(
            f"{alias}.{old.column} AS {new.column}" for old, new in zip(relation.outputs, outputs, strict=True)
        )
        return Relation(f"SELECT {columns} FROM ({relation.sql}) AS {alias}{tail}", outputs)

    def limit(self, tree: exp.Expr) -> str:
        """LIMIT and OFFSET."""
        text = ""
        for word in ("limit", "offset"):
            clause = tree.args.get(word)
            if clause is None:
                continue
            value = clause.expression
            if not isinstance(value, exp.Literal) or value.is_string or not value.name.isdecimal():
                raise at(clause, Outside(f"{word.upper()} needs a whole number"))
            text += f" {word.upper()} CAST({self.renderer.bind(int(value.name))} AS BIGINT)"
        return text


class SelectPlanner:
    """Plans one SELECT. It is the `Place` of its expressions."""

    def __init__(
        self,
        planner: Planner,
        tree: exp.Select,
        outer: Scope | None,
        known: Mapping[str, Relation],
        *,
        top: bool = False,
    ) -> None:
        self.planner, self.tree, self.known, self._top = planner, tree, known, top
        self.scope = Scope([], outer)
        self.items: list[tuple[str, Node]] = []
        self.now = planner.now
        self._earlier = False
        self._having: set[Node] | None = None

    # What expressions ask

    def column(self, name: str, table: str | None) -> Node:
        """A column; where no column has the name, an earlier alias of the same SELECT."""
        if table is None and self._having is not None:
            own = self.scope.find(name, None)
            if own is not None and own in self._having:
                return own
            alias = self._alias(name)
            if alias is not None:
                return alias
        if table is None and self._earlier and self.scope.find(name, None) is None:
            alias = self._alias(name)
            if alias is not None:
                return alias
        node = self.scope.need(name, table)
        self.use(node)
        return node

    def use(self, node: Node) -> None:
        """A column of a scan must be read."""
        for column in _columns(node):
            origin = self.planner.origins.get(column.name)
            if origin is not None and origin[1] not in origin[0].columns:
                origin[0].columns.append(origin[1])

    def _alias(self, name: str) -> Node | None:
        matches = [node for alias, node in self.items if alias.lower() == name.lower()]
        if len(matches) > 1 and any(node != matches[0] for node in matches):
            raise Outside(f"the alias '{name}' is ambiguous")
        return matches[0] if matches else None

    def subquery(self, tree: exp.Query, kind: str, arg: Node | None) -> Subquery:
        inner_scope = Scope([], self.scope)  # notices a column that is reached through it
        relation = self.planner.query(tree, inner_scope, self.known)
        if kind == "exists":
            return Subquery("exists", relation.sql, "boolean", None, inner_scope.reached)
        if len(relation.outputs) != 1:
            raise Outside(f"the subquery has {len(relation.outputs)} columns, and one is meant")
        output = relation.outputs[0]
        if kind == "scalar":
            return Subquery("scalar", relation.sql, output.type, None, inner_scope.reached)
        assert arg is not None
        wanted = common(arg.type, output.type)
        if wanted is None or not is_comparable(wanted):
            raise Outside(f"{arg.type} IN a query of {output.type} is not supported")
        alias = self.planner.alias()
        value = self.planner.renderer.sql(cast(Column(f"{alias}.{output.column}", output.type), wanted))
        sql = f"SELECT {value} FROM ({relation.sql}) AS {alias}"
        return Subquery("in", sql, "boolean", cast(arg, wanted), inner_scope.reached)  # type: ignore[arg-type]

    def window(self, name: str) -> exp.Window:
        for window in self.tree.args.get("windows") or ():
            if window.name.lower() == name.lower():
                assert isinstance(window, exp.Window)
                return window
        raise Outside(f"there is no window '{name}'")

    def bind(self, value: object) -> str:
        return self.planner.renderer.bind(value)

    # The clauses

    def relation(self) -> Relation:
        """The SELECT as SQL."""
        tree, renderer = self.tree, self.planner.renderer
        refuse_clauses(tree, _CLAUSES)
        source = self._from()
        where = self._where()
        self._select()
        keys = self._keys()
        self._having = set(keys)
        having = tree.args.get("having")
        binder = QuestionBinder(self, aggregates=True)
        group_filter = None if having is None else condition(self.planner.weigh(binder.node(having.this)), "HAVING")
        self._having = None
        order = self.order(tree.args.get("order"))
        nodes = [node for _, node in self.items]
        everything = [*nodes, *(term.node for term in order), *([] if group_filter is None else [group_filter])]
        if keys or tree.args.get("group") is not None or group_filter is not None or any(map(groups_rows, everything)):
            grouped = Grouping(self, keys, source + where)
            nodes = [grouped.rewritten(node) for node in nodes]
            order = tuple(Sorted(grouped.rewritten(term.node), term.descending, term.nulls_first) for term in order)
            group_filter = None if group_filter is None else grouped.rewritten(group_filter)
            source, where = grouped.sql(), "" if group_filter is None else f" WHERE {renderer.predicate(group_filter)}"
        return self._projected(nodes, order, source + where)

    def _projected(self, nodes: list[Node], order: tuple[Sorted, ...], source: str) -> Relation:
        renderer, columns = self.planner.renderer, []
        distinct = self.tree.args.get("distinct")
        if distinct is not None and distinct.args.get("on") is not None:
            raise at(self.tree, Outside("DISTINCT ON is not supported"))
        plain = tuple(
            Output(name, node.type, f"c{n}")
            for n, ((name, _), node) in enumerate(zip(self.items, nodes, strict=True), 1)
        )
        outputs = labelled(plain, self._top)
        for output, label, node in zip(plain, outputs, nodes, strict=True):
            text = renderer.sql(node) if node.type != VOID else "NULL"
            if distinct is not None:
                if not is_comparable(node.type):
                    raise at(self.tree, Outside(f"DISTINCT of {node.type} is not supported"))
                text = normal(text, node.type)
            elif self._top and node.type in SCALARS:
                text = f"CAST({text} AS {duckdb_type(node.type)})"
            columns.append(f"{text} AS {output.column if distinct is not None else label.column}")
        limit = self.planner.limit(self.tree)
        if distinct is None:
            tail = f" ORDER BY {renderer.order(order)}" if order else ""
            return Relation(f"SELECT {', '.join(columns)}{source}{tail}{limit}", outputs)
        sql = f"SELECT DISTINCT {', '.join(columns)}{source}"
        if not order and not limit and not self._top:
            return Relation(sql, plain)
        alias = self.planner.alias()
        known = {node: Column(f"{alias}.c{n}", node.type) for n, node in reversed(list(enumerate(nodes, 1)))}

        def of_output(node: Node) -> Node | None:
            if node in known:
                return known[node]
            if isinstance(node, (Column, Aggregate, Windowed, Subquery)):
                raise Outside("with DISTINCT, ORDER BY can only use the columns of the SELECT")
            return None

        terms = tuple(Sorted(rewrite(term.node, of_output), term.descending, term.nulls_first) for term in order)
        tail = f" ORDER BY {renderer.order(terms)}" if terms else ""
        listed = ", ".join(f"{alias}.{one.column} AS {new.column}" for one, new in zip(plain, outputs, strict=True))
        return Relation(f"SELECT {listed} FROM ({sql}) AS {alias}{tail}{limit}", outputs)

    def _from(self) -> str:
        clause = self.tree.args.get("from_")
        if clause is None:
            if self.tree.args.get("joins"):
                raise at(self.tree, Outside("a JOIN needs a FROM"))
            return ""
        text, fields = self._source(clause.this)
        self.scope.fields = fields
        crossed = False
        for one in self.tree.args.get("joins") or ():
            side = str(one.args.get("side") or "").upper()
            if crossed and side in ("RIGHT", "FULL"):
                raise at(one, Outside(f"{side} JOIN after a comma is not supported: write CROSS JOIN, or brackets"))
            crossed = crossed or str(one.args.get("kind") or "").upper() == "CROSS"
            right, others = self._source(one.this)
            text += join(self, one, right, others)
        return f" FROM {text}"

    def _source(self, tree: exp.Expr) -> tuple[str, list[Field]]:
        """A view, a common table expression or a subquery in FROM."""
        alias = self.planner.alias()
        if isinstance(tree, exp.Subquery):
            refuse_clauses(tree, {"this", "alias"})
            inner = self.planner.query(tree.this, None, self.known)
            return self._derived(inner, tree.alias, tree.args.get("alias"), alias)
        if not isinstance(tree, exp.Table) or not isinstance(tree.this, exp.Identifier):
            raise at(tree, Outside(f"'{tree.sql('spark')[:60]}' is not a view"))
        refuse_clauses(tree, {"this", "alias"})
        name = tree.name
        if name.lower() in self.known:
            return self._derived(self.known[name.lower()], tree.alias or name, tree.args.get("alias"), alias)
        view = next((known for known in self.planner.tables if known.lower() == name.lower()), None)
        if view is None:
            raise at(tree, unknown("view", name, self.planner.tables))
        if len(self.planner.scans) == MAX_SCANS:
            raise at(tree, Outside(f"the query reads views more than {MAX_SCANS} times"))
        scan = ScanUse(view, f"scan_{len(self.planner.scans) + 1}")
        self.planner.scans.append(scan)
        outputs = tuple(Output(column, kind, quoted(column)) for column, kind in self.planner.tables[view])
        fields = []
        for output, label in zip(outputs, renamed(outputs, tree.args.get("alias")), strict=True):
            node = Column(f"{alias}.{output.column}", output.type)
            self.planner.origins[node.name] = (scan, output.name)
            fields.append(Field(tree.alias or view, label.name, node))
        return f"{scan.name} AS {alias}", fields

    def _derived(
        self, inner: Relation, table: str, named: exp.TableAlias | None, alias: str
    ) -> tuple[str, list[Field]]:
        outputs = renamed(inner.outputs, named)
        fields = [Field(table, output.name, Column(f"{alias}.{output.column}", output.type)) for output in outputs]
        return f"({inner.sql}) AS {alias}", fields

    def _where(self) -> str:
        clause = self.tree.args.get("where")
        if clause is None:
            return ""
        node = condition(self.planner.weigh(QuestionBinder(self).node(clause.this)), "WHERE")
        filters_of(node, self.planner.origins, joined=bool(self.tree.args.get("joins")))
        return f" WHERE {self.planner.renderer.predicate(node)}"

    def _select(self) -> None:
        self._earlier = True
        binder = QuestionBinder(self, aggregates=True, windows=True)
        for tree in self.tree.expressions:
            if isinstance(tree, exp.Star) or (isinstance(tree, exp.Column) and isinstance(tree.this, exp.Star)):
                self._star(tree)
                continue
            inner = tree.this if isinstance(tree, exp.Alias) else tree
            if isinstance(inner, exp.Aliases):
                raise at(tree, Outside("several aliases of one value are not supported"))
            self.items.append((shown_name(tree), self.planner.weigh(binder.node(inner))))
        self._earlier = False
        if not self.items:
            raise at(self.tree, Outside("the SELECT has no columns"))

    def _star(self, tree: exp.Expr) -> None:
        star = tree.this if isinstance(tree, exp.Column) else tree
        if any(value for value in star.args.values()):
            raise at(tree, Outside("SELECT * EXCEPT is not supported: name the columns"))
        table = tree.table if isinstance(tree, exp.Column) else None
        if table and table.lower() not in {field.table.lower() for field in self.scope.fields}:
            raise at(tree, unknown("table", table, {field.table for field in self.scope.fields}))
        if not self.scope.fields:
            raise at(tree, Outside("SELECT * needs a FROM"))
        for one in self.scope.visible(table):
            self.use(one.node)
            self.items.append((one.name, one.node))

    def _keys(self) -> list[Node]:
        """GROUP BY: a column wins over an alias of the same name; a number is the place of a column of the SELECT."""
        clause = self.tree.args.get("group")
        if clause is None:
            return []
        refuse_clauses(clause, {"expressions", "all"})
        if clause.args.get("all"):
            return [node for _, node in self.items if not groups_rows(node) and not contains(node, Windowed)]
        self._earlier = True
        keys = [self._term(tree, "GROUP BY", QuestionBinder(self)) for tree in clause.expressions]
        self._earlier = False
        for tree, node in zip(clause.expressions, keys, strict=True):
            if groups_rows(node) or contains(node, Windowed):
                raise at(tree, Outside("GROUP BY cannot use aggregates or window functions"))
            if contains(node, Subquery):
                raise at(tree, Outside("GROUP BY cannot use a subquery here"))
            if node.type != VOID and not is_comparable(node.type):
                raise at(tree, Outside(f"GROUP BY of {node.type} is not supported"))
        return keys

    def _term(self, tree: exp.Expr, what: str, binder: QuestionBinder) -> Node:
        if isinstance(tree, exp.Literal) and not tree.is_string and tree.name.isdecimal():
            place = int(tree.name)
            if not 1 <= place <= len(self.items):
                raise at(tree, Outside(f"{what} {place}: the SELECT has {len(self.items)} columns"))
            return self.items[place - 1][1]
        if isinstance(tree, (exp.GroupingSets, exp.Rollup, exp.Cube, exp.Tuple)):
            raise at(tree, Outside(f"'{tree.sql('spark')[:60]}' is not supported in {what}"))
        return self.planner.weigh(binder.node(tree))

    def order(self, clause: exp.Order | None) -> tuple[Sorted, ...]:
        """ORDER BY: an alias of the SELECT wins over a column."""
        if clause is None:
            return ()
        binder = QuestionBinder(_AliasesFirst(self), aggregates=True, windows=True)
        if any(isinstance(term.this, exp.Column) and term.this.name.lower() == "all" for term in clause.expressions):
            raise at(clause, Outside("ORDER BY ALL is not supported: name the columns"))
        return sorted_terms(clause, lambda tree: self._term(tree, "ORDER BY", binder))


class _AliasesFirst:
    """The names in ORDER BY."""

    def __init__(self, select: SelectPlanner) -> None:
        self._select = select
        self.now = select.now
        self.subquery, self.window, self.bind = select.subquery, select.window, select.bind

    def column(self, name: str, table: str | None) -> Node:
        alias = self._select._alias(name) if table is None else None
        return self._select.column(name, table) if alias is None else alias


def shown_name(tree: exp.Expr) -> str:
    """The name of a column of the answer: its alias, its own name, or its text."""
    if isinstance(tree, exp.Alias):
        return tree.alias
    if isinstance(tree, exp.Column):
        return tree.name
    return tree.sql("spark", normalize_functions="lower", comments=False)


def _without_brackets(tree: exp.Expr) -> exp.Expr:
    while isinstance(tree, (exp.Paren, exp.Subquery)) and not any(
        tree.args.get(name) for name in ("order", "limit", "offset", "with_", "joins")
    ):
        tree = tree.this
    return tree


def _columns(node: Node) -> list[Column]:
    if isinstance(node, Column):
        return [node]
    return [column for arg in node.args for column in _columns(arg)] if isinstance(node, Call) else []
