"""The wire format between tasks and the driver: records of a kind, a number and bytes.

Tasks write records with the functions below; the driver reads all of them with `read`. No other module knows the kinds.
A record of rejected rows holds them in the form that the store and the history keep (`refusals`).

>>> read([deltas(0, pl.DataFrame({"n": [1]})), row_count(7)]).deltas[0][0].rows()
[(1,)]
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, NamedTuple

import polars as pl
import pyarrow as pa

from penstock.kernel.plan import Plan
from penstock.model.commits import FORGOTTEN
from penstock.model.watermarks import Observation, PartitionTimes
from penstock.sources.base import EXTENT
from penstock.state.pane_file import PaneFile
from penstock.state.segment import Segment
from penstock.state.spool import SpooledDeltas
from penstock.store.arrivals import Ages
from penstock.store.file import File

#: A record in Spark's types, for `mapInArrow`.
RECORD: Final = "kind string, number int, data binary"
_SCHEMA: Final = pa.schema([("kind", pa.string()), ("number", pa.int32()), ("data", pa.binary())])

_OBSERVED, _ROW_COUNT, _FILE, _IDS = "observed", "row count", "file", "ids"
_FLOW_ROWS, _ENTERING, _SAMPLE, _SUSPECTS = "flow rows", "entering", "sample", "suspects"
_SHARED_DELTAS, _DELTAS = "shared deltas", "deltas"
_SPOOLED, _SEGMENTS, _LATE, _VERDICTS = "spooled", "segments", "late", "verdicts"
_PANES, _PANE_FILE = "panes", "pane file"
_NOTE = "note"
_STEPPED = "stepped "
_REJECTED = "rejected "


class Record(NamedTuple):
    """One record; `number` says which view, flow or part it is for, or counts rows."""

    kind: str
    number: int
    data: bytes


@dataclass
class TaskOutput:
    """What tasks have sent: frames by the number of their view, flow or part, in the order of the records."""

    rows: int = 0
    observed: Observation = field(default_factory=Observation)
    ages: Ages = field(default_factory=Ages)
    files: list[File] = field(default_factory=list)
    ids: list[pl.DataFrame] = field(default_factory=list)
    rejected: dict[str, list[pl.DataFrame]] = field(default_factory=dict)
    flow_rows: dict[int, list[pl.DataFrame]] = field(default_factory=dict)
    entering: dict[int, list[pl.DataFrame]] = field(default_factory=dict)
    sample: pl.DataFrame | None = None
    suspects: list[pl.DataFrame] = field(default_factory=list)
    shared_deltas: dict[int, list[pl.DataFrame]] = field(default_factory=dict)
    deltas: dict[int, list[pl.DataFrame]] = field(default_factory=dict)
    spooled: dict[int, list[SpooledDeltas]] = field(default_factory=dict)
    segments: dict[int, list[Segment]] = field(default_factory=dict)
    panes: dict[int, list[pl.DataFrame]] = field(default_factory=dict)
    pane_files: dict[int, PaneFile] = field(default_factory=dict)
    late: list[pl.DataFrame] = field(default_factory=list)
    verdicts: list[pl.DataFrame] = field(default_factory=list)
    stepped: dict[str, list[pl.DataFrame]] = field(default_factory=dict)
    notes: list[Mapping[str, Any]] = field(default_factory=list)

    @property
    def counters(self) -> dict[str, int]:
        """What user code has counted, over all tasks."""
        totals: dict[str, int] = {}
        for values in self.notes:
            for name, number in values.get("counters", {}).items():
                totals[name] = totals.get(name, 0) + number
        return totals


# writing


def observed(rows: int, observation: Observation, ages: Ages | None = None) -> Record:
    """How many rows a task has read, what it saw of event time, and how long ago they had arrived."""
    seen = {
        "partitions": {number: (seen.newest, seen.mark) for number, seen in observation.partitions.items()},
        "lateness": observation.lateness,
        "ages": (ages or Ages()).counts,
    }
    return Record(_OBSERVED, rows, json.dumps(seen).encode())


def row_count(rows: int) -> Record:
    """How many rows a task of a batch run has read."""
    return Record(_ROW_COUNT, rows, b"")


def history_file(file: File) -> Record:
    """A file of the history that a task has written."""
    return Record(_FILE, 0, json.dumps(asdict(file)).encode())


def ids(frame: pl.DataFrame) -> Record:
    """The ids of rows, with time and place."""
    return Record(_IDS, 0, pack(frame))


def rejected(kind: str, frame: pl.DataFrame) -> Record:
    """Rejected rows of one kind, in the form of `refusals`."""
    return Record(_REJECTED + kind, 0, pack(frame))


def flow_rows(number: int, frame: pl.DataFrame) -> Record:
    """Rows of a flow without state, for its sinks."""
    return Record(_FLOW_ROWS, number, pack(frame))


def entering(number: int, frame: pl.DataFrame) -> Record:
    """Rows that come to an operator, by the number of its input."""
    return Record(_ENTERING, number, pack(frame))


def sample(frame: pl.DataFrame) -> Record:
    """Some rows, by which the driver decides what views share."""
    return Record(_SAMPLE, 0, pack(frame))


def suspects(frame: pl.DataFrame) -> Record:
    """Rows that the merge may find to be late."""
    return Record(_SUSPECTS, 0, pack(frame))


def shared_deltas(number: int, frame: pl.DataFrame) -> Record:
    """Deltas that several views share, by the number of their base."""
    return Record(_SHARED_DELTAS, number, pack(frame))


def deltas(number: int, frame: pl.DataFrame) -> Record:
    """Deltas of one view; in a batch run, of one part of the keys."""
    return Record(_DELTAS, number, pack(frame))


def spooled(number: int, deltas: SpooledDeltas) -> Record:
    """Deltas of one view that wait in a file for the tasks that own the shards."""
    return Record(_SPOOLED, number, deltas.text().encode())


def segments(number: int, written: Sequence[Segment]) -> Record:
    """The segments that a task has written."""
    return Record(_SEGMENTS, number, json.dumps([segment.text() for segment in written]).encode())


def pane_rows(number: int, frame: pl.DataFrame) -> Record:
    """The panes of the shards of a task."""
    return Record(_PANES, number, pack(frame))


def pane_file(number: int, file: PaneFile) -> Record:
    """The file with the panes of the shards of a task."""
    return Record(_PANE_FILE, number, file.text().encode())


def late_rows(number: int, frame: pl.DataFrame) -> Record:
    """Places of rows that only the merge could tell to be late."""
    return Record(_LATE, number, pack(frame))


def verdicts(frame: pl.DataFrame) -> Record:
    """Places of rows that do not count because of their ids, with kind and reason."""
    return Record(_VERDICTS, 0, pack(frame))


def stepped(part: str, frame: pl.DataFrame) -> Record:
    """A part of what the step of an operator gives."""
    return Record(_STEPPED + part, 0, pack(frame))


def note(values: Mapping[str, Any]) -> Record:
    """What a task reports besides rows, as plain values."""
    return Record(_NOTE, 0, json.dumps(values).encode())


def as_batches(records: Iterable[tuple[str, int, bytes]]) -> Iterator[pa.RecordBatch]:
    """Records as `mapInArrow` returns them; nothing for no records."""
    rows = list(records)
    if rows:
        yield record_batch(_SCHEMA, rows)


def record_batch(schema: pa.Schema, rows: Iterable[tuple[object, ...]]) -> pa.RecordBatch:
    """Rows of a schema as a batch."""
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(column, of.type) for column, of in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


# reading


def records_of(rows: Iterable[Mapping[str, Any]]) -> Iterator[Record]:
    """Records from rows as Spark or Arrow return them."""
    return (Record(row["kind"], row["number"], bytes(row["data"])) for row in rows)


def read(records: Iterable[Record]) -> TaskOutput:
    """Combines what tasks have sent."""
    output = TaskOutput()
    for kind, number, data in records:
        if kind in (_OBSERVED, _ROW_COUNT):
            output.rows += number
            if data:
                seen = json.loads(data)
                output.observed = output.observed.merge(_observation(seen))
                output.ages += Ages({int(bucket): count for bucket, count in seen["ages"].items()})
        elif kind == _FILE:
            output.files.append(File(**json.loads(data)))
        elif kind == _IDS:
            output.ids.append(unpack(data))
        elif kind == _FLOW_ROWS:
            output.flow_rows.setdefault(number, []).append(unpack(data))
        elif kind == _ENTERING:
            output.entering.setdefault(number, []).append(unpack(data))
        elif kind == _SAMPLE:
            output.sample = unpack(data) if output.sample is None else output.sample
        elif kind == _SUSPECTS:
            output.suspects.append(unpack(data))
        elif kind == _SHARED_DELTAS:
            output.shared_deltas.setdefault(number, []).append(unpack(data))
        elif kind == _DELTAS:
            output.deltas.setdefault(number, []).append(unpack(data))
        elif kind == _SPOOLED:
            output.spooled.setdefault(number, []).append(SpooledDeltas.parsed(data))
        elif kind == _SEGMENTS:
            output.segments[number] = [Segment.parsed(text) for text in json.loads(data)]
        elif kind == _PANES:
            output.panes.setdefault(number, []).append(unpack(data))
        elif kind == _PANE_FILE:
            output.pane_files[number] = PaneFile.parsed(data)
        elif kind == _VERDICTS:
            output.verdicts.append(unpack(data))
        elif kind == _LATE:
            output.late.append(unpack(data))
        elif kind == _NOTE:
            output.notes.append(json.loads(data))
        elif kind.startswith(_STEPPED):
            output.stepped.setdefault(kind.removeprefix(_STEPPED), []).append(unpack(data))
        else:
            assert kind.startswith(_REJECTED), kind
            output.rejected.setdefault(kind.removeprefix(_REJECTED), []).append(unpack(data))
    return output


def is_deltas(record: Record) -> bool:
    """Whether a record holds deltas, for readers that keep them packed."""
    return record.kind == _DELTAS


def _observation(seen: Mapping[str, Any]) -> Observation:
    partitions = {int(partition): PartitionTimes(*values) for partition, values in seen["partitions"].items()}
    return Observation(partitions, {int(bucket): count for bucket, count in seen["lateness"].items()})


# rejected rows


def late_reason(plan: Plan) -> pl.Expr:
    """The reason why a row is late for a view."""
    if plan.forgets:
        return pl.lit(FORGOTTEN)
    some = pl.format("{} of its {} windows had closed", "__missed", "__windows")
    return pl.when(pl.col("__windows") == 1).then(pl.lit("its window had closed")).otherwise(some)


def refusals(stream: str, view: str | None, rows: pl.DataFrame, *, raw: bool = False) -> pl.DataFrame:
    """Rejected rows (place, reason, the row as JSON) as store and history keep them; `raw` ones are text as it came."""
    have = rows.columns
    return rows.select(
        pl.lit(stream).alias("stream"),
        pl.lit(view, pl.String).alias("view"),
        pl.col("__partition").alias("partition"),
        pl.col("__offset").alias("offset"),
        (pl.col("__at") if "__at" in have else pl.lit(None, pl.Int64)).alias("at"),
        pl.col("__reason").alias("reason"),
        "row",
        (pl.col("__missed") if "__missed" in have else pl.lit(0, pl.Int64)).alias("missed"),
        (pl.col("__windows") if "__windows" in have else pl.lit(0, pl.Int64)).alias("windows"),
        pl.lit(raw).alias("raw"),
        (pl.col("rest") if "rest" in have else pl.lit(None, pl.String)).alias("rest"),
        (pl.col(EXTENT) if EXTENT in have else pl.lit(None, pl.String)).alias("extent"),
    )


def as_json(rows: pl.DataFrame, names: Iterable[str]) -> pl.Expr:
    """Columns as a JSON object a row, as Spark's reader takes it: bytes are in base64."""
    binary = pl.element().bin.encode("base64")
    columns = []
    for name in names:
        kind = rows.schema[name]
        if kind == pl.Binary:
            columns.append(pl.col(name).bin.encode("base64"))
        elif kind == pl.List(pl.Binary):
            columns.append(pl.col(name).list.eval(binary))
        else:
            columns.append(pl.col(name))
    return pl.struct(columns).struct.json_encode()


def plain(column: pl.Series) -> pl.Series:
    """A column as the model has its values: times as numbers."""
    inner: Any = column.dtype
    while isinstance(inner, pl.List):
        inner = inner.inner
    return column.to_physical() if inner.is_temporal() else column


# frames


def pack(frame: pl.DataFrame) -> bytes:
    """A frame as bytes: Arrow's own format."""
    buffer = io.BytesIO()
    frame.write_ipc(buffer)
    return buffer.getvalue()


def unpack(data: bytes) -> pl.DataFrame:
    return pl.read_ipc(io.BytesIO(data))
