"""A processor over a flow: what comes to it, what it gives out, and the stream and side outputs that this makes."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from penstock.errors import DefinitionError, unknown
from penstock.model.aggregates import last
from penstock.model.by_kernel import check_by_kernel
from penstock.model.expressions import bind
from penstock.model.processing import Given, Shape, check_processor
from penstock.model.processor import Processor
from penstock.model.stream import (
    Flow,
    Named,
    Piped,
    Stream,
    Transform,
    named_expressions,
    show_named,
)
from penstock.model.table import TableJoin
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

    `time` is the column with the event time of what is given out.
    """

    input: Flow
    by: Named
    processor: type[Processor]
    allow_late: Duration = 0
    time: str | None = None

    def __post_init__(self) -> None:
        check_processor(self.processor)
        _check_flow(self.input)
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

    def row(self, given: Given) -> tuple[object, ...]:
        """A row that was given out, as a row of that stream."""
        side, values, at = given
        schemas = self.shape.outputs.schemas
        if len(schemas) == 1:
            return values
        found: list[object] = [side]
        for output, schema in schemas.items():
            if output == side:
                found += values
            elif output is None and self.time is not None:
                own = dict(zip(schemas[side].names, values, strict=True)).get(self.time)
                found += [(at if own is None else own) if name == self.time else None for name in schema.names]
            else:
                found += [None] * len(schema.names)
        return tuple(found)

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
    flow: Flow, processor: type[Processor], by: str | tuple[str, ...], allow_late: Duration = 0, time: str | None = None
) -> Process:
    """A processor over a flow; `by` are column names or «expression AS name»."""
    keys = named_expressions((by,) if isinstance(by, str) else tuple(by), {}, "by")
    return Process(flow, keys, processor, allow_late, time)


def _check_flow(flow: Flow) -> None:
    """Refuses what a processor cannot read: its events come from the master, through steps of the kernel."""
    for source in flow.sources:
        if source.sign is not None:
            raise DefinitionError(
                f"a processor takes no rows back, and the stream «{source.name}» has a sign",
                hint="leave out sign=…; the column then comes to the processor",
            )
    check_by_kernel(
        flow,
        _step_refused,
        lambda text: DefinitionError(
            f"«{text}» stands before a processor, and only Spark can compute it", hint="compute it in the processor"
        ),
        DefinitionError("the columns that come to the processor are not known", hint="select them with casts"),
    )


def _step_refused(step: Transform | TableJoin) -> DefinitionError:
    if isinstance(step, Transform):
        return DefinitionError(
            f"{step.label} stands before a processor, which has no DataFrame",
            hint="do it in the processor, or with select and where",
        )
    return DefinitionError(
        f"{step.label} stands before a processor, which reads no table",
        hint="give the processor the events, and join the table with what it gives out",
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
        (found,) = self.arguments
        assert isinstance(found, Process)
        return found

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
