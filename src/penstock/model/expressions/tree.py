"""The typed tree of an expression. Every coercion is an explicit `cast`, so that evaluators only look at the nodes.

>>> Call("add", (Column("price", "int"), Literal(1, "int")), "int")
Call(name='add', args=(Column(name='price', type='int'), Literal(value=1, type='int')), type='int', safe=False)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

#: The type of a bare NULL, and that of an interval of fixed length in microseconds: known to `bind` alone.
VOID = "void"
INTERVAL = "interval"


@dataclass(frozen=True)
class Column:
    """The value of a column, by its declared name."""

    name: str
    type: str


@dataclass(frozen=True)
class Literal:
    """A constant, in the representation that `evaluate` returns."""

    value: object
    type: str


@dataclass(frozen=True)
class Call:
    """A function or operator of the subset. If `safe`, its own failure is a null (its arguments' failures are not)."""

    name: str
    args: tuple[Node, ...]
    type: str
    safe: bool = False


Node: TypeAlias = Column | Literal | Call


def is_constant(node: Node) -> bool:
    """Whether a node reads no column."""
    match node:
        case Column():
            return False
        case Literal():
            return True
        case Call(args=args):
            return all(is_constant(arg) for arg in args)
