"""One epoch of a stream in Spark's tasks: the stream itself, and what each piece of DataFrame code makes of it.

Where rows come with their places, as from Kafka, all of it is one Spark job. Else the stream has a job, and each piece
of code one.

Few rows are reduced on the driver, by the same code: a job would take longer to be planned than to be done.

If Spark's part fails, Catalyst's columns or the code, the rows on which it does are looked for (`poison`). Those are
dead letters, and everything else goes the same way again, in the same epoch, with every row at its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

import polars as pl
import pyarrow as pa

from penstock.errors import PenstockError
from penstock.kernel.plan import PLACE
from penstock.kernel.share import Sharing
from penstock.runtime.derived.base import Rows
from penstock.runtime.epoch.analyst import applied
from penstock.runtime.epoch.feeds import Feed
from penstock.runtime.epoch.gather import Epoch, gathered
from penstock.runtime.epoch.ids import Identifier
from penstock.runtime.epoch.job import Admitting, Decoding, DecodingAndAdmitting, Job
from penstock.runtime.epoch.places import placed
from penstock.runtime.epoch.poison import Culprit, culprits, numbered
from penstock.runtime.epoch.small import for_tasks, small_epoch_bytes
from penstock.runtime.epoch.task import NUMBER
from penstock.runtime.epoch.wire import RECORD, Record, as_json, records_of, refusals
from penstock.runtime.errors import RunError, essence
from penstock.runtime.queries.retry import passes
from penstock.runtime.tables.frame import TableFrames
from penstock.sources import MALFORMED, REASON, Files, Source
from penstock.sources.base import ARRIVED, EXTENT, LATE, ReadSmall

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: The setting with about how many bytes of files a task reads at most.
SLICE: Final = "spark.penstock.sliceBytes"
SLICE_BYTES: Final = 32 << 20
#: Rows that are here already need no job up to this number of bytes. Users' code takes longer, and runs on all cores.
HERE: Final = 64 << 20
HERE_WITH_CODE: Final = 1 << 20
#: Has Spark's tasks do a job, and puts together what they send.
Take = Callable[["DataFrame", Job], Epoch]


class Reduction:
    """The jobs of one epoch. The first feed is the stream itself; `columns` are those of its own that were read.

    `frames` keeps tables from epoch to epoch. `small` reads the rows of an epoch on the driver if they are few, and
    then the driver does the work. None leaves it to Spark's tasks. Rows that operators give are reduced on the driver
    too, up to `here` bytes of them.
    """

    def __init__(
        self,
        feeds: Sequence[Feed],
        jobs: Mapping[str, Job],
        columns: tuple[str, ...],
        identifier: Identifier,
        take: Take | None = None,
        frames: TableFrames | None = None,
        *,
        small: ReadSmall | None = None,
        here: int = HERE,
    ) -> None:
        self._feed, *self._made = feeds
        self._jobs, self._columns, self._identifier, self._take = jobs, columns, identifier, take or taken
        self._frames, self._read_small, self._here_bytes = frames, small, here
        self._kept: list[DataFrame] = []

    def run(self, rows: Rows) -> dict[str, Epoch]:
        """What the tasks sent, by feed."""
        small = None if isinstance(rows, pa.Table) else self._small(rows)
        rows = rows if small is None else small
        if isinstance(rows, pa.Table):
            if self._is_plain and rows.nbytes <= self._here_bytes:
                return {self._feed.name: self._here(rows)}
            rows = for_tasks(rows)
        jobs = self._jobs
        slices = self._slices(rows)
        try:
            try:
                return self._run(rows if slices is None else slices)
            except Exception as error:
                if slices is not None and Files.failed_in_part(error):
                    self._jobs = jobs
                    return self._run(rows)
                undamaged = None if passes(error) else self._around_damage(rows)
                if undamaged is None:
                    raise
                self._jobs = jobs
                return self._run(undamaged)
        finally:
            for frame in self._kept:
                frame.unpersist()

    def _run(self, rows: DataFrame) -> dict[str, Epoch]:
        if self._made or self._feed.stream.id is not None:
            rows = self._keep(rows.persist())
        if self._fits_one_job(rows):
            jobs = self._jobs
            try:
                return self._in_one_job(rows)
            except Exception as error:
                if isinstance(error, PenstockError) or passes(error):
                    raise
                self._jobs = jobs  # one by one, to find the rows on which they fail
        base, job, frame = self._stream(self._decoded(rows))
        epochs = {self._feed.name: base}
        for feed in self._made:
            epochs[feed.name] = self._after_code(feed, frame, job)
        return epochs

    def _fits_one_job(self, rows: DataFrame) -> bool:
        """Whether the stream and what code makes of it can be one job: tasks must not have to number rows."""
        return bool(self._made) and self._take is taken and "__offset" in rows.columns

    def _in_one_job(self, rows: DataFrame) -> dict[str, Epoch]:
        """The stream, and what each piece of code makes of it, in one Spark job: its fixed cost is paid once."""
        log, job = self._feed.source.log, self._jobs[self._feed.name]
        raw = not job.decoded and isinstance(log, Source) and log.decodes(self._feed.source.schema.pick(self._columns))
        if raw and self._feed.columns:
            rows, raw = self._decoded(rows), False
            job = self._jobs[self._feed.name]
        frame = with_columns(rows, self._feed.columns)
        job = self._known(frame, job)
        accepted = self._decoded_and_accepted(frame, job) if raw else self._accepted(frame, job)
        # The rows of code have places by their task: it comes first, so that its tasks have the numbers of an own job.
        parts = [(with_columns(self._code(feed, accepted), feed.columns), self._jobs[feed.name]) for feed in self._made]
        *made, base = taken_together([*parts, (frame, job)])
        return {self._feed.name: base} | {feed.name: epoch for feed, epoch in zip(self._made, made, strict=True)}

    def _decoded_and_accepted(self, frame: DataFrame, job: Job) -> DataFrame:
        """The rows that the stream accepts, of a log that only Python can read: read and judged in one pass."""
        types = ", ".join(f"`{name}` {self._feed.schema.type_of(name)}" for name in self._columns)
        return frame.mapInArrow(DecodingAndAdmitting(job, self._columns), f"{types}, __partition int, __offset bigint")

    def _slices(self, rows: DataFrame) -> DataFrame | None:
        """The rows of the same files, cut so that all tasks have as much to read; None where Spark decides that."""
        source, log, job = self._feed.source, self._feed.source.log, self._jobs[self._feed.name]
        if not isinstance(log, Files) or job.positions is None or job.decoded:
            return None
        most = int(rows.sparkSession.conf.get(SLICE, str(SLICE_BYTES)) or SLICE_BYTES)
        slices = log.cut(job.positions, rows.sparkSession.sparkContext.defaultParallelism, most)
        if slices is None:
            return None
        self._jobs = {**self._jobs, self._feed.name: replace(job, slices=slices)}
        return log.read_slices(rows.sparkSession, source.schema, self._columns, slices)

    def _around_damage(self, rows: DataFrame) -> DataFrame | None:
        """The rows of the epoch without damaged files, where Spark reads the files and has failed on some."""
        source, job = self._feed.source, self._jobs[self._feed.name]
        if not isinstance(source.log, Files) or job.positions is None:
            return None
        return source.log.read_around(rows.sparkSession, source.schema, self._columns, list(job.positions))

    def _small(self, rows: DataFrame) -> pa.Table | None:
        """The rows of an epoch that takes little, where the kernel alone does all of it."""
        if self._read_small is None or not self._is_plain:
            return None
        return self._read_small(self._feed.source.schema.pick(self._columns), small_epoch_bytes(rows.sparkSession))

    @property
    def _is_plain(self) -> bool:
        """Whether the kernel alone does all of it."""
        return not self._made and not self._feed.columns

    def _here(self, rows: pa.Table) -> Epoch:
        """The same as the only task would do it."""
        job = self._jobs[self._feed.name]
        if job.stream.id is not None:
            sent = _records_here(rows, self._identifier.job(job))
            job = job.without(self._identifier.rejected(sent, job.stream))
        epoch = gathered(_records_here(rows, job))
        epoch.sharing = job.sharing
        return epoch

    def _keep(self, frame: DataFrame) -> DataFrame:
        self._kept.append(frame)
        return frame

    # the stream itself

    def _decoded(self, rows: DataFrame) -> DataFrame:
        """Rows that Spark can go on with, where it must and only Python can read the log."""
        log = self._feed.source.log
        read = self._feed.source.schema.pick(self._columns)
        if self._jobs[self._feed.name].decoded or not isinstance(log, Source):
            return rows
        if not log.decodes(read) or not (self._feed.columns or self._made):
            return rows
        job = self._jobs[self._feed.name]
        types = ", ".join(f"`{name}` {self._feed.schema.type_of(name)}" for name in self._columns)
        own = f"`{MALFORMED}` string, `{REASON}` string, `{LATE}` boolean, `{EXTENT}` string, `{ARRIVED}` bigint"
        schema = f"{types}, {own}, __partition int, __offset bigint"
        self._jobs = {**self._jobs, self._feed.name: replace(job, decoded=True)}
        return rows.mapInArrow(Decoding(job, self._columns), schema)

    def _stream(self, rows: DataFrame) -> tuple[Epoch, Job, DataFrame]:
        feed, job = self._feed, self._jobs[self._feed.name]
        frame = with_columns(rows, feed.columns)
        try:
            return *self._reduced(frame, job), frame
        except Exception as error:
            if not feed.columns or isinstance(error, PenstockError) or passes(error):
                raise
            frame, job = self._around(feed, job, rows, error)
            return *self._reduced(frame, job), frame

    def _known(self, frame: DataFrame, job: Job) -> Job:
        """The job without the rows whose id does not count, where the stream has ids: a first pass finds them."""
        if job.stream.id is None:
            return job
        sent = records(frame, self._identifier.job(job))
        return job.without(self._identifier.rejected(sent, job.stream))

    def _reduced(self, frame: DataFrame, job: Job) -> tuple[Epoch, Job]:
        job = self._known(frame, job)
        epoch = self._take(frame, job)
        epoch.sharing = job.sharing
        return epoch, job

    def _around(self, feed: Feed, job: Job, rows: DataFrame, error: Exception) -> tuple[DataFrame, Job]:
        """A feed's frame and job that leave out the values that Catalyst fails to compute."""
        kept = self._keep(numbered(placed(rows, job)))
        failing = culprits(kept, feed.columns, lambda some, chosen: _columns(some, feed.columns, chosen))
        if not failing:
            raise _no_matter_of_rows(job.name, error)
        failed = pl.DataFrame(
            [(one.number, one.part, one.reason) for one in failing],
            schema={NUMBER: pl.Int64, "__column": pl.String, "__reason": pl.String},
            orient="row",
        )
        alone = Sharing(job.sharing.source, job.sharing.plans, ())
        return _computed_around(kept, feed.columns, failing), replace(job, failed=failed, sharing=alone, sampled=False)

    # what DataFrame code makes of it

    def _after_code(self, feed: Feed, frame: DataFrame, base: Job) -> Epoch:
        job, accepted = self._jobs[feed.name], self._accepted(frame, base)
        try:
            return self._reduced(with_columns(self._code(feed, accepted), feed.columns), job)[0]
        except PenstockError:
            raise
        except Exception as error:
            if passes(error):
                raise
            return self._after_code_around(feed, job, accepted, error)

    def _accepted(self, frame: DataFrame, base: Job) -> DataFrame:
        """The rows that the stream accepts, with their places."""
        schema = frame.select(*(f"`{name}`" for name in self._columns)).schema
        schema = schema.add("__partition", "integer").add("__offset", "long")
        return frame.mapInArrow(Admitting(base, self._columns), schema)

    def _after_code_around(self, feed: Feed, job: Job, accepted: DataFrame, error: Exception) -> Epoch:
        """The same without the rows on which the code fails, and then without the values that Catalyst fails on."""
        from pyspark.sql import functions as f

        kept = self._keep(numbered(accepted))
        label = feed.prefix[-1].label
        failing = culprits(kept, {label: label}, lambda some, _: self._code(feed, some.drop(NUMBER)))
        if not failing and not feed.columns:
            raise _no_matter_of_rows(job.name, error)
        good = kept.filter(~f.col(NUMBER).isin([one.number for one in failing]))
        made = self._code(feed, good.drop(NUMBER))
        try:
            epoch, _ = self._reduced(with_columns(made, feed.columns), job)
        except Exception as again:
            if not feed.columns:
                raise _no_matter_of_rows(job.name, again) from again
            frame, job = self._around(feed, job, made, again)
            epoch, _ = self._reduced(frame, job)
        if failing:
            epoch.refused.setdefault("dead", []).extend(self._dead(job, kept, failing))
        return epoch

    def _code(self, feed: Feed, accepted: DataFrame) -> DataFrame:
        """What the feed's DataFrame code makes of rows; it sees neither their places nor their numbers."""
        output = applied(accepted.drop(*PLACE), feed.prefix, feed.source.event_time, self._frames)
        return output.select(*(f"`{name}`" for name in feed.schema.names))

    def _dead(self, job: Job, kept: DataFrame, failing: Sequence[Culprit]) -> Iterable[pl.DataFrame]:
        """The rows on which the code fails, for each view that lacks them."""
        from pyspark.sql import functions as f

        reasons = pl.DataFrame({NUMBER: [one.number for one in failing], "__reason": [one.reason for one in failing]})
        rows = pl.from_arrow(kept.filter(f.col(NUMBER).isin([one.number for one in failing])).toArrow())
        assert isinstance(rows, pl.DataFrame)
        rejected = rows.join(reasons, on=NUMBER).with_columns(as_json(rows, self._columns).alias("row"))
        for view in (*job.views, *(output.name for output in job.outputs)):
            yield refusals(job.name, view, rejected)


def taken(frame: DataFrame, job: Job) -> Epoch:
    """What the tasks send, on the driver."""
    return gathered(records(frame, job))


def taken_together(parts: Sequence[tuple[DataFrame, Job]]) -> list[Epoch]:
    """The same for several frames with a job each, in one Spark job."""
    sent = [
        frame.mapInArrow(job, RECORD).selectExpr(f"{number} AS part", "*") for number, (frame, job) in enumerate(parts)
    ]
    rows = reduce(lambda one, other: one.union(other), sent).toArrow().to_pylist()
    epochs = []
    for number, (_, job) in enumerate(parts):
        epoch = gathered(records_of(row for row in rows if row["part"] == number))
        epoch.sharing = job.sharing
        epochs.append(epoch)
    return epochs


def records(frame: DataFrame, job: Any) -> Iterator[Record]:
    """What tasks send that do a job with the rows of a frame."""
    return records_of(frame.mapInArrow(job, RECORD).toArrow().to_pylist())


def _records_here(rows: pa.Table, job: Any) -> Iterator[Record]:
    """What the only task would send."""
    return records_of(record for batch in job(rows.to_batches()) for record in batch.to_pylist())


def _no_matter_of_rows(stream: str, error: Exception) -> RunError:
    return RunError(
        f"an epoch of the stream '{stream}' failed, and not because of single rows",
        detail=essence(error),
        hint="if it was the cluster, start the app again: the epoch is read again",
    )


# Catalyst's columns


def with_columns(rows: DataFrame, columns: Mapping[str, str]) -> DataFrame:
    """Rows with the columns that Catalyst computes; malformed rows have none to compute from."""
    return _columns(rows, columns, list(columns), "*") if columns else rows


def _columns(rows: DataFrame, columns: Mapping[str, str], names: Sequence[str], *others: str) -> DataFrame:
    from pyspark.sql import functions as f

    guard = f"CASE WHEN `{MALFORMED}` IS NULL THEN {{}} END" if MALFORMED in rows.columns else "{}"
    return rows.select(*others, *(f.expr(guard.format(f"({columns[name]})")).alias(name) for name in names))


def _computed_around(rows: DataFrame, columns: Mapping[str, str], failing_values: Sequence[Culprit]) -> DataFrame:
    """Numbered rows with Catalyst's columns, but for the values on which it fails: those rows go a way of their own.

    A condition in the expression would not do: Spark evaluates a Python function on all rows of a frame.
    """
    from pyspark.sql import functions as f

    failing: dict[int, set[str]] = {}
    for one in failing_values:
        failing.setdefault(one.number, set()).add(one.part)
    frame = with_columns(rows.filter(~f.col(NUMBER).isin(list(failing))), columns)
    types = {field.name: field.dataType for field in frame.schema.fields}
    for parts in {frozenset(parts) for parts in failing.values()}:
        part_rows = rows.filter(f.col(NUMBER).isin([number for number, those in failing.items() if those == parts]))
        part_rows = with_columns(part_rows, {name: sql for name, sql in columns.items() if name not in parts})
        nulls = {name: f.lit(None).cast(types[name]) for name in parts}
        frame = frame.unionByName(part_rows.withColumns(nulls))
    return frame
