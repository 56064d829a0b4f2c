"""What a task does with its part of an epoch: rows in, the deltas of all views out, as a few binary records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa

from penstock.kernel.admit import AdmittedRows, admit
from penstock.kernel.deduplicate import identify
from penstock.kernel.elements import MadeBefore, elements
from penstock.kernel.expressions import dtype
from penstock.kernel.offsets import made_offset
from penstock.kernel.plan import PLACE, Plan
from penstock.kernel.reduce import reduce
from penstock.kernel.share import Batch
from penstock.model.running_code import operator
from penstock.model.watermarks import Observation, Punctuated
from penstock.runtime.epoch import wire
from penstock.runtime.epoch.ages import ages_of
from penstock.runtime.epoch.wire import as_json, late_reason, refusals
from penstock.sources import MALFORMED, REASON, Files, Source
from penstock.sources.base import ARRIVED, EXTENT, LATE, PATH, ROW, SLICE
from penstock.sources.files.positions import in_files
from penstock.state.step import parted
from penstock.store.arrivals import Ages

if TYPE_CHECKING:
    from penstock.model.stream import Branch
    from penstock.runtime.epoch.job import Job, OperatorInput, RowsOut

#: After how many batches a task combines its deltas, so that its memory grows with the groups, not the rows.
COMBINE_EVERY = 8
#: How many rows of a task are shown to the driver, where it asks what they look like.
SAMPLE = 8192
#: The number of a row within its frame, which it has where rows on which Spark fails were looked for.
NUMBER = "__row"


class Task:
    """One task's work: batch by batch, combined every `COMBINE_EVERY` batches."""

    def __init__(self, job: Job, number: int) -> None:
        self.job = job
        self.offset = made_offset(job.epoch, job.first_task + number)
        self.batches: list[Batch] = []
        self.shown: dict[int, list[pl.DataFrame]] = {}
        self.entering: dict[int, list[pl.DataFrame]] = {}
        self.refused: dict[str, list[pl.DataFrame]] = {"late": [], "duplicate": [], "dead": []}
        self.sample: pl.DataFrame | None = None
        self.suspects: list[pl.DataFrame] = []
        self.observed = Observation()
        self.ages = Ages()
        self.rows = 0
        self.file = None if job.keeping is None else job.keeping.writer_beside(number)

    def frames(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pl.DataFrame]:
        """The rows of the log, as its own code decodes them."""
        log, schema = self.job.stream.log, self.job.source.schema.pick(self.job.columns)
        for batch in batches:
            frame = pl.from_arrow(pa.Table.from_batches([batch]))
            assert isinstance(frame, pl.DataFrame)
            if not frame.height or not isinstance(log, Source) or self.job.decoded:
                yield frame
            elif SLICE in frame.columns and isinstance(log, Files):
                yield from log.part_frames(chain.from_iterable(self.job.slices[n] for n in frame[SLICE]), schema)
            else:
                yield from log.frames(frame, schema)

    def rows_of(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The stream's rows, with their places; malformed ones are refused."""
        return self._without_malformed(self.placed(frame))

    def accepted(self, frame: pl.DataFrame) -> AdmittedRows:
        """The rows that the stream accepts; the others are refused."""
        job = self.job
        rows = self.timely(self.rows_of(frame))
        admitted = admit(job.stream, rows, job.now, job.newest)
        if job.place is None:
            self.observed = self.observed.merge(admitted.observed)
        self._refuse("dead", None, admitted.dead, rows)
        if job.left_out is not None:
            self._leave_out(job.left_out, admitted)
        if job.stream.id is not None:
            admitted.rows = self._without_failed(admitted.rows, None, [job.stream.id])
        return admitted

    def timely(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows on which Catalyst did not fail to tell the time."""
        stream = self.job.stream
        mark = [stream.watermark.mark] if isinstance(stream.watermark, Punctuated) else []
        return self._without_failed(rows, None, [*mark, *([stream.event_time] if stream.event_time else [])])

    def take(self, frame: pl.DataFrame) -> None:
        job = self.job
        if job.place is None:
            self.ages += ages_of(frame, job.now)
        admitted = self.accepted(frame)
        self._keep(admitted.rows)
        if job.sampled and self.sample is None:
            self.sample = admitted.rows.head(SAMPLE)
        before: MadeBefore = {}
        for number, output in enumerate(job.outputs):
            self._show(number, output, admitted.rows, before)
        for number, into in enumerate(job.inputs):
            self._enter(number, into, admitted.rows, before)
        if not job.views:
            return
        reduced = self._reduced(admitted.rows, before)
        for number, own in reduced.own.items():
            self._refuse("dead", job.views[number], own.dead, admitted.rows)
            self._refuse_late(number, own.late, admitted.rows)
            self._suspect(job.sharing.plans[number], own.deltas, admitted.rows)
            own.late, own.dead = own.late.clear(), own.dead.clear()
        for number, late in reduced.late.items():
            self._refuse_late(number, late, admitted.rows)
        reduced.late = {}
        self.batches.append(reduced)
        if len(self.batches) >= COMBINE_EVERY:
            self.batches = [job.sharing.combine(self.batches)]

    def _keep(self, rows: pl.DataFrame) -> None:
        """Writes the rows that the stream accepts to the history."""
        if self.file is not None:
            self.file.add(rows)

    def abandon(self) -> None:
        """The task has failed: what it has written is not part of anything."""
        if self.file is not None:
            self.file.abandon()

    def _reduced(self, rows: pl.DataFrame, before: MadeBefore | None = None) -> Batch:
        """The deltas of all views. Around rows on which Catalyst failed each view goes its own way."""
        sharing, watermarks = self.job.sharing, self.job.watermarks
        if self.job.failed is None:
            with operator(", ".join(self.job.views)):
                return sharing.reduce(rows, watermarks, before)
        own = {}
        for number, plan in enumerate(sharing.plans):
            own_rows = self._without_failed(rows, self.job.views[number], read(plan))
            own[number] = reduce(plan, sharing.source, own_rows, watermarks[number])
        return Batch([], own, {})

    def _show(self, number: int, output: RowsOut, rows: pl.DataFrame, before: MadeBefore) -> None:
        """The rows of a flow without state."""
        for _, good in self._elements(output.plan, output.name, rows, before):
            columns = [pl.col(output.plan.inputs[text]).alias(f"c:{name}") for name, text in output.columns]
            sign = pl.col("__sign") if output.plan.view.signed else pl.lit(1, pl.Int8).alias("__sign")
            shown = good.select(*output.plan.position, sign, *columns).collect()
            if shown.height:
                self.shown.setdefault(number, []).append(shown)

    def _enter(self, number: int, into: OperatorInput, rows: pl.DataFrame, before: MadeBefore) -> None:
        """The rows that come to an operator."""
        for branch, good in self._elements(into.plan, into.stream, rows, before):
            self.entering.setdefault(number, []).append(into.rows(branch, good))

    def _elements(
        self, plan: Plan, reader: str, rows: pl.DataFrame, before: MadeBefore
    ) -> Iterator[tuple[Branch, pl.LazyFrame]]:
        """What a plan makes of rows of this stream, branch by branch. Rows on which it fails are dead letters."""
        rows = self._without_failed(rows, reader, read(plan))
        before = before if self.job.failed is None else {}
        for branch in plan.branches:
            if branch.source.name == self.job.stream.name:
                with operator(reader):
                    made = elements(plan, branch, rows, before)
                self._refuse("dead", reader, made.dead, rows)
                yield branch, made.good

    def _without_failed(self, rows: pl.DataFrame, view: str | None, texts: Iterable[str]) -> pl.DataFrame:
        """The rows on which Catalyst failed for none of these columns; the others are dead letters."""
        failed = self.job.failed
        if failed is None:
            return rows
        failures = failed.filter(pl.col("__column").is_in(list(texts))).unique(NUMBER, maintain_order=True)
        if not failures.height:
            return rows
        rejected = rows.join(failures.select(NUMBER, "__reason"), on=NUMBER)
        if rejected.height:
            self.refused["dead"].append(refusals(self.job.name, view, self._with_json(rejected)))
        return rows.join(failures, on=NUMBER, how="anti")

    def placed(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows with a position. Where the source has none, it is made of the epoch, the file or task, and the row."""
        missing = [
            pl.lit(None, dtype(kind)).alias(name) for name, kind in self.job.stream.schema if name not in rows.columns
        ]
        first = self.offset + self.rows
        self.rows += rows.height
        if PATH in rows.columns and self.job.positions is not None:
            rows = in_files(rows, self.job.positions)
        rows = rows.drop(PATH, ROW, ARRIVED, strict=False)
        if "__offset" not in rows.columns:
            missing.append(pl.int_range(first, first + rows.height, dtype=pl.Int64).alias("__offset"))
        if "__partition" not in rows.columns:
            missing.append(pl.lit(self.job.place or 0, pl.Int32).alias("__partition"))
        return rows.with_columns(*missing, pl.lit(0, pl.Int32).alias("__source"))

    def _without_malformed(self, rows: pl.DataFrame) -> pl.DataFrame:
        if MALFORMED not in rows.columns:
            return rows
        bad = rows.filter(pl.col(MALFORMED).is_not_null())
        if bad.height:
            known = [REASON] if REASON in rows.columns else []
            reason = pl.coalesce(*known, pl.lit("the row does not fit the stream's schema")).alias("__reason")
            text = pl.col(MALFORMED).str.replace_all("\0", "\\x00", literal=True)  # not every store takes a NUL
            with_reason = bad.select(
                *PLACE, text.alias("row"), reason, self._rest(bad).alias("rest"),
                *([EXTENT] if EXTENT in bad.columns else []),
            )  # fmt: skip
            late = bad[LATE].fill_null(False) if LATE in bad.columns else pl.repeat(False, bad.height, eager=True)
            for kind, some in (("dead", with_reason.filter(~late)), ("late", with_reason.filter(late))):
                if some.height:
                    self.refused[kind].append(refusals(self.job.name, None, some, raw=True))
            rows = rows.filter(pl.col(MALFORMED).is_null())
        return rows.drop(MALFORMED, REASON, LATE, EXTENT, strict=False)

    def _rest(self, bad: pl.DataFrame) -> pl.Expr:
        """What malformed rows have that is not in their text, as a message has a key: as JSON, where there is any."""
        names = [name for name, _ in getattr(self.job.source.log, "metadata", ()) if name in bad.columns]
        return as_json(bad, names) if names else pl.lit(None, pl.String)

    def _leave_out(self, left_out: pl.DataFrame, admitted: AdmittedRows) -> None:
        """Rejects the rows that the pass over the ids has judged, and those whose id cannot be computed."""
        stream, rows = self.job.stream, admitted.rows
        judged = rows.join(left_out, on=PLACE)
        for kind in ("duplicate", "late"):
            rejected = judged.filter(pl.col("__kind") == kind)
            if rejected.height:
                self.refused[kind].append(refusals(self.job.name, None, self._with_json(rejected)))
        admitted.rows = rows.join(left_out, on=PLACE, how="anti")
        if stream.id is not None:
            identified = identify(stream, admitted.rows)
            self._refuse("dead", None, identified.dead, admitted.rows)
            admitted.rows = identified.rows.drop("__id")

    def _refuse(self, kind: str, view: str | None, reasons: pl.DataFrame, rows: pl.DataFrame) -> None:
        """Rows that were refused, with their columns as JSON."""
        if reasons.height:
            rejected = rows.drop("__source").join(reasons, on=PLACE)
            self.refused[kind].append(refusals(self.job.name, view, self._with_json(rejected)))

    def _with_json(self, rows: pl.DataFrame) -> pl.DataFrame:
        return rows.with_columns(as_json(rows, self.job.columns).alias("row"))

    def _refuse_late(self, number: int, late: pl.DataFrame, rows: pl.DataFrame) -> None:
        if late.height:
            reasons = late.with_columns(late_reason(self.job.sharing.plans[number]).alias("__reason"))
            self._refuse("late", self.job.views[number], reasons, rows)

    def _suspect(self, plan: Plan, deltas: pl.DataFrame, rows: pl.DataFrame) -> None:
        """Rows that only the merge can tell to be late travel along."""
        if plan.merging or plan.forgets:
            alone = deltas.filter(pl.col("__offset").is_not_null()).select(PLACE).unique()
            if alone.height:
                suspects = self._with_json(rows.join(alone, on=PLACE))
                self.suspects.append(suspects.select(*PLACE, "__at", "row"))

    def records(self) -> Iterator[wire.Record]:
        """What the driver gets."""
        if self.rows:
            yield wire.observed(self.rows, self.observed, self.ages)
        if self.file is not None:
            self.file.begin_close()
        for kind, frames in self.refused.items():
            if frames:
                yield wire.rejected(kind, pl.concat(frames))
        for number, frames in self.shown.items():
            yield wire.flow_rows(number, pl.concat(frames))
        for number, frames in self.entering.items():
            if any(frame.height for frame in frames):
                yield wire.entering(number, pl.concat(frames))
        if self.sample is not None:
            yield wire.sample(self.sample)
        if self.suspects:
            yield wire.suspects(pl.concat(self.suspects).unique(PLACE))
        if self.batches:
            batch = self.job.sharing.combine(self.batches)
            for number, base in enumerate(batch.bases):
                yield wire.shared_deltas(number, base)
            receivers = {} if self.job.spool is None else {one.view: one for one in self.job.spool.receivers}
            for number, own in batch.own.items():
                deltas, to = own.deltas, receivers.get(number)
                if self.job.spool is not None and to is not None and deltas.height > to.few:
                    parts = parted(self.job.sharing.plans[number], deltas, to.count)
                    yield wire.spooled(number, self.job.spool.put(parts))
                    deltas = deltas.clear()
                yield wire.deltas(number, deltas)
        file = None if self.file is None else self.file.close()
        if file is not None:
            yield wire.history_file(file)


def read(plan: Plan) -> set[str]:
    """The columns that a view's branches and expressions name, Catalyst's among them."""
    texts = set(plan.view.expressions)
    for branch in plan.branches:
        texts |= {branch.source.sign} if branch.source.sign else set()
        for step in branch.steps:
            texts |= {*step.texts}
    return texts
