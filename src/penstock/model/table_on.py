"""What a join with a table says after 'on': for each key of the table, the expression that it equals."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from penstock.errors import DefinitionError, unknown
from penstock.model.expressions import parse
from penstock.model.expressions.parse import canonical
from penstock.model.stream import Flow
from penstock.model.table import Table, TableJoin


def joined(flow: Flow, table: Table, on: str | Sequence[str] | None, how: str, prefix: str) -> TableJoin:
    """A flow joined with a table; `on` is 'expression = key', several with AND, or names that both have."""
    texts = (on,) if isinstance(on, str) else tuple(on or table.key)
    expressions: dict[str, str] = {}
    for text in texts:
        for part in _parts(parse(text).tree):
            name, expression = _pair(part, table)
            if name in expressions:
                raise DefinitionError(f"the key '{name}' of the table '{table.name}' is given twice")
            expressions[name] = expression
    for name in table.key:
        if name not in expressions:
            raise DefinitionError(
                f"on={on!r} has no value for the key '{name}' of the table '{table.name}'",
                hint=f"write on='… = {name}'" + (" AND …" if len(table.key) > 1 else ""),
            )
    return TableJoin(flow, table, tuple(expressions[name] for name in table.key), how, prefix)  # type: ignore[arg-type]


def _parts(tree: exp.Expr) -> list[exp.Expr]:
    if isinstance(tree, exp.Paren):
        return _parts(tree.this)
    if isinstance(tree, exp.And):
        return [*_parts(tree.this), *_parts(tree.expression)]
    return [tree]


def _pair(part: exp.Expr, table: Table) -> tuple[str, str]:
    """A key column of the table, and the text of what it must equal."""
    if isinstance(part, exp.Column) and len(part.parts) == 1:
        return _key(part.name, table), canonical(part)
    if isinstance(part, exp.EQ):
        for own, other in ((part.expression, part.this), (part.this, part.expression)):
            if isinstance(own, exp.Column) and _named(own, table) in table.key:
                return str(_named(own, table)), canonical(other)
    raise DefinitionError(
        f"'{canonical(part)}' compares no key of the table '{table.name}'",
        detail=f"its key is {', '.join(table.key)}",
        hint=f"write on='column = {table.key[0]}'",
    )


def _named(column: exp.Column, table: Table) -> str | None:
    names = [part.name for part in column.parts]
    if len(names) > 1 and (len(names) > 2 or names[0].lower() != table.name.lower()):
        return None
    return table.schema.find(names[-1]) if names[-1] in table.schema else None


def _key(name: str, table: Table) -> str:
    if name not in table.schema or table.schema.find(name) not in table.key:
        raise unknown("key", name, table.key)
    return table.schema.find(name)
