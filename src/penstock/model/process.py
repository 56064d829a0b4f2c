"""A processor over a flow: what comes to it, what it gives out, and the stream and side outputs that this makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

from penstock.errors import DefinitionError, unknown
from penstock.model.aggregates import last
from penstock.model.expressions import bind
from penstock.model.processing import OutputRow, Shape, check_processor
from penstock.model.processor import Processor
from penstock.model.side_tables import Initial, Rows, initial_of
from penstock.model.stream import (
    Flow,
    Named,
    Piped,
    Stream,
    named_expressions,
    show_named,
)
from penstock.model.table import Table
from penstock.model.time import BEGINNING, Duration, Instant
from penstock.model.triggers import each
from penstock.model.types import Schema
from penstock.model.view import View
from penstock.model.windows import global_window

#: The column that tells side outputs apart in the stream that a processor gives.
SIDE = "side"


@dataclass(frozen=True, repr=False)
class Process:
    """A processor's class over a flow, by key. Events up to `allow_late` behind the watermark still come to it.

    `time` is the column with the event time of what is given out. The watermark of what is given out lies `hold` behind
    that of the events; None: it stays before the earliest timer of event time that is set. Its code looks things up in
    `tables`; keys begin with the state that `initial` has for them.
    """

    input: Flow
    by: Named
    processor: type[Processor]
    allow_late: Duration = 0
    time: str | None = None
    hold: Duration | None = None
    tables: tuple[Table, ...] = ()
    initial: Initial | None = None

    def __post_init__(self) -> None:
        check_processor(self.processor)
        _check_flow(self.input, self.processor)
        names = [table.name for table in self.tables]
        if len(set(names)) < len(names):
            raise DefinitionError(f"a table appears twice: {', '.join(names)}", hint="give one of them another name")
        if self.shape.outputs.schemas.keys() != {None} and self.time is not None:
            _check_time(self)
        _ = self.schema

    @property
    def event(self) -> Schema:
        """The columns of an event."""
        assert self.input.schema is not None
        return self.input.schema

    @cached_property
    def view(self) -> View:
        """What comes to the processor, as the model has it: keys, and every column as an input."""
        columns = tuple((f"c{number}", last(f"`{name}`")) for number, name in enumerate(self.event.names))
        return View(self.input, self.by, global_window(), columns, each())

    @property
    def side_tables(self) -> dict[str, Table]:
        """The tables of which it needs a version in every commit, by name."""
        tables = {table.name: table for table in self.tables}
        if self.initial is not None and self.initial.rows is None:
            tables[self.initial.table.name] = self.initial.table
        return tables

    @cached_property
    def shape(self) -> Shape:
        types = [(name, bind(text, self.event).type) for name, text in self.by]
        return Shape(self.processor, self.event, Schema(tuple((name, kind or "string") for name, kind in types)))

    @cached_property
    def schema(self) -> Schema:
        """The columns of the stream that it gives: with side outputs, those of all, and which one a row is for."""
        schemas = self.shape.outputs.schemas
        if len(schemas) == 1:
            return next(iter(schemas.values()))
        columns = [(SIDE, "string")]
        for side, schema in schemas.items():
            columns += [(name if side is None else f"{side}_{name}", kind) for name, kind in schema]
        return Schema(tuple(columns))

    def row(self, output_row: OutputRow) -> tuple[object, ...]:
        """A row that was given out, as a row of that stream."""
        side, values, at = output_row
        schemas = self.shape.outputs.schemas
        if len(schemas) == 1:
            return values
        row: list[object] = [side]
        for output, schema in schemas.items():
            if output == side:
                row += values
            elif output is None and self.time is not None:
                own = dict(zip(schemas[side].names, values, strict=True)).get(self.time)
                row += [(at if own is None else own) if name == self.time else None for name in schema.names]
            else:
                row += [None] * len(schema.names)
        return tuple(row)

    @property
    def held(self) -> Duration | None:
        """How far the watermark of what is given out lies behind that of the input. None: its next timer says so."""
        return self.processor.usual_hold if self.hold is None else self.hold

    def is_late(self, at: Instant | None, mark: Instant) -> bool:
        """Whether an event comes too late when time has passed up to a watermark."""
        return at is not None and mark > BEGINNING and at < mark - self.allow_late

    @property
    def timed(self) -> bool:
        """Whether the events have a time."""
        return self.input.has_event_time

    def __getstate__(self) -> dict[str, Any]:
        """What travels to the tasks: what it is made of, and not what was made of it."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __repr__(self) -> str:
        return f"{self.input!r}.process({self.processor.__name__}, by=({show_named(self.by)}))"


def process_of(
    flow: Flow,
    processor: type[Processor],
    by: str | tuple[str, ...],
    allow_late: Duration = 0,
    time: str | None = None,
    hold: Duration | None = None,
    tables: Sequence[Table] = (),
    initial: Rows | None = None,
) -> Process:
    """A processor over a flow; `by` are column names or 'expression AS name'.

    `initial` is a table with the same key, or rows with the keys and states as columns.
    """
    keys = named_expressions((by,) if isinstance(by, str) else tuple(by), {}, "by")
    process = Process(flow, keys, processor, allow_late, time, hold, tuple(tables))
    if initial is None:
        return process
    return replace(process, initial=initial_of(initial, processor, process.shape.key))


def _check_flow(flow: Flow, processor: type[Processor]) -> None:
    """Refuses events of which nobody knows the columns, and retractions that the code cannot see or take."""
    if flow.schema is None:
        raise DefinitionError(
            "the columns that come to the processor are not known", hint="set schema=… in the transform, or select them"
        )
    signed = [source.name for source in flow.sources if source.sign is not None]
    if signed and processor.final_rows_only:
        raise DefinitionError(
            f"a pattern takes final rows only, and the stream '{signed[0]}' has retractions",
            detail="a match that was given out cannot be undone",
            hint="match the panes that are final, or leave out sign=…; the column then comes along",
        )
    if signed and "change" in flow.schema.names:
        raise DefinitionError(
            "events that can be taken back have event.change, and there is a column of this name", hint="rename it"
        )


def _check_time(process: Process) -> None:
    schema = process.shape.outputs.schemas[None]
    if process.time not in schema.names:
        raise DefinitionError(
            f"event_time={process.time!r}: a processor with side outputs needs a column of its output for it",
            detail=f"its columns are {', '.join(schema.names)}",
        )


class Processed(Piped):
    """What a processor gives out: a flow of the rows of its output. `side(name)` are those of a side output."""

    def side(self, name: str) -> Flow:
        """The rows of a side output."""
        return _of_side(self._stream, self.process, name)

    @property
    def stream(self) -> Stream:
        """The stream that the rows of all outputs are in."""
        return self._stream

    @property
    def _stream(self) -> Stream:
        assert isinstance(self.input, Stream)
        return self.input

    @property
    def process(self) -> Process:
        """The processor, and what it reads."""
        (process,) = self.arguments
        assert isinstance(process, Process)
        return process

    def __repr__(self) -> str:
        return repr(self.output)


def processed(stream: Stream, process: Process) -> Processed:
    """The rows of a processor's output, in the stream that it gives."""
    whole = len(process.shape.outputs.schemas) == 1
    return Processed(stream, stream if whole else _of_side(stream, process, None), stream.name, (process,))


def _of_side(stream: Stream, process: Process, side: str | None) -> Flow:
    schemas = process.shape.outputs.schemas
    if side not in schemas:
        raise unknown("side output", str(side), [name for name in schemas if name is not None])
    names = schemas[side].names
    if side is None:
        return stream.where(f"`{SIDE}` IS NULL").select(*names)
    return stream.where(f"`{SIDE}` = '{side}'").select(**{name: f"`{side}_{name}`" for name in names})


def process_behind(stream: Stream) -> Process | None:
    """The processor whose output a stream is; None for any other stream."""
    process = getattr(stream.log, "process", None)
    return process if isinstance(process, Process) else None
