"""Retries dead letters where they failed, as an epoch of its own.

A row that a stream refused is parsed and admitted by what the stream is now. A dead letter may stand for a whole file
that could not be read: then the file is read again. A row on which a step before an operator, view or sink failed comes
again to this one alone, and a row on which an operator itself failed comes to that operator.

Those that pass count from that epoch on; those that fail again are dead letters of that epoch, with the new reason. All
of them are marked as retried in the transaction that commits the epoch, so that none comes twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from penstock.errors import unknown
from penstock.history.events.dead import dead_letters, letters_key, with_keys
from penstock.history.events.event_history import EventHistory
from penstock.kernel.offsets import epoch_offsets, retried_epoch
from penstock.kernel.plan import Plan
from penstock.model.stream import Stream
from penstock.model.time import Instant
from penstock.model.types import Schema
from penstock.runtime.derived.base import derived
from penstock.runtime.engine import Engine
from penstock.runtime.epoch.entry import INPUT, entering_again, of_input
from penstock.runtime.epoch.origin import EpochOrigin
from penstock.runtime.errors import RunError
from penstock.sources import MALFORMED, REASON, Files, Source
from penstock.sources.base import EXTENT, FILE, PART
from penstock.sources.formats import json_lines
from penstock.store import Commit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: How many dead letters, or files that could not be read, an epoch takes.
CHUNK: Final = 100_000
FILES: Final = 100
_TEXT: Final = ("json", "csv")


@dataclass(frozen=True)
class RetryCounts:
    """How many dead letters were retried, how many of them failed again, and how many were late this time."""

    rows: int = 0
    dead: int = 0
    late: int = 0

    def plus(self, other: RetryCounts) -> RetryCounts:
        return RetryCounts(self.rows + other.rows, self.dead + other.dead, self.late + other.late)


def retry(
    engine: Engine, spark: SparkSession, name: str, where: str | None, clock: Callable[[], Instant]
) -> RetryCounts:
    """Retries the dead letters of a stream, operator, view or sink: all, or those for which a condition holds.

    The caller has the mutex.
    """
    _check(engine, name)
    assert engine.registry.history is not None
    letters = dead_letters(engine.registry.history, name, where)
    total = RetryCounts()
    for (stream, reader), some in letters.partition_by("stream", "operator", maintain_order=True, as_dict=True).items():
        if reader is not None:
            parts = [_retry_for(engine, spark, stream, reader, chunk, clock) for chunk in some.iter_slices(CHUNK)]
        else:
            entered = pl.col("rest").str.json_path_match(f"$.{INPUT}").is_not_null() & (stream in _operators(engine))
            own = some.filter(entered)
            parts = [_enter(engine, spark, stream, chunk, clock) for chunk in own.iter_slices(CHUNK) if chunk.height]
            parts += _retry_stream(engine, spark, stream, some.filter(~entered.fill_null(False)), clock)
        total = reduce(RetryCounts.plus, parts, total)
    return total


def letter_streams(engine_streams: Collection[str], history: EventHistory | None, name: str) -> list[str]:
    """The streams whose dead letters a name stands for: itself, or those that an operator, view or sink reads."""
    if name in engine_streams or history is None:
        return [name]
    return dead_letters(history, name)["stream"].unique().to_list()


def _check(engine: Engine, name: str) -> None:
    """Rejects a name whose dead letters are not kept, or cannot be retried."""
    stream = engine.registry.streams.get(name)
    if engine.registry.history is None or (stream is not None and stream.kept == "none"):
        raise RunError(
            f"the dead letters of '{name}' are not kept: the stream says keep = none",
            hint="those in the store's table __refused can be inserted again by hand",
        )
    if stream is not None and derived(stream) is not None:
        raise RunError(
            f"the dead letters of '{name}' are what its code failed on, and no rows of it",
            hint="correct the code, and put the events into the streams that it reads",
        )


def _operators(engine: Engine) -> Collection[str]:
    return engine.registry.operators


def _retry_stream(
    engine: Engine, spark: SparkSession, name: str, letters: pl.DataFrame, clock: Callable[[], Instant]
) -> Iterator[RetryCounts]:
    """Retries rows that a stream itself rejected."""
    stream = engine.registry.streams[name]
    if name in _operators(engine):
        _refuse_without_row(name, letters)
    is_file = (pl.col("extent") == FILE).fill_null(False)
    texts, files = letters.filter(~is_file), letters.filter(is_file)
    for chunk in [*texts.iter_slices(CHUNK), *files.iter_slices(FILES)]:
        if not chunk.height:
            continue
        source = _source(engine, name, chunk)
        if (chunk["extent"] == FILE).any():
            assert isinstance(stream.log, Files)
            paths, space = list(dict.fromkeys(chunk["row"])), epoch_offsets(retried_epoch(source.epoch))
            frame = stream.log.read_these(spark, stream.schema, stream.schema.names, paths)
            source = replace(source, from_files=True, positions=stream.log.positions(paths, space))
        else:
            frame = _frame(spark, stream, chunk)
        commit = engine.epoch(name, stream.schema.names, frame, source, clock())
        yield RetryCounts(chunk.height, _count(commit, "dead", pl.col("view").is_null()))


def _refuse_without_row(name: str, letters: pl.DataFrame) -> None:
    """A timer on which code failed has no row that could come again."""
    timers = letters.filter(pl.col("partition").is_null())
    if timers.height:
        raise RunError(
            f"{timers.height} dead letters of '{name}' are timers: there is no row to retry",
            hint='choose the others: --where "partition IS NOT NULL"',
        )


def _retry_for(
    engine: Engine, spark: SparkSession, name: str, reader: str, chunk: pl.DataFrame, clock: Callable[[], Instant]
) -> RetryCounts:
    """Rows that a stream has accepted come again to one of its readers, which failed on them: to no other."""
    registry = engine.registry
    stream = registry.streams[name]
    plans = {of: view.plan for of, view in registry.fed.items()}
    plans |= {of: Plan(output.view) for of, output in registry.lowered.outputs.items()}
    plans |= {operator.name: plan for operator in registry.operators.values() for plan in operator.plans}
    if reader not in plans:
        raise unknown("operator, view or sink", reader, plans)
    if any(registry.lowered.feeds[feed].prefix for feed in plans[reader].sources):
        raise RunError(
            f"'{reader}' reads what DataFrame code makes of '{name}': its dead letters cannot enter behind the code",
            hint="compute it again from the history: penstock recompute",
        )
    source = _source(engine, name, chunk, reader)
    commit = engine.epoch(name, stream.schema.names, _frame(spark, stream, chunk), source, clock())
    own = pl.col("view") == reader
    entered = pl.col("view").is_null() & (pl.col("stream") == reader)  # late for the operator itself
    return RetryCounts(chunk.height, _count(commit, "dead", own | entered), _count(commit, "late", own | entered))


def _enter(
    engine: Engine, spark: SparkSession, name: str, chunk: pl.DataFrame, clock: Callable[[], Instant]
) -> RetryCounts:
    """Rows that came to an operator, on which it failed, come to it again."""
    inputs = engine.registry.operators[name].inputs
    own = {number: of_input(chunk, number) for number in range(len(inputs))}
    entering = {
        inputs[number].name: entering_again(spark, rows, inputs[number]) for number, rows in own.items() if rows.height
    }
    places = with_keys(chunk).partition_by("key", as_dict=True, include_key=False)
    retried = {str(key): rows.select("commit", "partition", "offset") for (key,), rows in places.items()}
    commit = engine.enter(entering, retried, clock())
    own_rows = pl.col("stream") == name
    late = _count(commit, "late", own_rows & pl.col("view").is_null())
    return RetryCounts(chunk.height, _count(commit, "dead", own_rows), late)


def _count(commit: Commit, kind: str, which: pl.Expr) -> int:
    refused = commit.refused.get(kind)
    return 0 if refused is None else refused.filter(which).height


def _source(engine: Engine, name: str, chunk: pl.DataFrame, reader: str | None = None) -> EpochOrigin:
    key = letters_key(name, reader)
    query = f"dead-letter:{key}"
    done = engine.store.progress(query)
    contents = {"rows": chunk.height, "commits": [chunk["commit"].min(), chunk["commit"].max()]}
    return EpochOrigin(
        query,
        0 if done is None else done.epoch + 1,
        json.dumps(contents),
        retried={key: chunk.select("commit", "partition", "offset")},
        reader=reader,
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
