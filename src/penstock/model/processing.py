"""Runs a processor's class on the cells of keys: what it takes and gives, and what happens when it fails."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from penstock.errors import DefinitionError, RowError, unknown
from penstock.model.cell import Cell
from penstock.model.kinds import Kind, kind_of
from penstock.model.naming import valid_name
from penstock.model.processor import Events, Moment, Processor, Timer, shown_timer
from penstock.model.row_type import row_type
from penstock.model.state import State
from penstock.model.time import Duration, Instant, show_instant, to_datetime
from penstock.model.types import INTEGERS, Schema

if TYPE_CHECKING:
    from penstock.model.side_tables import SideTable

#: A row that was given out: the side output it goes to (None: the output itself), its values, and at which time.
OutputRow: TypeAlias = tuple[str | None, tuple[object, ...], Instant]

#: How many timers of one key may fire before the next event: one that always sets another would never end.
MOST_TIMERS: Final = 10_000


class Outputs:
    """The columns of a processor's output and of its side outputs."""

    def __init__(self, processor: type[Processor]) -> None:
        name = processor.__name__
        if not isinstance(getattr(processor, "output", None), str):
            raise DefinitionError(
                f"the processor {name} does not declare what it gives out", hint="output = 'user string, n bigint'"
            )
        self.schemas: dict[str | None, Schema] = {None: Schema.parse(processor.output)}
        for side, schema in processor.sides.items():
            if not valid_name(side):
                raise DefinitionError(f"'{side}' cannot be the name of a side output of {name}")
            self.schemas[side] = Schema.parse(schema)
        self._rows = {output: OutputRows(columns) for output, columns in self.schemas.items()}

    @property
    def main(self) -> OutputRows:
        """The rows of the output itself."""
        return self._rows[None]

    def row(self, side: str | None, row: object) -> tuple[object, ...]:
        """A row that user code gives, as values in the order of the columns."""
        rows = self._rows.get(side)
        if rows is None:
            raise unknown("side output", str(side), [str(name) for name in self.schemas if name is not None])
        return rows.row(row)


def _bounds(kind: str) -> tuple[int, int]:
    most = (1 << (INTEGERS[kind] - 1)) - 1
    return -most - 1, most


class OutputRows:
    """The rows of one output, from what user code gives."""

    def __init__(self, columns: Schema) -> None:
        self._columns = columns
        self._kinds = {name: kind_of(kind) for name, kind in columns}
        #: The classes of values that stay as they are, and the bounds of those that are whole numbers.
        self._classes = tuple([kind.exact for kind in self._kinds.values()])
        kinds = enumerate(kind for _, kind in columns)
        self._bounds = [(place, *_bounds(kind)) for place, kind in kinds if kind in INTEGERS]
        self._count = len(self._kinds)
        names = list(columns.names)
        self._pick: Callable[[Any], Any] = itemgetter(*names, names[0])  # at least two: what it gives is a tuple

    def row(self, row: object) -> tuple[object, ...]:
        """A row as values in the order of the columns."""
        values: Any = row
        if row.__class__ is dict and len(row) == self._count:
            try:
                values = self._pick(row)[:-1]
            except KeyError:
                return self._checked(row)
        if values.__class__ is not tuple or tuple(map(type, values)) != self._classes:
            return self._checked(row)
        for place, least, most in self._bounds:
            if not least <= values[place] <= most:
                return self._checked(row)
        return values

    def _checked(self, row: object) -> tuple[object, ...]:
        kinds = self._kinds
        if isinstance(row, Mapping):
            for column in row:
                if column not in kinds:
                    raise unknown("column of the output", str(column), kinds)
            return tuple([self._value(column, kind, row.get(column)) for column, kind in kinds.items()])
        if isinstance(row, Sequence) and not isinstance(row, (str, bytes)) and len(row) == len(kinds):
            pairs = zip(kinds.items(), row, strict=True)
            return tuple([self._value(column, kind, value) for (column, kind), value in pairs])
        raise RowError(f"{row!r} is not a row of {self._columns.ddl()}", hint="yield a dictionary of the columns")

    @staticmethod
    def _value(column: str, kind: Kind, value: object) -> object:
        if value is None:
            return None
        try:
            return kind.take(value)
        except RowError as error:
            raise RowError(f"the column '{column}' of the output: {error.message}") from None


class Shape:
    """A processor's class, looked at once: what it keeps, takes and gives."""

    def __init__(self, processor: type[Processor], event: Schema, key: Schema) -> None:
        self.processor, self.event, self.key = processor, event, key
        self.outputs = Outputs(processor)
        self.states = states_of(processor)
        self._event = [kind_of(kind) for _, kind in event]
        self._key = [kind_of(kind) for _, kind in key]
        self.make_event = row_type("Event", event.names, {} if "change" in event.names else {"change": 1})
        self.make_retraction = type("Event", (self.make_event,), {"__slots__": (), "change": -1})
        self.make_key = None if len(key.names) == 1 else row_type("Key", key.names)

    @property
    def turns(self) -> list[Any]:
        """How each column of an event is given to user code, if it is not null; None where it stays as it is."""
        return [kind.give for kind in self._event]

    def key_text(self, values: Sequence[object]) -> str:
        """A key as its cell is stored by."""
        return json.dumps([kind.dumped(value) for kind, value in zip(self._key, values, strict=True)])

    def shown_key(self, values: Sequence[object]) -> Any:
        """A key as user code has it: a value, or a row where it has several columns."""
        shown = [kind.given(value) for kind, value in zip(self._key, values, strict=True)]
        return shown[0] if self.make_key is None else self.make_key._make(shown)

    def key_values(self, key: Any) -> list[object]:
        """The values of a key that user code has."""
        shown = [key] if self.make_key is None else key
        return [kind.taken(value) for kind, value in zip(self._key, shown, strict=True)]

    def shown_event(self, values: Sequence[object], sign: int = 1) -> Any:
        """An event as user code has it; a sign of -1 takes an earlier one back."""
        make: Any = self.make_event if sign > 0 else self.make_retraction
        return make._make([kind.given(value) for kind, value in zip(self._event, values, strict=True)])

    @property
    def takes_batches(self) -> bool:
        """Whether all events of a key in a commit come together."""
        return self.processor.on_events is not Processor.on_events


class Processing:
    """Runs a processor on the cells of keys. What fails has not happened, and says why."""

    def __init__(self, shape: Shape, user: Processor | None = None, attributes: Sequence[str] = ()) -> None:
        """`user` is the object that runs, and `attributes` those of it that hold state beside the cell."""
        self.shape = shape
        self._user = shape.processor() if user is None else user
        self._attributes = attributes
        self._who = f"the processor {shape.processor.__name__}"
        self._given: list[OutputRow] = []
        self._user._tables = {}
        self._failed: list[str] = []
        self._moment = Moment(Cell(), 0, 0, 0, self.give, self._failed.append)
        self._user.open()

    def event(
        self, cell: Cell, key: Any, event: Any, at: Instant | None, mark: Instant, now: Instant
    ) -> list[OutputRow]:
        """One event; what is given out. A `RowError` says why it is a dead letter."""
        time = None if at is None else to_datetime(at)
        since = now if at is None else at
        if self.shape.takes_batches:
            return self._call(cell, since, mark, now, self._user.on_events, key, Events([event], [time]))
        return self._call(cell, since, mark, now, self._user.on_event, key, event, time)

    def events(
        self, cell: Cell, key: Any, events: Sequence[Any], ats: Sequence[Instant | None], mark: Instant, now: Instant
    ) -> list[OutputRow]:
        """Events of a key together, at least one; a `RowError` says that they are to come one by one."""
        times = [None if at is None else to_datetime(at) for at in ats]
        since = now if ats[-1] is None else ats[-1]
        return self._call(cell, since, mark, now, self._user.on_events, key, Events(events, times))

    def enter(self, cell: Cell, mark: Instant, now: Instant) -> tuple[Processor, Moment, list[OutputRow]]:
        """The user's object, ready to be called until `leave`; and the list that has what is given out meanwhile.

        For callers that call it many times and undo failures themselves.
        """
        user, moment = self._user, self._moment
        moment.cell, moment.at, moment.mark, moment.now = cell, now, mark, now
        user._moment, user._cell = moment, cell
        self._given = []
        return user, moment, self._given

    def use_tables(self, tables: Mapping[str, SideTable]) -> None:
        """The versions of tables that user code sees from here on."""
        self._user._tables = tables

    def leave(self) -> None:
        """Nobody calls the user's object."""
        self._user._moment = self._user._cell = None

    def timers(
        self, cell: Cell, key: Any, mark: Instant, now: Instant
    ) -> Iterable[tuple[Timer, list[OutputRow] | RowError]]:
        """The timers of a cell that are due, one after the other: what each gives out, or why it failed."""
        count = 0
        while (due := cell.next_timer(mark, now)) is not None:
            timer, at = due
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
                self._failed.clear()
                yield shown, error
            for reason in self._failed:
                yield shown, RowError(f"{self._who} failed: {reason}")
            self._failed.clear()

    def _call(self, cell: Cell, at: Instant, mark: Instant, now: Instant, call: Any, *args: Any) -> list[OutputRow]:
        user, moment = self._user, self._moment
        outputs: list[OutputRow] = []
        self._given = outputs
        moment.cell, moment.at, moment.mark, moment.now = cell, at, mark, now
        user._moment, user._cell = moment, cell
        values = user.__dict__
        before = [(name, values.get(name)) for name in self._attributes]
        cell.begin(now)
        try:
            rows = call(*args)
            if rows is not None:
                for row in rows:
                    self.give(None, row)
        except Exception as error:  # whatever it is, it concerns this event
            cell.take_back()
            values.update(before)
            for name, value in before:
                if value is None:
                    del values[name]
            message = error.message if isinstance(error, RowError) else f"{type(error).__name__}: {error}"
            raise RowError(f"{self._who} failed: {message}") from error
        finally:
            user._moment = user._cell = None
        return outputs

    def give(self, side: str | None, row: object) -> None:
        """Takes a row that user code gives out."""
        self._given.append((side, self.shape.outputs.row(side, row), self._moment.at))


def states_of(processor: type[Processor]) -> dict[str, State[Any]]:
    """The states that a processor declares, its own and those of the classes that it derives from."""
    states: dict[str, State[Any]] = {}
    for known in reversed(processor.__mro__):
        states |= {name: state for name, state in vars(known).items() if isinstance(state, State)}
    return states


def check_processor(processor: object) -> type[Processor]:
    """Refuses what is not a processor."""
    if not inspect.isclass(processor) or not issubclass(processor, Processor):
        raise DefinitionError(
            f"not a processor: {processor!r}", hint="give the class itself, derived from ps.Processor"
        )
    if processor.on_event is Processor.on_event and processor.on_events is Processor.on_events:
        raise DefinitionError(f"the processor {processor.__name__} has no on_event(self, key, event, time)")
    states_of(processor)
    Outputs(processor)
    return processor


def late_reason(at: Instant, mark: Instant, allowed: Duration) -> str:
    """Why an event is late for a processor, in words."""
    return f"its time {show_instant(at)} is before {show_instant(mark - allowed)}, which time has already passed"


def _told(value: Any, kind: str) -> Any:
    """A value of the model as JSON tells it: times as text."""
    if value is None:
        return None
    return kind_of(kind).given(value).isoformat() if kind in ("timestamp", "date") else value
