"""De-duplication: which rows of an epoch do not count, because of their ids, and which ids are new.

>>> rows = pl.DataFrame({"__id": ["a", "b", "b"], "__at": [5, 6, 7], "__partition": [0, 0, 0], "__offset": [1, 2, 3]})
>>> verdict = deduplicate(rows, known=pl.DataFrame({"__id": ["a"], "__at": [1]}), watermark=BEGINNING, horizon=0)
>>> verdict.rejected.select("__offset", "__kind").rows(), verdict.new_ids.rows()
([(1, 'duplicate'), (3, 'duplicate')], [('b', 6)])
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from penstock.kernel.elements import compiled, dead_schema
from penstock.kernel.plan import PLACE, nothing
from penstock.model.commits import DUPLICATE, TOO_OLD
from penstock.model.stream import Stream
from penstock.model.time import BEGINNING, Instant


@dataclass(frozen=True)
class IdentifiedRows:
    """Rows with `__id`, which may be null; and the positions of rows whose id cannot be computed, with the reason."""

    rows: pl.DataFrame
    dead: pl.DataFrame


@dataclass(frozen=True)
class Verdict:
    """The places of rows that do not count, with `__kind` and `__reason`; and new ids (`__id`, `__at`)."""

    rejected: pl.DataFrame
    new_ids: pl.DataFrame


def identify(stream: Stream, rows: pl.DataFrame) -> IdentifiedRows:
    """Computes the ids of a stream's rows."""
    assert stream.id is not None
    identity = compiled(stream.id, stream.schema)
    rows = rows.with_columns(identity.value.alias("__id"))
    if identity.error is None:
        return IdentifiedRows(rows, nothing(dead_schema()))
    rows = rows.with_columns(identity.error.alias("__reason"))
    failed = pl.col("__reason").is_not_null()
    return IdentifiedRows(rows.filter(~failed).drop("__reason"), rows.filter(failed).select(list(dead_schema())))


def deduplicate(ids: pl.DataFrame, known: pl.DataFrame, watermark: Instant, horizon: int) -> Verdict:
    """Judges all ids of an epoch (`__id`, `__at` and place) by the ids that were accepted before.

    A row is a duplicate if its id is known or occurs at an earlier place of the epoch. A row more than `horizon`
    older than the watermark is late, and an id that old is not known any more. Rows without an id always count.
    """
    named = ids.filter(pl.col("__id").is_not_null()).sort(PLACE)
    recent = pl.col("__at") >= (watermark - horizon if watermark > BEGINNING else BEGINNING)
    judged = named.filter(recent)
    new = judged.join(known.filter(recent), on="__id", how="anti", maintain_order="left")
    new = new.filter(pl.col("__id").is_first_distinct())
    rejected = pl.concat(
        [
            _rejected(judged.join(new, on=PLACE, how="anti", maintain_order="left"), "duplicate", DUPLICATE),
            _rejected(named.filter(~recent), "late", TOO_OLD),
        ]
    )
    return Verdict(rejected, new.select("__id", "__at"))


def forget(stream: Stream, known: pl.DataFrame, watermark: Instant) -> pl.DataFrame:
    """The known ids that are still within the horizon."""
    return known.filter(pl.col("__at") >= watermark - stream.id_horizon) if watermark > BEGINNING else known


def _rejected(rows: pl.DataFrame, kind: str, reason: str) -> pl.DataFrame:
    return rows.select(*PLACE, pl.lit(kind).alias("__kind"), pl.lit(reason).alias("__reason"))
