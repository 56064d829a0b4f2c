"""Feeds dead letters in again: parsed and admitted by what the stream is now, as an epoch of its own.

A dead letter may stand for a whole file that could not be read: then the file is read again.

Those that pass count from that epoch on; those that fail again are dead letters of that epoch, with the new reason. All
of them are marked as fed in the transaction that commits the epoch, so that none comes twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from penstock.errors import unknown
from penstock.history.events.dead import dead_letters
from penstock.kernel.offsets import epoch_offsets, retried_epoch
from penstock.model.stream import Stream
from penstock.model.time import Instant
from penstock.model.types import Schema
from penstock.runtime.derived.base import derived
from penstock.runtime.engine import Engine
from penstock.runtime.epoch.origin import EpochOrigin
from penstock.runtime.errors import RunError
from penstock.sources import MALFORMED, REASON, Files, Source
from penstock.sources.base import EXTENT, FILE, PART
from penstock.sources.formats import json_lines

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: An epoch takes so many dead letters, or so many files that could not be read.
CHUNK: Final = 100_000
FILES: Final = 100
_TEXT: Final = ("json", "csv")


@dataclass(frozen=True)
class Retried:
    """How many dead letters were fed in again, and how many of them failed again."""

    rows: int
    dead: int


def retry(engine: Engine, spark: SparkSession, name: str, where: str | None, clock: Callable[[], Instant]) -> Retried:
    """Feeds the dead letters of a stream in again, or those for which a condition holds. The caller has the mutex."""
    if name not in engine.registry.streams:
        raise unknown("stream", name, engine.registry.streams)
    stream = engine.registry.streams[name]
    if engine.registry.history is None or stream.kept == "none":
        raise RunError(
            f"the dead letters of '{name}' are not kept: the stream says keep = none",
            hint="those in the store's table __refused can be inserted again by hand",
        )
    if derived(stream) is not None:
        raise RunError(
            f"the dead letters of '{name}' are what its processor failed on, and no rows of it",
            hint="correct the processor, and put the events into the streams that it reads",
        )
    letters = dead_letters(engine.registry.history, name, where)
    is_file = (pl.col("extent") == FILE).fill_null(False)
    texts, files = letters.filter(~is_file), letters.filter(is_file)
    dead = 0
    for chunk in [*texts.iter_slices(CHUNK), *files.iter_slices(FILES)]:
        is_files = bool((chunk["extent"] == FILE).any())
        source = _source(engine, name, chunk)
        if is_files:
            assert isinstance(stream.log, Files)
            paths, space = list(dict.fromkeys(chunk["row"])), epoch_offsets(retried_epoch(source.epoch))
            frame = stream.log.read_these(spark, stream.schema, stream.schema.names, paths)
            source = replace(source, from_files=True, positions=stream.log.positions(paths, space))
        else:
            frame = _frame(spark, stream, chunk)
        commit = engine.epoch(name, stream.schema.names, frame, source, clock())
        again = commit.refused.get("dead")
        dead += 0 if again is None else again.filter(pl.col("view").is_null()).height
    return Retried(letters.height, dead)


def _source(engine: Engine, name: str, chunk: pl.DataFrame) -> EpochOrigin:
    query = f"dead-letter:{name}"
    done = engine.store.progress(query)
    told = {"rows": chunk.height, "commits": [chunk["commit"].min(), chunk["commit"].max()]}
    return EpochOrigin(
        query,
        0 if done is None else done.epoch + 1,
        json.dumps(told),
        retried=chunk.select("commit", "partition", "offset"),
    )


def _frame(spark: SparkSession, stream: Stream, chunk: pl.DataFrame) -> DataFrame:
    """Dead letters as rows of the stream at their old places; text that still does not fit is malformed."""
    from pyspark.sql import functions as f

    log: Any = stream.log
    beside = [name for name, _ in getattr(log, "metadata", ())]
    judged = _judged(chunk, stream.schema.pick([name for name in stream.schema.names if name not in beside]), log)
    columns = ["row", "raw", "rest", "reason", "extent", "partition", "offset", "__flaw"]
    letters = spark.createDataFrame(judged.select(columns).to_arrow(compat_level=pl.CompatLevel.oldest()))
    ddl = ", ".join(f"`{name}` {kind}" for name, kind in stream.schema)
    text = ", ".join(f"`{name}` {kind}" for name, kind in stream.schema if name not in beside)
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": MALFORMED}
    format = getattr(log, "format", "json")
    raw = f.col("raw") & f.lit(format in _TEXT)
    csv = format == "csv"
    parsed = f.from_json("row", f"{ddl}, `{MALFORMED}` string", options)
    own = (
        f.from_csv("row", f"{text}, `{MALFORMED}` string", {**options, "sep": log.delimiter})
        if csv
        else f.from_json("row", f"{text}, `{MALFORMED}` string", options)
    )
    rest = ", ".join(f"`{name}` {stream.schema.type_of(name)}" for name in beside)
    letters = letters.withColumns(
        {
            "__json": f.when(~f.col("raw"), parsed),
            "__own": f.when(raw, own),
            **({"__rest": f.from_json("rest", rest)} if beside else {}),
        }
    )
    fields = [
        f.when(f.col("raw"), f.col(f"__rest.{name}" if name in beside else f"__own.{name}"))
        .otherwise(f.col(f"__json.{name}"))
        .alias(name)
        for name in stream.schema.names
    ]
    lost = f.col("raw") & (f.col("__own").isNull() | f.col(f"__own.{MALFORMED}").isNotNull())
    lost = lost | (~f.col("raw") & (f.col("__json").isNull() | f.col(f"__json.{MALFORMED}").isNotNull()))
    lost = lost | f.col("__flaw").isNotNull()
    reason = f.when(lost & ~raw & f.col("raw"), f.col("reason"))
    return letters.select(
        *fields,
        f.when(lost, f.col("row")).alias(MALFORMED),
        f.coalesce(f.when(f.col("__flaw") != "", f.col("__flaw")), reason).alias(REASON),
        f.col("extent").alias(EXTENT),
        f.col("partition").cast("int").alias("__partition"),
        f.col("offset").cast("long").alias("__offset"),
    )


def _judged(chunk: pl.DataFrame, schema: Schema, log: Any) -> pl.DataFrame:
    """Dead letters with `__flaw`: why text still does not fit, empty where there is no more to say; null if it may fit.

    Only part of a line cannot be read at all. Of JSON Spark takes more than a stream does.
    """
    chunk = chunk.with_columns(pl.when(pl.col("extent") == PART).then(pl.col("reason")).alias("__flaw"))
    if not isinstance(log, Source) or getattr(log, "format", "json") != "json" or not json_lines.reads(schema):
        return chunk
    rows = json_lines.decoded(chunk["row"].fill_null(""), schema, blank=True)
    flaw = pl.when(chunk["raw"] & rows[MALFORMED].is_not_null()).then(rows[REASON].fill_null(""))
    return chunk.with_columns(pl.coalesce("__flaw", flaw).alias("__flaw"))
