"""Shortest paths from some vertices, kept up to date as edges come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import polars as pl

from penstock.errors import DefinitionError
from penstock.kernel.expressions import dtype
from penstock.model.types import Schema, is_numeric
from penstock.runtime.derived.loops.graphs import BETTER, EDGE, HOLD, KEY, Graph, vertex_kind


@dataclass(frozen=True)
class ShortestPaths(Graph):
    """How far each vertex is from the nearest of the given ones, along the edges."""

    sources: tuple[object, ...] = ()
    weight: str | None = None
    both_ways: bool = False

    @property
    def output(self) -> str:  # type: ignore[override]
        return f"vertex {self.kind}, distance double"

    @property
    def state(self) -> str:  # type: ignore[override]
        return f"distance double, near array<{self.kind}>, weights array<double>, chunks int"

    @property
    def message(self) -> str:  # type: ignore[override]
        return f"says tinyint, other {self.kind}, distance double, hold array<{self.kind}>, held array<double>"

    def of(self, events: Schema) -> ShortestPaths:
        kind = vertex_kind(events, self.a, self.b)
        for source in self.sources:
            if isinstance(source, bool) or not isinstance(source, str if kind == "string" else int):
                raise DefinitionError(f"the source {source!r} is not of type {kind}, which the vertices are")
        if self.weight is not None and not is_numeric(events.type_of(self.weight)):
            raise DefinitionError(f"the weight '{self.weight}' is {events.type_of(self.weight)}, not a number")
        return replace(self, kind=kind)

    def refuse(self, events: pl.DataFrame) -> pl.Expr | None:
        why: Any = pl.when(pl.col(self.a).is_null() | pl.col(self.b).is_null()).then(
            pl.lit("an end of the edge is null")
        )
        if self.weight is None:
            return cast(pl.Expr, why)
        weight = pl.col(self.weight).cast(pl.Float64)
        why = why.when(weight.is_null() | weight.is_nan()).then(pl.lit("the weight is not a number"))
        why = why.when(weight < 0).then(pl.format("the weight {} is negative: ways would have no end", weight))
        return cast(pl.Expr, why)

    def enter(self, events: pl.DataFrame) -> pl.DataFrame:
        kind = dtype(self.kind)
        weight = pl.lit(1.0) if self.weight is None else pl.col(self.weight).cast(pl.Float64)
        edges = events.select(
            pl.col(self.a).cast(kind).alias("vertex"), pl.col(self.b).cast(kind).alias("other"), distance=weight
        )
        if self.both_ways:
            edges = pl.concat([edges, edges.select("distance", vertex="other", other="vertex").select(edges.columns)])
        edges = edges.group_by("vertex", "other").agg(pl.col("distance").min())
        ends = edges.select(vertex="other").filter(pl.col("vertex").is_in(list(self.sources))).unique()
        return pl.concat([self.sent(edges, EDGE), self.sent(ends, EDGE)])

    def step(self, states: pl.DataFrame, messages: pl.DataFrame, round: int) -> tuple[pl.DataFrame, pl.DataFrame]:
        is_source = pl.col("vertex").is_in(list(self.sources)) & (pl.col("chunk") == 0) & pl.col("chunks").is_null()
        own = states.with_columns(
            pl.when(is_source).then(pl.lit(0.0)).otherwise("distance").alias("distance"),
            pl.col("near").fill_null(pl.lit([], pl.List(dtype(self.kind)))),
            pl.col("weights").fill_null(pl.lit([], pl.List(pl.Float64))),
            pl.col("chunks").fill_null(0),
        )
        is_new = states.filter(pl.col("chunks").is_null()).select(KEY)
        own, joined, sent = self._joined(own, messages)
        own, better = self._better(own, messages)
        out = [sent, *self._spread(better)]
        own, spilled = self._spilled(own)
        changed = pl.concat([is_new, joined, better.select(KEY)]).unique()
        return own.join(changed, on=KEY, how="semi"), pl.concat([*out, *spilled])

    def _joined(self, own: pl.DataFrame, messages: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
        """New edges are kept where they begin; the vertices at their ends get the distance."""
        edges = messages.filter((pl.col("says") == EDGE) & pl.col("other").is_not_null())
        edges = edges.select(*KEY, "other", pl.col("distance").alias("weight"))
        ends = edges.join(own.select(*KEY, "distance", "near", "weights"), on=KEY)
        known = ends.select(*KEY, "near", "weights").unique(KEY).explode("near", "weights").drop_nulls("near")
        known = known.select(*KEY, other="near", known="weights").group_by(*KEY, "other").agg(pl.col("known").min())
        ends = ends.drop("near", "weights").join(known, on=[*KEY, "other"], how="left")
        ends = ends.filter(pl.col("known").is_null() | (pl.col("weight") < pl.col("known")))
        kept = ends.sort("other").group_by(KEY, maintain_order=True).agg(more="other", weigh="weight")
        held = messages.filter(pl.col("says") == HOLD).select(*KEY, more="hold", weigh="held")
        more = pl.concat([kept, held])
        near = ends.filter(pl.col("distance").is_not_null())
        sent = self.sent(near.select(vertex="other", distance=pl.col("distance") + pl.col("weight")), BETTER)
        if more.height:
            none = pl.col("more").is_null()
            own = own.join(more, on=KEY, how="left").with_columns(
                pl.when(none).then("near").otherwise(pl.concat_list("near", "more")).alias("near"),
                pl.when(none).then("weights").otherwise(pl.concat_list("weights", "weigh")).alias("weights"),
            )
            own = own.drop("more", "weigh")
        return own, more.select(KEY), sent

    def _better(self, own: pl.DataFrame, messages: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        heard = messages.filter(pl.col("says") == BETTER).group_by(KEY).agg(heard=pl.col("distance").min())
        less = pl.col("heard").is_not_null() & (pl.col("distance").is_null() | (pl.col("heard") < pl.col("distance")))
        own = own.join(heard, on=KEY, how="left").with_columns(less.fill_null(False).alias("better"))
        own = own.with_columns(pl.when("better").then("heard").otherwise("distance").alias("distance"))
        return own.drop("heard", "better"), own.filter("better")

    def _spread(self, better: pl.DataFrame) -> list[pl.DataFrame]:
        near = better.select("distance", "near", "weights").explode("near", "weights").drop_nulls("near")
        near = near.select(vertex="near", distance=pl.col("distance") + pl.col("weights"))
        chunks = better.filter(pl.col("chunks") > 0).select(
            "vertex", "distance", chunk=pl.int_ranges(1, pl.col("chunks") + 1)
        )
        return [self.sent(near, BETTER), self.sent(chunks.explode("chunk"), BETTER)]

    def _spilled(self, own: pl.DataFrame) -> tuple[pl.DataFrame, list[pl.DataFrame]]:
        full = own.filter((pl.col("chunk") == 0) & (pl.col("near").list.len() > self.chunk))
        if not full.height:
            return own, []
        rest = full.with_columns(
            near=pl.lit([], pl.List(dtype(self.kind))), weights=pl.lit([], pl.List(pl.Float64)),
            chunks=pl.col("chunks") + 1,
        )  # fmt: skip
        held = full.select("vertex", chunk=pl.col("chunks") + 1, hold="near", held="weights")
        return pl.concat([own.join(full, on=KEY, how="anti"), rest]), [self.sent(held, HOLD)]

    def show(self, states: pl.DataFrame) -> pl.DataFrame:
        reached = states.filter((pl.col("chunk") == 0) & pl.col("distance").is_not_null())
        return reached.select("vertex", "distance")


def shortest_paths(
    a: str, b: str, *, sources: object | Sequence[object], weight: str | None = None, both_ways: bool = False
) -> ShortestPaths:
    """How far vertices are from the nearest source, along edges from `a` to `b`, each 1 or its `weight` long.

    Edges stay: none can be taken back or become longer; one that comes again counts if it is shorter.
    """
    several = tuple(sources) if isinstance(sources, (list, tuple, set, frozenset)) else (sources,)
    if not several:
        raise DefinitionError("shortest paths need a source", hint="sources='home', or a list of several")
    return ShortestPaths(a, b, sources=several, weight=weight, both_ways=both_ways)
