"""Streams: unbounded tables of events, and the steps that make one stream from another. Frozen values, nothing runs.

>>> posts = stream("posts", schema="user string, text string, at timestamp", event_time="at",
...                watermark=bounded("10 seconds"))
>>> posts.where("user IS NOT NULL").select("user", size="length(text)").schema.ddl()
'user string, size int'
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.errors import DefinitionError
from penstock.model.epochs import Epochs, epochs_of
from penstock.model.expressions import Expression, Sql, bind, col, sql_text
from penstock.model.naming import function_name, split_alias, valid_name
from penstock.model.time import Duration, duration, not_negative, positive, show_duration
from penstock.model.types import Schema, SchemaLike, has_structs, is_integer
from penstock.model.watermarks import Punctuated, Watermark, bounded

if TYPE_CHECKING:
    from penstock.model.aggregates import Aggregate
    from penstock.model.join_definition import Within
    from penstock.model.row_steps import Frames
    from penstock.model.table import Snapshot, Table
    from penstock.model.versions import Versions
    from penstock.model.view import Grouped, View
    from penstock.model.windows import Window

__all__ = ["Flow", "Piped", "Select", "Step", "Stream", "Transform", "Union", "Where", "WithTime", "bounded", "stream"]

DEFAULT_HORIZON = duration("1 day")
DEFAULT_AHEAD = duration("1 day")
KEEPS = ("all", "none")
Named = tuple[tuple[str, str], ...]


class Flow(ABC):
    """Anything that events flow out of: a stream as it comes from its log, or one made from others."""

    schema: Schema | None

    @property
    @abstractmethod
    def inputs(self) -> tuple[Flow, ...]:
        """The flows that this one is made from."""

    @property
    def sources(self) -> tuple[Stream, ...]:
        """The streams at the far end, each once."""
        sources: dict[str, Stream] = {}
        for branch in branches(self):
            sources.setdefault(branch.source.name, branch.source)
        return tuple(sources.values())

    @property
    def has_event_time(self) -> bool:
        return all(
            branch.source.event_time is not None or any(isinstance(s, WithTime) for s in branch.steps)
            for branch in branches(self)
        )

    def __getitem__(self, column: str) -> Expression:
        """A column, to make expressions of: `orders.where(orders["price"] > 1)`."""
        if not isinstance(column, str):
            raise DefinitionError(
                f"{column!r} is not the name of a column", hint="a stream has no end: it cannot be indexed or iterated"
            )
        return col(column if self.schema is None else self.schema.find(column))

    def _repr_html_(self) -> str:
        from penstock.model.notebook import flow_html

        return flow_html(self)

    def _ipython_key_completions_(self) -> list[str]:
        return [] if self.schema is None else list(self.schema.names)

    def where(self, condition: Sql) -> Flow:
        """Only the events for which a condition holds (neither false nor null)."""
        return Where(self, sql_text(condition))

    def select(self, *columns: Sql, **named: Sql) -> Flow:
        """Other columns: names or 'expression AS name', and `name="expression"`. Event time and position come along."""
        return Select(self, named_expressions(columns, named, "select"))

    def with_time(self, expression: Sql) -> Flow:
        """Another event time, from any expression. The stream's watermark still follows the stream's own event time."""
        return WithTime(self, sql_text(expression))

    def transform(
        self, function: Callable[..., Any], *, schema: SchemaLike | None = None, tables: Sequence[Table] = ()
    ) -> Flow:
        """DataFrame code, run by Spark: `transform(lambda df: df.select(…))`. `schema` says what comes out of it.

        Each of the `tables` comes to the function as one more DataFrame, in the version of the epoch.
        """
        return Transform(self, function, None if schema is None else Schema.parse(schema), tuple(tables))

    def join(
        self,
        other: Table | Flow | Versions,
        on: Sql | Sequence[str] | None = None,
        *,
        how: str = "inner",
        prefix: str = "",
        within: Within | None = None,
        window: Window | None = None,
        bounds: str = "inclusive",
        name: str | None = None,
        event_time: str | None = None,
    ) -> Flow:
        """Joins each event with its row of a table: `join(users, on="user = id", how="left")`.

        The other's columns come along; names that the events have too begin with `prefix`. How 'left', events that
        find none stay.

        Or with the events of another stream: `join(shown, on="ad = ad_id", within=("-1 hour", "0 seconds"))`. `within`
        bounds the other one's time less this one's: one duration bounds it either way. `bounds` says which ends belong
        to it: "inclusive", "exclusive", "left" or "right". Or both must fall into the same `window`. `how` may also be
        "right", "full", "semi" and "anti". `name` is that of the stream that this gives, by default
        `<this>_<other>_join`. `event_time` is that of its rows, by default the later one of both.

        Or with a stream as a table with versions: `join(prices.versions("item"), how="left")`. Each event finds the
        version that was valid at its own time. `on` is the table's key by default.
        """
        from penstock.model.join_definition import joined_flow
        from penstock.model.table_on import joined
        from penstock.model.versions import Versions

        on = str(on) if isinstance(on, Expression) else on
        if isinstance(other, (Flow, Versions)):
            return joined_flow(
                self, other, on, within=within, window=window, how=how, prefix=prefix, bounds=bounds, name=name,
                event_time=event_time,
            )  # fmt: skip
        if (within, window, name, event_time) != (None, None, None, None) or bounds != "inclusive":
            raise DefinitionError(
                f"'{other.name}' is a table: a join with it has no within, window, bounds, name or event_time",
                hint="leave them out; a table with valid_from is as of the event's time",
            )
        return joined(self, other, on, how, prefix)

    def versions(self, *key: str, deleted: str | None = None) -> Versions:
        """These rows as a table with versions, to join events with: `orders.join(prices.versions("item"))`.

        A row is what its key is from the row's event time on, until the next one of the key. `deleted` is a boolean
        column: a row where it is true deletes the key.
        """
        from penstock.model.versions import versions_of

        return versions_of(self, key, deleted)

    def map(self, function: Callable[..., Any], *, schema: SchemaLike, tables: Sequence[Table] = ()) -> Flow:
        """One row made of each row by Python: `map(lambda row: {"size": len(row.text)}, schema="size int")`.

        The function gets a row (`row.text`, `row["text"]`) and gives a dictionary or a tuple; the value alone, where
        there is one column. Each of the `tables` comes to it as one more argument: `rates.get(row.currency)` is a row,
        or None. So it is for `flat_map` and `filter`.
        """
        from penstock.model.row_steps import Map

        return Map(self, function, schema=Schema.parse(schema), sides=tuple(tables))

    def flat_map(self, function: Callable[..., Any], *, schema: SchemaLike, tables: Sequence[Table] = ()) -> Flow:
        """Makes any number of rows of each row: `flat_map(lambda row: row.line.split(), schema="word string")`."""
        from penstock.model.row_steps import FlatMap

        return FlatMap(self, function, schema=Schema.parse(schema), sides=tuple(tables))

    def filter(self, function: Callable[..., Any], *, tables: Sequence[Table] = ()) -> Flow:
        """Keeps the rows for which a function returns something true: `filter(lambda row: row.size > 3)`."""
        from penstock.model.row_steps import Filter

        return Filter(self, function, sides=tuple(tables))

    def map_batches(self, function: Callable[..., Any], *, schema: SchemaLike, of: Frames = "polars") -> Flow:
        """Rows made by code on columns: the function gets a frame of Polars, or a table of Arrow, and gives one.

        Its n-th row is made of the n-th row; how many rows come at once says nothing. For other numbers of rows there
        are `flat_map` and `explode`.
        """
        from penstock.model.row_steps import MapBatches

        return MapBatches(self, function, schema=Schema.parse(schema), of=of)

    def explode(self, expression: Sql, *, outer: bool = False, position: str | None = None) -> Flow:
        """A row for each element of an array: `explode("split(line, ' ') AS word")`; of a map, '… AS key, value'.

        Events without elements are left out, unless `outer`. `position` names a column with the element's number.
        """
        from penstock.model.explode import explode

        return explode(self, sql_text(expression), outer, position)

    def union(self, *others: Flow) -> Flow:
        """The events of several streams as one. Its watermark is the smallest of theirs."""
        return Union((self, *others))

    def pipe(self, function: Callable[..., Flow], *arguments: object) -> Flow:
        """A composite step: `function(self, *arguments)`, shown under the function's name."""
        result = function(self, *arguments)
        if not isinstance(result, Flow):
            raise DefinitionError(
                f"{function_name(function)} must return a stream, and returned {type(result).__name__}",
                hint="a function given to pipe takes a stream and returns one",
            )
        return Piped(self, result, function_name(function), arguments)

    def group_by(self, *keys: Sql, **named: Sql) -> Grouped:
        """The keys of a view: column names or 'expression AS name', and `name="expression"`."""
        from penstock.model.view import Grouped

        return Grouped(self, named_expressions(keys, named, "group_by"))

    def window(self, window: Window) -> Grouped:
        """A window over all events together, without a key."""
        return self.group_by().window(window)

    def agg(self, **aggregates: Aggregate) -> View:
        """A view of all events together, without a key or a window: `agg(orders=ps.count())`."""
        return self.group_by().agg(**aggregates)


@dataclass(frozen=True, repr=False)
class Stream(Flow):
    """An unbounded table of events with a schema, an event time and, where known, an id."""

    name: str
    schema: Schema
    log: object | None = None
    event_time: str | None = None
    watermark: Watermark | None = None
    id: str | None = None
    id_horizon: Duration = DEFAULT_HORIZON
    max_ahead: Duration | None = DEFAULT_AHEAD
    sign: str | None = None
    keep: str | None = None
    epoch: Epochs | None = None

    def __post_init__(self) -> None:
        if not valid_name(self.name):
            raise DefinitionError(
                f"'{self.name}' cannot be a stream's name", hint="use letters, digits and underscores"
            )
        if self.event_time is not None:
            _expect(bind(self.event_time, self.schema), "timestamp", "event_time")
        if self.watermark is not None and self.event_time is None:
            raise DefinitionError(
                f"the stream '{self.name}' has a watermark and no event time",
                hint="set event_time='a timestamp'",
            )
        if isinstance(self.watermark, Punctuated):
            _expect(bind(self.watermark.mark, self.schema), "timestamp", "ps.punctuated")
        if self.id is not None:
            bind(self.id, self.schema)
        if self.sign is not None:
            bound = bind(self.sign, self.schema)
            if bound.type is not None and not is_integer(bound.type):
                raise DefinitionError(
                    f"sign={self.sign!r} is {bound.type}", hint="give a column of whole numbers, +1 or -1"
                )
        if self.epoch is not None:
            self.epoch.check(self.schema)
        if self.keep not in (None, "none") and not is_keepable(self.schema):
            raise DefinitionError(
                f"the history cannot keep the stream '{self.name}': it has columns of structs or maps",
                detail=self.schema.ddl(),
                hint="set keep='none', or declare such columns as string: they come as JSON",
            )

    @property
    def kept(self) -> str:
        """How much of it the history keeps: "all", "none", or for how long. The default is all."""
        return self.keep or ("all" if is_keepable(self.schema) else "none")

    @property
    def inputs(self) -> tuple[Flow, ...]:
        return ()

    def __repr__(self) -> str:
        arguments = [repr(self.name), f"schema={self.schema.ddl()!r}"]
        for what in ("log", "event_time", "watermark", "id", "sign"):
            value = getattr(self, what)
            if value is not None:
                arguments.append(f"{what}={value!r}")
        if self.id_horizon != DEFAULT_HORIZON:
            arguments.append(f"id_horizon={show_duration(self.id_horizon)!r}")
        if self.max_ahead != DEFAULT_AHEAD:
            arguments.append(f"max_ahead={None if self.max_ahead is None else show_duration(self.max_ahead)!r}")
        if self.keep is not None:
            arguments.append(f"keep={self.keep!r}")
        if self.epoch is not None:
            arguments.append(f"epoch={self.epoch!r}")
        return f"ps.stream({', '.join(arguments)})"


def stream(
    name: str,
    log: object | None = None,
    *,
    schema: SchemaLike,
    event_time: Sql | None = None,
    watermark: Watermark | None = None,
    id: Sql | None = None,
    id_horizon: str | timedelta = "1 day",
    max_ahead: str | timedelta | None = "1 day",
    sign: Sql | None = None,
    keep: str | timedelta | None = None,
    epoch: str | Epochs | None = None,
) -> Stream:
    """A stream of events.

    `event_time` is any expression that gives a timestamp. `id` identifies events: one whose id was accepted within
    `id_horizon` of event time is a duplicate. Events further ahead of the clock than `max_ahead` are dead letters.
    `sign` is a column of +1 and -1: a row with -1 retracts an earlier one. `keep` is how much of it the history keeps:
    "all", "none", or a span of event time such as "30 days"; the default is all, if its types allow. `epoch` is the
    column with the number of the producer's epoch, or `ps.epochs(…)`: `app.on_epoch` uses them.
    """
    columns = Schema.parse(schema)
    for column in columns.names:
        if column.startswith("__"):
            raise DefinitionError(f"'{column}': names that start with two underscores are Penstock's own")
    return Stream(
        name,
        columns,
        log,
        sql_text(event_time),
        watermark,
        sql_text(id),
        positive(id_horizon, "id_horizon"),
        None if max_ahead is None else not_negative(max_ahead, "max_ahead"),
        sql_text(sign),
        _keep(keep, sql_text(event_time)),
        epochs_of(epoch),
    )


def is_keepable(schema: Schema) -> bool:
    """Whether the history can keep rows of these types: neither structs nor maps."""
    return not any(has_structs(kind) for _, kind in schema)


def _keep(keep: str | timedelta | None, event_time: str | None) -> str | None:
    """What `keep` says, spelled in one way."""
    if keep is None or (isinstance(keep, str) and keep.strip().lower() in KEEPS):
        return keep.strip().lower() if isinstance(keep, str) else None
    try:
        span = positive(keep, "keep")
    except DefinitionError as error:
        raise DefinitionError(
            f"keep={keep!r} is neither 'all' nor 'none' nor a span of time", detail=error.message, hint="keep='30 days'"
        ) from None
    if event_time is None:
        raise DefinitionError(f"keep={keep!r} is by event time, and the stream has none", hint="set event_time='…'")
    return show_duration(span)


@dataclass(frozen=True, repr=False)
class Step(Flow):
    """A flow made from one other, event by event. One that `multiplies` may make several rows of an event."""

    multiplies: ClassVar[bool] = False

    input: Flow

    @property
    def inputs(self) -> tuple[Flow, ...]:
        return (self.input,)

    @property
    def texts(self) -> tuple[str, ...]:
        """The expressions over the columns of its input."""
        return ()

    @property
    def label(self) -> str:
        """The step alone, as in `explain`."""
        return repr(self).removeprefix(repr(self.input)).removeprefix(".")


@dataclass(frozen=True, repr=False)
class Where(Step):
    condition: str

    def __post_init__(self) -> None:
        if self.input.schema is not None:
            _expect(bind(self.condition, self.input.schema), "boolean", "where")

    @property
    def schema(self) -> Schema | None:  # type: ignore[override]
        return self.input.schema

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.condition,)

    def __repr__(self) -> str:
        return f"{self.input!r}.where({self.condition!r})"


@dataclass(frozen=True, repr=False)
class Select(Step):
    columns: Named
    schema: Schema | None = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "schema", _schema_of(self.columns, self.input.schema))

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(text for _, text in self.columns)

    def __repr__(self) -> str:
        return f"{self.input!r}.select({show_named(self.columns)})"


@dataclass(frozen=True, repr=False)
class WithTime(Step):
    expression: str

    def __post_init__(self) -> None:
        if self.input.schema is not None:
            _expect(bind(self.expression, self.input.schema), "timestamp", "with_time")

    @property
    def schema(self) -> Schema | None:  # type: ignore[override]
        return self.input.schema

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.expression,)

    def __repr__(self) -> str:
        return f"{self.input!r}.with_time({self.expression!r})"


@dataclass(frozen=True, repr=False)
class Transform(Step):
    """DataFrame code; what comes out of it is known only where `schema` says so."""

    function: Callable[..., Any]
    schema: Schema | None = None
    sides: tuple[Table, ...] = ()
    snapshots: tuple[Snapshot, ...] = ()  # of the tables, where this step is run

    def __repr__(self) -> str:
        arguments = f", schema={self.schema.ddl()!r}" if self.schema else ""
        arguments += f", tables=[{', '.join(side.name for side in self.sides)}]" if self.sides else ""
        return f"{self.input!r}.transform({function_name(self.function)}{arguments})"


@dataclass(frozen=True, repr=False)
class Piped(Step):
    """A composite step: `output` is what its function made of `input`."""

    output: Flow
    name: str
    arguments: tuple[object, ...]

    @property
    def schema(self) -> Schema | None:  # type: ignore[override]
        return self.output.schema

    @property
    def inputs(self) -> tuple[Flow, ...]:
        return (self.output,)

    def __repr__(self) -> str:
        return f"{self.input!r}.pipe({', '.join([self.name, *map(repr, self.arguments)])})"


@dataclass(frozen=True, repr=False)
class Union(Flow):
    """Several flows as one."""

    several: tuple[Flow, ...]

    def __post_init__(self) -> None:
        first = self.several[0].schema
        for other in self.several[1:]:
            if first is not None and other.schema is not None and dict(first) != dict(other.schema):
                raise DefinitionError(
                    "the streams of a union must have the same columns and types",
                    detail=f"'{first.ddl()}' and '{other.schema.ddl()}'",
                    hint="select the common columns first, with casts where types differ",
                )

    @property
    def schema(self) -> Schema | None:  # type: ignore[override]
        return self.several[0].schema

    @property
    def inputs(self) -> tuple[Flow, ...]:
        return self.several

    def __repr__(self) -> str:
        return f"{self.several[0]!r}.union({', '.join(map(repr, self.several[1:]))})"


@dataclass(frozen=True)
class Branch:
    """One way from a stream to the end of a flow: the steps that an event takes, in order."""

    source: Stream
    steps: tuple[Step, ...]

    @property
    def schema(self) -> Schema | None:
        return self.steps[-1].schema if self.steps else self.source.schema


def branches(flow: Flow) -> tuple[Branch, ...]:
    """All the ways into a flow. Unions and composites are unfolded: what is left is one event's way."""
    if isinstance(flow, Stream):
        return (Branch(flow, ()),)
    own = (flow,) if isinstance(flow, Step) and not isinstance(flow, Piped) else ()
    return tuple(Branch(b.source, (*b.steps, *own)) for part in flow.inputs for b in branches(part))


def named_expressions(columns: tuple[Sql, ...], named: Mapping[str, Sql], where: str) -> Named:
    """Column names, 'expression AS name' and `name="expression"` as pairs of name and expression."""
    pairs: list[tuple[str, str]] = []
    for text in map(sql_text, columns):
        expression, alias = split_alias(text)
        name = alias or text.strip().strip("`")
        if alias is None and not name.isidentifier():
            raise DefinitionError(
                f"{where}: '{text}' needs a name", hint=f"write {where}(name={text!r}) or '{text} AS name'"
            )
        pairs.append((name, expression))
    pairs += ((name, sql_text(expression)) for name, expression in named.items())
    seen: set[str] = set()
    for name, _ in pairs:
        if not valid_name(name):
            raise DefinitionError(f"{where}: '{name}' cannot be a column's name")
        if name.lower() in seen:
            raise DefinitionError(f"{where}: the name '{name}' appears twice")
        seen.add(name.lower())
    return tuple(pairs)


def show_named(pairs: Named) -> str:
    return ", ".join(repr(text) if name == text else f"{name}={text!r}" for name, text in pairs)


def _schema_of(columns: Named, schema: Schema | None) -> Schema | None:
    """The schema after a select, where Spark is not needed to know it."""
    if schema is None:
        return None
    types = [(name, bind(text, schema).type) for name, text in columns]
    known = [(name, kind) for name, kind in types if kind is not None]
    return Schema(tuple(known)) if len(known) == len(types) else None


def _expect(bound: Any, kind: str, where: str) -> None:
    if bound.type is not None and bound.type != kind:
        raise DefinitionError(
            f"{where}: '{bound.text}' is {bound.type}, and must be {kind}",
            hint=f"cast it: CAST({bound.text} AS {kind})" if kind == "timestamp" else None,
        )
