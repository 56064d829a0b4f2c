"""The nodes that only questions have: aggregates, window functions and subqueries, beside the nodes of expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from penstock.model.expressions.tree import Call, Column, Literal
from penstock.model.expressions.tree import Node as Expression


@dataclass(frozen=True)
class Sorted:
    """A term of ORDER BY. The place of nulls is always written out."""

    node: Node
    descending: bool
    nulls_first: bool


@dataclass(frozen=True)
class Aggregate:
    """An aggregate function over the rows of a group, or of a window's frame."""

    name: str
    args: tuple[Node, ...]
    type: str
    distinct: bool = False
    where: Node | None = None
    order: tuple[Sorted, ...] = ()


@dataclass(frozen=True)
class Windowed:
    """A window function, or an aggregate over a window. `frame` is SQL made of known words and bound numbers."""

    name: str
    args: tuple[Node, ...]
    type: str
    aggregate: Aggregate | None
    ignore_nulls: bool
    partition: tuple[Node, ...]
    order: tuple[Sorted, ...]
    frame: str


@dataclass(frozen=True)
class Subquery:
    """A query as a value: `kind` is scalar, in or exists; `arg` is what stands before IN."""

    kind: str
    sql: str
    type: str
    arg: Node | None = None
    correlated: bool = False


Node: TypeAlias = Expression | Aggregate | Windowed | Subquery


def children(node: Node) -> Iterator[Node]:
    """The nodes right below a node."""
    match node:
        case Call(args=args):
            yield from args
        case Aggregate():
            yield from node.args
            if node.where is not None:
                yield node.where
            yield from (term.node for term in node.order)
        case Windowed():
            yield from node.args
            if node.aggregate is not None:
                yield node.aggregate
            yield from node.partition
            yield from (term.node for term in node.order)
        case Subquery(arg=arg) if arg is not None:
            yield arg


def rewrite(node: Node, change: Callable[[Node], Node | None]) -> Node:
    """The tree with the nodes replaced for which `change` gives another; their children are left alone."""
    other = change(node)
    if other is not None:
        return other
    match node:
        case Column() | Literal():
            return node
        case Call():
            return replace(node, args=tuple(rewrite(arg, change) for arg in node.args))  # type: ignore[misc]
        case Aggregate():
            return replace(
                node,
                args=tuple(rewrite(arg, change) for arg in node.args),
                where=None if node.where is None else rewrite(node.where, change),
                order=_terms(node.order, change),
            )
        case Windowed():
            inner = None
            if node.aggregate is not None:
                # The aggregate is computed over the window: only what stands inside it may be a value of the group.
                part = node.aggregate
                inner = replace(
                    part,
                    args=tuple(rewrite(arg, change) for arg in part.args),
                    where=None if part.where is None else rewrite(part.where, change),
                )
            return replace(
                node,
                args=tuple(rewrite(arg, change) for arg in node.args),
                aggregate=inner,
                partition=tuple(rewrite(arg, change) for arg in node.partition),
                order=_terms(node.order, change),
            )
        case Subquery():
            return node if node.arg is None else replace(node, arg=rewrite(node.arg, change))


def _terms(order: tuple[Sorted, ...], change: Callable[[Node], Node | None]) -> tuple[Sorted, ...]:
    return tuple(replace(term, node=rewrite(term.node, change)) for term in order)


def contains(node: Node, kinds: type | tuple[type, ...]) -> bool:
    """Whether a node of these kinds stands in a tree."""
    return isinstance(node, kinds) or any(contains(child, kinds) for child in children(node))


def groups_rows(node: Node) -> bool:
    """Whether a tree has an aggregate of its group; one over a window is none."""
    if isinstance(node, Aggregate):
        return True
    if isinstance(node, Windowed) and node.aggregate is not None:
        inner = [*node.aggregate.args, *node.partition, *(term.node for term in node.order)]
        return any(groups_rows(child) for child in inner)
    return any(groups_rows(child) for child in children(node))
