"""Views: keyed, windowed aggregates over a stream. *What* is computed, *where*, *when* and *how*, in one frozen value.

>>> import penstock as ps
>>> bids = ps.stream("bids", schema="auction bigint, price int, at timestamp", event_time="at",
...                  watermark=ps.bounded("4 seconds"))
>>> bids.group_by("auction").window(ps.fixed("10 seconds")).agg(n=ps.count(), top=ps.max("price")).columns
('auction', 'window_start', 'window_end', 'n', 'top', 'final')
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from penstock.errors import DefinitionError
from penstock.model.aggregates import Aggregate
from penstock.model.aggregates.monoid import Monoid
from penstock.model.aggregates.paired import apart, with_exactness, written
from penstock.model.expressions import Bound, Sql, bind, sql_text
from penstock.model.naming import valid_name
from penstock.model.reach import check_reach
from penstock.model.stream import Flow, Named, named_expressions, show_named
from penstock.model.time import BEGINNING, END, Duration, Instant, not_negative, show_duration
from penstock.model.triggers import Trigger, each, on_time
from penstock.model.types import Schema, has_structs
from penstock.model.watermarks import Percentile
from penstock.model.windows import CountBased, Global, Window, global_window

if TYPE_CHECKING:
    from penstock.model.changes import Changes

ACCUMULATIONS = ("discarding", "accumulating", "retracting")
#: Columns that a view's table has besides its keys and aggregates.
WINDOW_COLUMNS = ("window_start", "window_end")
RESERVED = (*WINDOW_COLUMNS, "final")


@dataclass(frozen=True, repr=False)
class Grouped:
    """A stream with keys, and a window once one is chosen: what `agg` makes a view of."""

    input: Flow
    keys: Named
    windows: Window = field(default_factory=Global)

    def window(self, window: Window) -> Grouped:
        """*Where* in event time."""
        if not isinstance(window, Window):
            raise DefinitionError(
                f"not a window: {window!r}", hint="for example ps.fixed('1 minute') or ps.session('30 minutes')"
            )
        return replace(self, windows=window)

    def agg(self, **aggregates: Aggregate) -> View:
        """*What* is computed: `agg(posts=ps.count(), people=ps.approx_distinct("user"))`."""
        default = on_time() if self.windows.ends else each()
        return View(self.input, self.keys, self.windows, with_exactness(aggregates), default)

    def __repr__(self) -> str:
        grouped = f"{self.input!r}.group_by({show_named(self.keys)})"
        return grouped if self.windows == global_window() else f"{grouped}.window({self.windows!r})"


@dataclass(frozen=True, repr=False)
class View:
    """A view's definition. The table is the accumulated state; firing and accumulation shape the panes only."""

    input: Flow
    keys: Named
    windows: Window
    aggregates: tuple[tuple[str, Aggregate], ...]
    firing: Trigger
    accumulation: str = "accumulating"
    lateness: Duration = 0
    shown: Named | None = None  # None: the aggregates
    condition: str | None = None
    retention: Duration | None = None  # None: permanent
    name: str | None = field(default=None, compare=False, kw_only=True)  # in the app that keeps it

    def __post_init__(self) -> None:
        check(self)

    def trigger(self, trigger: Trigger) -> View:
        """*When* panes fire. Default: `on_time()`, or `each()` for a global window."""
        if not isinstance(trigger, Trigger):
            raise DefinitionError(
                f"not a trigger: {trigger!r}", hint="for example ps.on_time(early=ps.every('10 seconds'))"
            )
        return replace(self, firing=trigger)

    def discarding(self) -> View:
        """*How* a window's panes relate: each has only what came since the last one."""
        return replace(self, accumulation="discarding")

    def accumulating(self) -> View:
        """*How* a window's panes relate: each has everything so far. The default."""
        return replace(self, accumulation="accumulating")

    def retracting(self) -> View:
        """*How* a window's panes relate: each has everything so far, after a pane that takes the last one back."""
        return replace(self, accumulation="retracting")

    def allow_late(self, lateness: str | timedelta) -> View:
        """How long after its end a window still takes elements. Default: zero."""
        return replace(self, lateness=not_negative(lateness, "the allowed lateness"))

    def retain(self, retention: str | timedelta) -> View:
        """How long rows stay in the table, in event time. Default: permanently.

        A finished window stays that long after its end; without windows, a key after its newest element.
        """
        return replace(self, retention=not_negative(retention, "the retention"))

    def select(self, *columns: Sql, **named: Sql) -> View:
        """*What* is shown of it: expressions over keys, window and aggregates, `select("n", mean="total / n")`.

        They take the place of the aggregates in table and panes. One that fails is null.
        """
        return replace(self, shown=named_expressions(columns, named, "select"))

    def having(self, condition: Sql) -> View:
        """*Which* windows are shown: those for which a condition over keys, window and aggregates holds."""
        return replace(self, condition=sql_text(condition))

    def changes(self, name: str | None = None) -> Changes:
        """Its panes as a stream that other views are made of: what it showed is retracted before it shows again.

        Columns are the keys, the window, the values and `final`; a row's time is just before its window's end. `name`
        is the view's, where no app has named it.
        """
        from penstock.model.changes import changes

        return changes(self, name)

    def _repr_html_(self) -> str:
        from penstock.model.notebook import view_html

        return view_html(self)

    @property
    def signed(self) -> bool:
        """Whether rows can retract earlier ones."""
        return any(source.sign is not None for source in self.input.sources)

    @property
    def has_one_row(self) -> bool:
        """Whether its table is one row from the start, as SQL has it: without keys, over all time."""
        return not self.keys and isinstance(self.windows, Global)

    @property
    def forgets(self) -> bool:
        """Whether it forgets keys that no element has touched for its retention: over all time, with a retention."""
        return self.retention is not None and isinstance(self.windows, Global)

    def forgotten_before(self, watermark: Instant) -> Instant | None:
        """A key whose newest element is older than this is forgotten; None where none is.

        The end of input makes nothing old.
        """
        if self.retention is None or not self.forgets or not BEGINNING < watermark < END:
            return None
        return max(watermark - self.retention, BEGINNING)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the view's table."""
        return (*(k for k, _ in self.keys), *WINDOW_COLUMNS, *self.values, "final")

    @property
    def values(self) -> tuple[str, ...]:
        """The columns that carry a window's values."""
        return tuple(name for name, _ in (self.aggregates if self.shown is None else self.shown))

    @property
    def value_types(self) -> dict[str, str]:
        """The same with their types, where they are known without Spark."""
        if self.shown is not None:
            return {name: bind(text, self.result_schema).type or "string" for name, text in self.shown}
        return {name: aggregate.result_type(self.input_types(aggregate)) for name, aggregate in self.aggregates}

    @property
    def result_schema(self) -> Schema:
        """What `select` and `having` are written over: keys, the window where it has bounds, and aggregates."""
        columns = [(name, self.bound(text).type or "string") for name, text in self.keys]
        if not isinstance(self.windows, Global):
            kind = "bigint" if isinstance(self.windows, CountBased) else "timestamp"
            columns += [(name, kind) for name in WINDOW_COLUMNS]
        columns += [(name, a.result_type(self.input_types(a))) for name, a in self.aggregates]
        return Schema(tuple(columns))

    @property
    def expressions(self) -> tuple[str, ...]:
        """The SQL texts that the view evaluates on each event, each once."""
        texts = [text for _, text in self.keys] + list(self.windows.inputs)
        for _, aggregate in self.aggregates:
            texts += [*aggregate.inputs, *([aggregate.where] if aggregate.where else [])]
        return tuple(dict.fromkeys(texts))

    def input_types(self, aggregate: Aggregate) -> tuple[str, ...]:
        """The types of an aggregate's inputs, where they are known without Spark."""
        return tuple(self.bound(text).type or "string" for text in aggregate.inputs)

    def bound(self, text: str) -> Bound:
        """An expression of this view, bound to the columns that flow into it."""
        return bind(text, self.input_schema)

    @property
    def input_schema(self) -> Schema:
        if self.input.schema is None:
            raise DefinitionError(
                "only Spark knows the columns that flow into this view",
                hint="give transform(…, schema='name type, …'), or run on Spark",
            )
        return self.input.schema

    def explain(self, others: Mapping[str, View] | None = None) -> str:
        """The definition with every default that applies, and who evaluates what; what it shares with other views."""
        from penstock.model.explain import explain

        return explain(self, others)

    def fingerprint(self) -> str:
        """A stable digest of all that the view's state depends on."""
        from penstock.model.change import fingerprint

        return fingerprint(self)

    def __repr__(self) -> str:
        text = repr(Grouped(self.input, self.keys, self.windows))
        text += f".agg({', '.join(f'{name}={aggregate!r}' for name, aggregate in written(self.aggregates))})"
        if self.shown is not None:
            text += f".select({show_named(self.shown)})"
        if self.condition is not None:
            text += f".having({self.condition!r})"
        if self.firing != (on_time() if self.windows.ends else each()):
            text += f".trigger({self.firing!r})"
        if self.accumulation != "accumulating":
            text += f".{self.accumulation}()"
        if self.lateness:
            text += f".allow_late({show_duration(self.lateness)!r})"
        if self.retention is not None:
            text += f".retain({show_duration(self.retention)!r})"
        return text


def check(view: View) -> None:
    """Refuses a definition that cannot mean anything, with what to do about it."""
    _check_names(view)
    _check_time(view)
    percentile = all(isinstance(source.watermark, Percentile) for source in view.input.sources)
    view.firing.check(view.windows, percentile)
    check_reach(view.firing, view.windows)
    if view.accumulation not in ACCUMULATIONS:
        raise DefinitionError(
            f"unknown accumulation {view.accumulation!r}", detail=f"there are: {', '.join(ACCUMULATIONS)}"
        )
    if view.signed:
        if view.accumulation == "discarding":
            raise DefinitionError(
                "discarding panes cannot show retractions", hint="use .accumulating() or .retracting()"
            )
        if isinstance(view.windows, CountBased):
            raise DefinitionError(
                f"{view.windows!r} cannot take retractions: one would count as one more element",
                hint="use a window in event time, or ps.global_window()",
            )
        for _, aggregate in view.aggregates:
            aggregate.retractable()
    if view.input.schema is not None:
        _check_expressions(view)


def _check_names(view: View) -> None:
    if not view.aggregates:
        raise DefinitionError("a view needs an aggregate", hint="for example .agg(n=ps.count())")
    _check_apart(name for name, _ in (*view.keys, *view.aggregates))
    _check_apart((*(name for name, _ in view.keys), *view.values))
    for name, aggregate in view.aggregates:
        if not isinstance(aggregate, Aggregate):
            raise DefinitionError(f"{name}={aggregate!r} is not an aggregate", hint="for example ps.sum('price')")


def _check_apart(names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if not valid_name(name):
            raise DefinitionError(f"'{name}' cannot be a column of a view", hint="use letters, digits and underscores")
        if name.lower() in RESERVED:
            raise DefinitionError(f"'{name}' is a column that every view has", hint="choose another name")
        if name.lower() in seen:
            raise DefinitionError(f"the name '{name}' appears twice", hint="give keys and aggregates different names")
        seen.add(name.lower())


def _check_time(view: View) -> None:
    if view.windows.needs_event_time and not view.input.has_event_time:
        names = ", ".join(s.name for s in view.input.sources if s.event_time is None)
        raise DefinitionError(
            f"{view.windows!r} needs an event time, and '{names}' has none",
            hint="set event_time='…' on the stream, or use ps.count_window(n) or ps.global_window()",
        )
    if view.windows.ends_in_event_time:
        for source in view.input.sources:
            if source.watermark is None:
                raise DefinitionError(
                    f"{view.windows!r} needs a watermark, and the stream '{source.name}' has none",
                    hint="declare how late its events may be: watermark=ps.bounded('10 seconds')",
                )
    elif view.lateness:
        raise DefinitionError(
            f"allowed lateness has no effect on {view.windows!r}: it has no end in event time",
            hint="leave out allow_late, or choose a window in event time",
        )
    elif view.retention is not None:
        _check_forgets(view)


def _check_forgets(view: View) -> None:
    """Refuses a retention where event time does not say when a key was last touched."""
    if not view.forgets:
        raise DefinitionError(
            f"{view.windows!r} has no end in event time after which its windows could be dropped",
            hint="leave out retain, or choose a window in event time",
        )
    if not view.keys:
        raise DefinitionError(
            "a view without keys and windows has one row, which always stays",
            hint="leave out retain, or choose a window in event time, or group by a key",
        )
    if not view.input.has_event_time:
        names = ", ".join(source.name for source in view.input.sources if source.event_time is None)
        raise DefinitionError(
            f"keys expire by event time, and '{names}' has none",
            hint="leave out retain, or set event_time='…' on the stream",
        )
    for source in view.input.sources:
        if source.watermark is None:
            raise DefinitionError(
                f"keys expire by the watermark, and the stream '{source.name}' has none",
                hint="leave out retain, or declare how late its events may be: watermark=ps.bounded('10 seconds')",
            )


def _check_expressions(view: View) -> None:
    for text in view.expressions:
        check_storable(text, view.bound(text).type)
    for _, aggregate in view.aggregates:
        types = view.input_types(aggregate)
        if not any(view.bound(text).outside for text in aggregate.inputs):
            aggregate.result_type(types)
        for one, own_types in apart(aggregate, types):
            if isinstance(one, Monoid):
                one.check(own_types)
        if aggregate.where is not None:
            condition = view.bound(aggregate.where)
            if condition.type not in (None, "boolean"):
                raise DefinitionError(f"where={aggregate.where!r} is {condition.type}, and must be boolean")
    _check_shown(view)


def check_storable(text: str, kind: str | None) -> None:
    """Refuses maps and structs, which no store keeps."""
    if kind is not None and has_structs(kind):
        raise DefinitionError(
            f"'{text}' is {kind}, and neither views nor sinks take maps and structs",
            hint="take a field or an entry of it, or a text: to_json(…)",
        )


def _check_shown(view: View) -> None:
    """What is shown is computed by the kernel on the driver, from a window's answers."""
    texts = [*(text for _, text in view.shown or ()), *([] if view.condition is None else [view.condition])]
    if any(view.bound(text).outside for text in view.expressions):
        return  # Spark tells the types when the app starts; then it is checked
    for text in texts:
        outside = bind(text, view.result_schema).outside
        if outside is not None:
            raise DefinitionError(
                f"'{text}' cannot be computed from a view's answers: {outside}",
                hint="compute it from the events, before the aggregates, or when you query the view",
            )
    if view.condition is not None and (kind := bind(view.condition, view.result_schema).type) != "boolean":
        raise DefinitionError(f"having({view.condition!r}) is {kind}, and must be boolean")
