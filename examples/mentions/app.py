"""Naiad's example: who mentions whom, and the top tag among all who hang together. Posts come as Parquet files.

penstock run examples/mentions/app.py
penstock query "SELECT t.tag, t.posts FROM people p JOIN tags t ON t.component = p.component
                WHERE p.user = 'u17' ORDER BY t.posts DESC LIMIT 1"
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl

import penstock as ps
from penstock.model.types import Schema
from penstock.runtime.derived.loops.components import ConnectedComponents
from penstock.runtime.derived.loops.graphs import EDGE, KEY

#: What a message says, besides those of connected components: a number of posts with a tag.
TAG = 4
#: The top tag in the component of a user.
TOP = """SELECT t.tag, t.posts FROM people p JOIN tags t ON t.component = p.component
         WHERE p.user = ?1 ORDER BY t.posts DESC, t.tag LIMIT 1"""


@dataclass(frozen=True)
class Mentions(ConnectedComponents):
    """Components of the graph of mentions, in which each user brings along the tags of its posts.

    It shows a row for each user with its component, and one for each of its tags. When components grow together, the
    rows of those who move are retracted and shown again: so counts by component stay right.
    """

    output = "user string, component string, tag string, posts bigint"  # type: ignore[assignment]

    @property
    def state(self) -> str:  # type: ignore[override]
        return f"{super().state}, tags array<string>, counts array<bigint>"

    @property
    def message(self) -> str:  # type: ignore[override]
        return f"{super().message}, posts bigint"

    def of(self, events: Schema) -> Mentions:
        return self

    def refuse(self, events: pl.DataFrame) -> pl.Expr:
        return pl.when(pl.col("user").is_null()).then(pl.lit("nobody has posted it"))

    def enter(self, events: pl.DataFrame) -> pl.DataFrame:
        named = events.select(vertex="user", other="mentions").explode("other").drop_nulls("other")
        alone = events.select(vertex="user", other="user")  # who mentions nobody is there too
        edges = pl.concat([named, named.select(vertex="other", other="vertex"), alone]).unique()
        tags = events.select(vertex="user", other="tags").explode("other").drop_nulls("other")
        tags = tags.group_by("vertex", "other").agg(posts=pl.len())
        return pl.concat([self.sent(edges, EDGE), self.sent(tags, TAG)])

    def step(self, states: pl.DataFrame, messages: pl.DataFrame, round: int) -> tuple[pl.DataFrame, pl.DataFrame]:
        tagged = messages.filter(pl.col("says") == TAG).select(*KEY, tag="other", posts="posts")
        states = self._counted(states, tagged) if tagged.height else states
        changed, sent = super().step(states, messages.filter(pl.col("says") != TAG), round)
        if tagged.height:
            only = states.join(tagged, on=KEY, how="semi").join(changed, on=KEY, how="anti")
            changed = pl.concat([changed, only.select(changed.columns)])
        return changed, sent

    def _counted(self, states: pl.DataFrame, tagged: pl.DataFrame) -> pl.DataFrame:
        counted = states.join(tagged, on=KEY, how="semi").select(*KEY, tag="tags", posts="counts")
        counted = counted.explode("tag", "posts").drop_nulls("tag")
        total = pl.concat([counted, tagged.select(counted.columns)]).group_by(*KEY, "tag").agg(pl.col("posts").sum())
        lists = total.sort("tag").group_by(KEY, maintain_order=True).agg(more="tag", much="posts")
        states = states.join(lists, on=KEY, how="left").with_columns(
            tags=pl.coalesce("more", "tags"), counts=pl.coalesce("much", "counts")
        )
        return states.drop("more", "much")

    def show(self, states: pl.DataFrame) -> pl.DataFrame:
        own = states.filter(pl.col("chunk") == 0)
        nobody, nothing = pl.lit(None, pl.String), pl.lit(None, pl.Int64)
        people = own.select(pl.col("vertex").alias("user"), "component", nobody.alias("tag"), nothing.alias("posts"))
        tags = own.select("component", tag="tags", posts="counts").explode("tag", "posts").drop_nulls("tag")
        return pl.concat([people, tags.select(nobody.alias("user"), "component", "tag", "posts")])


def make(folder: str | Path, **options: object) -> ps.App:
    """The app over a folder of posts."""
    app = ps.App("mentions")
    posts = app.stream(
        "posts", ps.files(folder, format="parquet", **options),  # type: ignore[arg-type]
        schema="user string, mentions array<string>, tags array<string>",
    )  # fmt: skip
    graph = app.iterate("graph", posts, Mentions("user", "mentions"))
    app.view("people", graph.where("tag IS NULL").group_by("user").agg(component=ps.max("component")))
    app.view("tags", graph.where("tag IS NOT NULL").group_by("component", "tag").agg(posts=ps.sum("posts")))
    return app


app = make(Path(__file__).parent / "posts")
