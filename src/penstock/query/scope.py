"""The names that a SELECT can use: the columns of its FROM, and of the queries around it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from penstock.errors import unknown
from penstock.model.expressions.coerce import Outside
from penstock.query.nodes import Node


@dataclass(frozen=True)
class Field:
    """A column of a relation. A hidden one is reached only with its table: the second of a USING."""

    table: str
    name: str
    node: Node
    hidden: bool = False


@dataclass
class Scope:
    """The columns of a FROM, in order. `outer` is the scope of the query around this one.

    `reached` says whether a column of an outer scope was used: then the query depends on the row around it.
    """

    fields: list[Field] = field(default_factory=list)
    outer: Scope | None = None
    reached: bool = False

    def find(self, name: str, table: str | None) -> Node | None:
        """The column of a name, or None; several of the name are an error."""
        matches = [
            field
            for field in self.fields
            if field.name.lower() == name.lower()
            and (not field.hidden if table is None else field.table.lower() == table.lower())
        ]
        if len(matches) > 1:
            tables = ", ".join(f"{field.table}.{field.name}" for field in matches)
            raise Outside(f"the column '{name}' is ambiguous: there are {tables}")
        if matches:
            return matches[0].node
        if self.outer is None:
            return None
        node = self.outer.find(name, table)
        self.reached = self.reached or node is not None
        return node

    def need(self, name: str, table: str | None) -> Node:
        """The column of a name."""
        node = self.find(name, table)
        if node is None:
            qualified = name if table is None else f"{table}.{name}"
            raise unknown("column", qualified, {field.name for field in self.visible(table)})
        return node

    def visible(self, table: str | None = None) -> Iterable[Field]:
        """The columns of *, or of table.*."""
        known = {field.table.lower() for field in self.fields}
        if table is None or table.lower() not in known:
            return [field for field in self.fields if not field.hidden]
        return [field for field in self.fields if field.table.lower() == table.lower()]

    def owns(self, node: Node) -> bool:
        """Whether a column belongs to this scope and not to an outer one."""
        return any(field.node == node for field in self.fields)
