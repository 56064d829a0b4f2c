"""What loops over graphs have in common: vertices as keys, and neighbours in chunks.

They take edges and never lose one, so what an epoch costs follows what it changes. A vertex with many neighbours keeps
them in chunks, which are keys of their own: one more neighbour is one more entry, however many there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final

import polars as pl

from penstock.errors import DefinitionError
from penstock.kernel.expressions import dtype
from penstock.model.loops import FrameLoop
from penstock.model.types import Schema, is_integer

#: What a message says: there is an edge to `other`; `other` is at the far end of an edge and has this value; here is a
#: better value; these neighbours are yours.
EDGE, TELL, BETTER, HOLD = 0, 1, 2, 3
KEY: Final = ["vertex", "chunk"]


@dataclass(frozen=True)
class Graph(FrameLoop):
    """Edges are events with two columns, `a` and `b`. A vertex itself is its chunk 0."""

    a: str
    b: str
    kind: str = "string"

    #: How many neighbours a vertex keeps with itself.
    chunk: ClassVar[int] = 64

    @property
    def key(self) -> str:  # type: ignore[override]
        return f"vertex {self.kind}, chunk int"

    def sent(self, rows: pl.DataFrame, says: int) -> pl.DataFrame:
        """Messages with the columns that they have, and nulls for the others."""
        kinds = {name: dtype(kind) for name, kind in Schema.parse(f"{self.key}, {self.message}")}
        defaults: dict[str, Any] = {"chunk": 0, "says": says}
        columns = [
            (pl.col(name) if name in rows.columns else pl.lit(defaults.get(name))).cast(kind).alias(name)
            for name, kind in kinds.items()
        ]
        return rows.select(columns)


def vertex_kind(events: Schema, *columns: str) -> str:
    """The type that vertices have, where the two ends of an edge are these columns."""
    kinds = {_wide(events.type_of(column)) for column in columns}
    if len(kinds) > 1:
        raise DefinitionError(
            f"the two ends of an edge have different types: {', '.join(f'{c} {events.type_of(c)}' for c in columns)}",
            hint="cast one of them",
        )
    return kinds.pop()


def _wide(kind: str) -> str:
    if kind == "string":
        return "string"
    if is_integer(kind):
        return "bigint"
    raise DefinitionError(f"a vertex is a text or a whole number, and not {kind}", hint="cast it: CAST(a AS string)")
