"""Runs a processor's class on the cells of keys: what it takes and gives, and what happens when it fails."""

from __future__ import annotations

import inspect
import json
from collections import namedtuple
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from penstock.errors import DefinitionError, RowError, unknown
from penstock.model.cell import Cell
from penstock.model.kinds import Kind, kind_of
from penstock.model.naming import valid_name
from penstock.model.processor import Moment, Processor, Timer, shown_timer
from penstock.model.state import State
from penstock.model.time import Duration, Instant, show_instant, to_datetime
from penstock.model.types import Schema

#: A row that was given out: the side output it goes to (None: the output itself), its values, and at which time.
Given: TypeAlias = tuple[str | None, tuple[object, ...], Instant]

#: So many timers of one key may fire before the next event: one that always sets another would never end.
MOST_TIMERS: Final = 10_000


class Outputs:
    """The columns of a processor's output and of its side outputs."""

    def __init__(self, processor: type[Processor]) -> None:
        name = processor.__name__
        if not isinstance(getattr(processor, "output", None), str):
            raise DefinitionError(
                f"the processor {name} does not say what it gives out", hint="output = 'user string, n bigint'"
            )
        self.schemas: dict[str | None, Schema] = {None: Schema.parse(processor.output)}
        for side, schema in processor.sides.items():
            if not valid_name(side):
                raise DefinitionError(f"«{side}» cannot be the name of a side output of {name}")
            self.schemas[side] = Schema.parse(schema)
        self._kinds: dict[str | None, dict[str, Kind]] = {}
        for output, columns in self.schemas.items():
            self._kinds[output] = {column: kind_of(kind) for column, kind in columns}

    def row(self, side: str | None, row: object) -> tuple[object, ...]:
        """A row that user code gives, as values in the order of the columns."""
        kinds = self._kinds.get(side)
        if kinds is None:
            raise unknown("side output", str(side), [str(name) for name in self.schemas if name is not None])
        if isinstance(row, Mapping):
            for column in row:
                if column not in kinds:
                    raise unknown("column of the output", str(column), kinds)
            return tuple([self._value(column, kind, row.get(column)) for column, kind in kinds.items()])
        if isinstance(row, Sequence) and not isinstance(row, (str, bytes)) and len(row) == len(kinds):
            pairs = zip(kinds.items(), row, strict=True)
            return tuple([self._value(column, kind, value) for (column, kind), value in pairs])
        raise RowError(f"{row!r} is no row of {self.schemas[side].ddl()}", hint="yield a dictionary of the columns")

    @staticmethod
    def _value(column: str, kind: Kind, value: object) -> object:
        if value is None:
            return None
        try:
            return kind.take(value)
        except RowError as error:
            raise RowError(f"the column «{column}» of the output: {error.message}") from None


class Shape:
    """A processor's class, looked at once: what it keeps, takes and gives."""

    def __init__(self, processor: type[Processor], event: Schema, key: Schema) -> None:
        self.processor, self.event, self.key = processor, event, key
        self.outputs = Outputs(processor)
        self.states = states_of(processor)
        self._event = [kind_of(kind) for _, kind in event]
        self._key = [kind_of(kind) for _, kind in key]
        self.make_event = _row_type("Event", event.names)
        self.make_key = None if len(key.names) == 1 else _row_type("Key", key.names)

    @property
    def turns(self) -> list[Any]:
        """How each column of an event is given to user code, if it is not null; None where it stays as it is."""
        return [kind.give for kind in self._event]

    def event_text(self, event: Sequence[object]) -> str:
        """An event as code has it, as JSON."""
        values = [kind.dumped(kind.taken(value)) for kind, value in zip(self._event, event, strict=True)]
        return json.dumps({name: _told(value, kind) for (name, kind), value in zip(self.event, values, strict=True)})

    def key_text(self, values: Sequence[object]) -> str:
        """A key as its cell is stored by."""
        return json.dumps([kind.dumped(value) for kind, value in zip(self._key, values, strict=True)])

    def loaded_key(self, text: str) -> tuple[object, ...]:
        """The key that a text stands for."""
        return tuple(kind.loaded(value) for kind, value in zip(self._key, json.loads(text), strict=True))

    def shown_key(self, values: Sequence[object]) -> Any:
        """A key as user code has it: a value, or a row where it has several columns."""
        shown = [kind.given(value) for kind, value in zip(self._key, values, strict=True)]
        return shown[0] if self.make_key is None else self.make_key._make(shown)

    def shown_event(self, values: Sequence[object]) -> Any:
        """An event as user code has it."""
        return self.make_event._make([kind.given(value) for kind, value in zip(self._event, values, strict=True)])


class Processing:
    """Runs a processor on the cells of keys. What fails has not happened, and says why."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self._user = shape.processor()
        self._who = f"the processor {shape.processor.__name__}"
        self._given: list[Given] = []
        self._moment = Moment(Cell(), 0, 0, 0, self._give)
        self._user.open()

    def event(self, cell: Cell, key: Any, event: Any, at: Instant | None, mark: Instant, now: Instant) -> list[Given]:
        """One event; what is given out. A `RowError` says why it is a dead letter."""
        time = None if at is None else to_datetime(at)
        return self._call(cell, now if at is None else at, mark, now, self._user.on_event, key, event, time)

    def timers(
        self, cell: Cell, key: Any, mark: Instant, now: Instant
    ) -> Iterable[tuple[Timer, list[Given] | RowError]]:
        """The timers of a cell that are due, one after the other: what each gives out, or why it failed."""
        count = 0
        while (found := cell.next_timer(mark, now)) is not None:
            timer, at = found
            cell.begin(now)
            cell.set_timer(timer, None)
            shown = shown_timer(timer, at)
            count += 1
            if count > MOST_TIMERS:
                yield shown, RowError(f"{self._who} sets timers without end: {MOST_TIMERS} of one key were due at once")
                continue
            try:
                yield shown, self._call(cell, at, mark, now, self._user.on_timer, key, shown)
            except RowError as error:
                yield shown, error

    def _call(self, cell: Cell, at: Instant, mark: Instant, now: Instant, call: Any, *args: Any) -> list[Given]:
        user, moment = self._user, self._moment
        given: list[Given] = []
        self._given = given
        moment.cell, moment.at, moment.mark, moment.now = cell, at, mark, now
        user._moment, user._cell = moment, cell
        cell.begin(now)
        try:
            found = call(*args)
            if found is not None:
                for row in found:
                    self._give(None, row)
        except Exception as error:  # whatever it is, it concerns this event
            cell.take_back()
            said = error.message if isinstance(error, RowError) else f"{type(error).__name__}: {error}"
            raise RowError(f"{self._who} failed: {said}") from error
        finally:
            user._moment = user._cell = None
        return given

    def _give(self, side: str | None, row: object) -> None:
        self._given.append((side, self.shape.outputs.row(side, row), self._moment.at))


def states_of(processor: type[Processor]) -> dict[str, State[Any]]:
    """The states that a processor declares, its own and those of the classes that it derives from."""
    found: dict[str, State[Any]] = {}
    for known in reversed(processor.__mro__):
        found |= {name: state for name, state in vars(known).items() if isinstance(state, State)}
    return found


def check_processor(processor: object) -> type[Processor]:
    """Refuses what is no processor."""
    if not inspect.isclass(processor) or not issubclass(processor, Processor):
        raise DefinitionError(
            f"not a processor: {processor!r}", hint="give the class itself, derived from ps.Processor"
        )
    if processor.on_event is Processor.on_event:
        raise DefinitionError(f"the processor {processor.__name__} has no on_event(self, key, event, time)")
    states_of(processor)
    Outputs(processor)
    return processor


def late_reason(at: Instant, mark: Instant, allowed: Duration) -> str:
    """Why an event is late for a processor, in words."""
    return f"its time {show_instant(at)} lies before {show_instant(mark - allowed)}, up to where time has passed"


def _told(value: Any, kind: str) -> Any:
    """A value of the model as JSON tells it: times as text."""
    if value is None:
        return None
    return kind_of(kind).given(value).isoformat() if kind in ("timestamp", "date") else value


def _row_type(name: str, columns: Sequence[str]) -> Any:
    """Rows with their columns as attributes (`event.user`), by name (`event["user"]`) and in order."""
    base = namedtuple(name, columns, rename=True)  # type: ignore[misc]
    places = {column: place for place, column in enumerate(columns)}

    def item(self: Any, which: Any) -> Any:
        return tuple.__getitem__(self, places[which] if isinstance(which, str) else which)

    def as_dict(self: Any) -> dict[str, Any]:
        return dict(zip(columns, self, strict=True))

    return type(name, (base,), {"__slots__": (), "__getitem__": item, "as_dict": as_dict})
