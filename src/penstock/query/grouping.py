"""GROUP BY: the rows of groups, with their keys and aggregates, in a SELECT of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model.expressions.coerce import Outside, cast
from penstock.model.expressions.tree import VOID, Column
from penstock.query.clauses import at, normal
from penstock.query.nodes import Aggregate, Node, Subquery, rewrite

if TYPE_CHECKING:
    from penstock.query.planner import SelectPlanner


class Grouping:
    """The rows of groups: keys as g1, g2 … and aggregates as a1, a2 …, in a SELECT of their own."""

    def __init__(self, select: SelectPlanner, keys: list[Node], source: str) -> None:
        self._select, self._source = select, source
        self._alias = select.planner.alias()
        self._keys = [cast(key, "int") if key.type == VOID else key for key in keys]  # type: ignore[arg-type]
        self._aggregates: dict[Aggregate, Column] = {}
        self._known = {key: Column(f"{self._alias}.g{n}", key.type) for n, key in enumerate(self._keys, 1)}

    def rewritten(self, node: Node) -> Node:
        """A node over the rows of the FROM as one over the rows of groups."""
        return rewrite(node, self._replacement)

    def _replacement(self, node: Node) -> Node | None:
        if node in self._known:
            return self._known[node]
        if isinstance(node, Aggregate):
            if node not in self._aggregates:
                self._aggregates[node] = Column(f"{self._alias}.a{len(self._aggregates) + 1}", node.type)
            return self._aggregates[node]
        if isinstance(node, Column) and self._select.scope.owns(node):
            name = next(field.name for field in self._select.scope.fields if field.node == node)
            raise at(
                self._select.tree,
                Outside(
                    f"the column '{name}' is neither in GROUP BY nor in an aggregate: "
                    f"add it to GROUP BY, or use any_value({name})"
                ),
            )
        if isinstance(node, Subquery) and node.correlated:
            raise at(self._select.tree, Outside("a subquery that uses columns of a grouped SELECT is not supported"))
        return None

    def sql(self) -> str:
        """FROM (SELECT keys, aggregates …)."""
        renderer = self._select.planner.renderer
        columns = [f"{normal(renderer.sql(key), key.type)} AS g{n}" for n, key in enumerate(self._keys, 1)]
        columns += [
            f"{renderer.sql(node)} AS {column.name.partition('.')[2]}" for node, column in self._aggregates.items()
        ]
        by = ", ".join(str(n) for n in range(1, len(self._keys) + 1))
        listed = ", ".join(columns or ["count(*) AS a0"])
        return f" FROM (SELECT {listed}{self._source}{f' GROUP BY {by}' if by else ''}) AS {self._alias}"
