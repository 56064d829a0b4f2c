"""Connected components, kept up to date as edges come."""

from __future__ import annotations

from dataclasses import dataclass, replace

import polars as pl

from penstock.kernel.expressions import dtype
from penstock.model.types import Schema
from penstock.runtime.derived.loops.graphs import BETTER, EDGE, HOLD, KEY, TELL, Graph, vertex_kind


@dataclass(frozen=True)
class ConnectedComponents(Graph):
    """Which component each vertex is in: the smallest vertex of all that edges lead to, in whichever direction.

    A vertex keeps only edges that joined two components when they came: other edges never change anything.
    """

    @property
    def output(self) -> str:  # type: ignore[override]
        return f"vertex {self.kind}, component {self.kind}"

    @property
    def state(self) -> str:  # type: ignore[override]
        return f"component {self.kind}, near array<{self.kind}>, chunks int"

    @property
    def message(self) -> str:  # type: ignore[override]
        return f"says tinyint, other {self.kind}, component {self.kind}, hold array<{self.kind}>"

    def of(self, events: Schema) -> ConnectedComponents:
        return replace(self, kind=vertex_kind(events, self.a, self.b))

    def refuse(self, events: pl.DataFrame) -> pl.Expr | None:
        return pl.when(pl.col(self.a).is_null() | pl.col(self.b).is_null()).then(pl.lit("an end of the edge is null"))

    def enter(self, events: pl.DataFrame) -> pl.DataFrame:
        kind = dtype(self.kind)
        edges = events.select(pl.col(self.a).cast(kind).alias("vertex"), pl.col(self.b).cast(kind).alias("other"))
        return self.sent(pl.concat([edges, edges.select(vertex="other", other="vertex")]).unique(), EDGE)

    def step(self, states: pl.DataFrame, messages: pl.DataFrame, round: int) -> tuple[pl.DataFrame, pl.DataFrame]:
        own = states.with_columns(
            pl.when(pl.col("chunk") == 0).then(pl.col("component").fill_null(pl.col("vertex"))).otherwise("component"),
            pl.col("near").fill_null(pl.lit([], pl.List(dtype(self.kind)))),
            pl.col("chunks").fill_null(0),
        )
        is_new = states.filter(pl.col("chunks").is_null()).select(KEY)
        out = [self._answers(own, messages)]
        own, joined = self._joined(own, messages)
        own, better = self._better(own, messages)
        out += self._spread(better)
        own, spilled = self._spilled(own)
        changed = pl.concat([is_new, joined, better.select(KEY)]).unique()
        return own.join(changed, on=KEY, how="semi"), pl.concat([*out, *spilled])

    def _answers(self, own: pl.DataFrame, messages: pl.DataFrame) -> pl.DataFrame:
        """Sends the component of this end to those at the other ends of new edges."""
        edges = messages.filter(pl.col("says") == EDGE).select(*KEY, "other")
        neighbours = edges.join(own.select(*KEY, "component"), on=KEY)
        return self.sent(neighbours.select(vertex="other", other="vertex", component="component"), TELL)

    def _joined(self, own: pl.DataFrame, messages: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Edges between two components are kept, at both ends; a chunk gets the neighbours that it is to hold."""
        known = messages.filter(pl.col("says") == TELL).select(*KEY, "other", pl.col("component").alias("its"))
        known = known.join(own.select(*KEY, "component"), on=KEY).filter(pl.col("its") != pl.col("component"))
        kept = known.group_by(KEY).agg(pl.col("other").unique().sort().alias("more"))
        held = messages.filter(pl.col("says") == HOLD).select(*KEY, pl.col("hold").alias("more"))
        more = pl.concat([kept, held])
        if not more.height:
            return own, more.select(KEY)
        own = own.join(more, on=KEY, how="left").with_columns(
            pl.when(pl.col("more").is_null()).then("near").otherwise(pl.concat_list("near", "more")).alias("near")
        )
        return own.drop("more"), more.select(KEY)

    def _better(self, own: pl.DataFrame, messages: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Adopts smaller components; and the vertices that do so."""
        heard = messages.filter(pl.col("says").is_in([TELL, BETTER]))
        heard = heard.group_by(KEY).agg(heard=pl.col("component").min())
        smaller = pl.col("component").is_null() | (pl.col("heard") < pl.col("component"))
        better = (pl.col("heard").is_not_null() & smaller).fill_null(False).alias("better")
        own = own.join(heard, on=KEY, how="left").with_columns(better)
        own = own.with_columns(pl.when("better").then("heard").otherwise("component").alias("component"))
        return own.drop("heard", "better"), own.filter("better")

    def _spread(self, better: pl.DataFrame) -> list[pl.DataFrame]:
        """Sends better components to all neighbours, also those in chunks."""
        near = better.select("component", vertex="near").explode("vertex").drop_nulls("vertex")
        chunks = better.filter(pl.col("chunks") > 0).select(
            "vertex", "component", chunk=pl.int_ranges(1, pl.col("chunks") + 1)
        )
        return [self.sent(near, BETTER), self.sent(chunks.explode("chunk"), BETTER)]

    def _spilled(self, own: pl.DataFrame) -> tuple[pl.DataFrame, list[pl.DataFrame]]:
        """Moves neighbours beyond the limit to a new chunk."""
        full = own.filter((pl.col("chunk") == 0) & (pl.col("near").list.len() > self.chunk))
        if not full.height:
            return own, []
        rest = full.with_columns(near=pl.lit([], pl.List(dtype(self.kind))), chunks=pl.col("chunks") + 1)
        sent = self.sent(full.select("vertex", chunk=pl.col("chunks") + 1, hold="near"), HOLD)
        return pl.concat([own.join(full, on=KEY, how="anti"), rest]), [sent]

    def show(self, states: pl.DataFrame) -> pl.DataFrame:
        return states.filter(pl.col("chunk") == 0).select("vertex", "component")


def connected_components(a: str, b: str) -> ConnectedComponents:
    """The components of a graph whose edges are events with two columns. Edges stay: none can be taken back."""
    return ConnectedComponents(a, b)
