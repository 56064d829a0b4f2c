"""JOIN: its condition, and the columns that come out of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from penstock.model.expressions.coerce import Outside, comparable
from penstock.model.expressions.tree import Call
from penstock.query.binder import QuestionBinder, condition
from penstock.query.clauses import at, refuse_clauses
from penstock.query.scope import Field, Scope

if TYPE_CHECKING:
    from penstock.query.planner import SelectPlanner

_KINDS = {
    ("", ""): "INNER", ("", "INNER"): "INNER", ("LEFT", ""): "LEFT", ("LEFT", "OUTER"): "LEFT", ("RIGHT", ""): "RIGHT",
    ("RIGHT", "OUTER"): "RIGHT", ("FULL", ""): "FULL", ("FULL", "OUTER"): "FULL", ("", "CROSS"): "CROSS",
    ("", "SEMI"): "SEMI", ("LEFT", "SEMI"): "SEMI", ("", "ANTI"): "ANTI", ("LEFT", "ANTI"): "ANTI",
}  # fmt: skip


def join(select: SelectPlanner, tree: exp.Join, right: str, others: list[Field]) -> str:
    """The SQL of a JOIN; its columns are added to the scope of the SELECT."""
    refuse_clauses(tree, {"this", "side", "kind", "on", "using"})
    words = str(tree.args.get("side") or "").upper(), str(tree.args.get("kind") or "").upper()
    kind = _KINDS.get(words)
    if kind is None:
        raise at(tree, Outside(f"{' '.join(words).strip()} JOIN is not supported"))
    left = list(select.scope.fields)
    on, using = tree.args.get("on"), tree.args.get("using")
    if on is None and not using:
        if kind not in ("INNER", "CROSS"):
            raise at(tree, Outside(f"a {kind} JOIN needs ON or USING"))
        select.scope.fields = left + others
        return f" CROSS JOIN {right}"
    if kind == "CROSS":
        raise at(tree, Outside("a CROSS JOIN has no condition"))
    if using:
        terms, fields = _using(select, [name.name for name in using], left, others, kind)
        text = " AND ".join(terms)
    else:
        select.scope.fields = fields = left + others
        assert on is not None
        text = select.planner.renderer.predicate(condition(select.planner.weigh(QuestionBinder(select).node(on)), "ON"))
    select.scope.fields = left if kind in ("SEMI", "ANTI") else fields
    return f" {kind} JOIN {right} ON {text}"


def _using(
    select: SelectPlanner, names: list[str], left: list[Field], right: list[Field], kind: str
) -> tuple[list[str], list[Field]]:
    """The conditions, and the columns: first those of USING, each once."""
    terms, merged = [], []
    used: set[int] = set()
    for name in names:
        a, b = Scope(left).need(name, None), Scope(right).need(name, None)
        select.use(a)
        select.use(b)
        pair = comparable(a, b, "USING")  # type: ignore[arg-type]
        terms.append(select.planner.renderer.sql(Call("eq", pair, "boolean")))
        node = b if kind == "RIGHT" else a
        if kind == "FULL":
            node = Call("coalesce", pair, pair[0].type)
        merged.append(Field("", next(field.name for field in left if field.node == a), node))
        used |= {id(field) for field in (*left, *right) if field.node in (a, b) and not field.hidden}
    rest = [
        Field(field.table, field.name, field.node, hidden=True) if id(field) in used else field
        for field in (*left, *right)
    ]
    return terms, merged + rest
