"""What a sink is: a frozen value that says who receives a view's panes, and in which mode.

- `panes`: every pane, inserts and retractions, early, on time and late;
- `append`: each window once, with its final value;
- `update`: the newest value of each window, to be put in the place of the one before;
- `complete`: the whole table of the view, each time something fired;
- `upsert`: the newest value of each window in the place of the one before, and none for one that was taken back;
- `realtime`: no panes, but rows of a flow without state as they come, from Kafka to Kafka.

>>> import penstock as ps
>>> from penstock.sinks import check, to_console
>>> totals = ps.stream("s", schema="k string").group_by("k").agg(n=ps.count())
>>> check(to_console(mode="append"), totals)
Traceback (most recent call last):
penstock.errors.DefinitionError: ps.to_console(mode='append') would never get a row: ps.global_window() never ends
  hint: use mode='update' or mode='complete', or a window that ends
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Final, Literal, Protocol, TypeAlias

import polars as pl

from penstock.errors import DefinitionError, PenstockError, unknown
from penstock.kernel.plan import Plan
from penstock.model.rows import Rows
from penstock.model.triggers import Never, OnClose, OnTime
from penstock.model.view import View
from penstock.model.windows import CountBased, Merging
from penstock.sinks.rows import PANE_COLUMNS, Row
from penstock.store.block import Block, Head
from penstock.store.entry import DELIVERY_NAMES

Mode: TypeAlias = Literal["panes", "append", "update", "complete", "realtime", "upsert"]
MODES: Final[tuple[Mode, ...]] = ("panes", "append", "update", "complete", "realtime")


class SinkError(PenstockError):
    """A sink cannot take panes, or contains data of something else than this app.

    `retry_after` is how many seconds the receiver asks to wait.
    """

    retry_after: float | None = None


class Outbox(Protocol):
    """What sinks read of a store; every `Store` and every `Reader` is one."""

    def heads(self, view: str, after: int, limit: int) -> list[Head]: ...
    def blocks(self, view: str, after: int, limit: int) -> list[Block]: ...
    def new_blocks(self, views: Sequence[str], after: int, limit: int) -> list[tuple[str, Block]]: ...
    def newest_blocks(self, after: int) -> dict[str, int]: ...
    def position(self, sink: str) -> int: ...
    def query(self, sql: str, parameters: Sequence[object] = ()) -> pl.DataFrame: ...


def newest_pane(outbox: Outbox) -> int:
    """The id of the newest pane that was ever fired, delivered and trimmed ones included."""
    return int(outbox.query("SELECT value FROM __meta WHERE name = 'panes'").item())


def delivery_names(outbox: Outbox) -> dict[str, str]:
    """By sink that was renamed the name by which its target knows it."""
    return dict(outbox.query(DELIVERY_NAMES).iter_rows())


@dataclass(frozen=True)
class Target:
    """What a sink is opened for: its own name, its view's name and definition, the store and the app."""

    sink: str
    view: str
    definition: View | Rows
    outbox: Outbox
    app: str = ""
    check_owner: Callable[[], object] = lambda: None  # raises where another process has taken over the store
    takes_over: bool = False  # whether the process before may still hold things open

    @property
    def delivery_name(self) -> str:
        """The name by which the sink is known where it delivers: it stays when the sink is renamed."""
        return delivery_names(self.outbox).get(self.sink, self.sink)

    @property
    def key_names(self) -> dict[str, str]:
        """The keys' types, in Spark's words; rows of a flow without state have no key."""
        return {} if isinstance(self.definition, Rows) else Plan(self.definition).key_names

    @property
    def value_types(self) -> dict[str, str]:
        """The types of the other columns."""
        definition = self.definition
        return dict(definition.schema) if isinstance(definition, Rows) else definition.value_types


@dataclass(frozen=True)
class Batch:
    """What a sink takes at once: rows that stand for all panes of its view with ids from `first` to `last`."""

    first: int
    last: int
    rows: Sequence[Row]


class OpenSink(ABC):
    """An open sink. `take` returns when the rows are durable; if it raises, they are delivered again."""

    #: The last pane that the sink itself knows to be there; 0 if it cannot know.
    position: int = 0

    @property
    def refused(self) -> int:
        """How many panes it has set aside, since the receiver rejects them."""
        return 0

    @abstractmethod
    def take(self, batch: Batch) -> None: ...

    def close(self) -> None:
        """Releases what was opened; many sinks hold nothing."""
        return


@dataclass(frozen=True, repr=False)
class Sink(ABC):
    """Who receives the panes of a view. A value: compares by content, and prints as its own constructor."""

    mode: Mode = field(default="panes", kw_only=True)

    #: The modes that it has.
    modes: ClassVar[tuple[Mode, ...]] = MODES
    #: Whether what it takes at once ends with a commit, where one fits.
    whole_commits: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.mode not in self.modes:
            raise unknown("mode of a sink", str(self.mode), self.modes)

    @property
    @abstractmethod
    def rows(self) -> int:
        """How many rows it takes at once."""

    @abstractmethod
    def open(self, target: Target) -> OpenSink:
        """Prepares to take rows; rejects a target that contains something else."""

    def check_view(self, view: View) -> None:
        """Rejects a view that this sink cannot take."""
        return

    def show(self, constructor: str, *arguments: str) -> str:
        """The constructor with the user's options, and the mode where it is not the default."""
        mode = [f"mode={self.mode!r}"] if self.mode != "panes" else []
        return f"ps.{constructor}({', '.join([*arguments, *mode])})"

    def written(self, constructor: str, main: str, usual: Mode = "panes", **shown: Callable[[Any], object]) -> str:
        """The constructor as one writes it: its main field, then what is not as by default, some `shown` otherwise."""
        arguments = []
        for one in sorted(fields(self), key=lambda one: (one.name != main, one.name == "mode")):
            value = getattr(self, one.name)
            if one.name == main or value != (usual if one.name == "mode" else one.default):
                text = repr(shown[one.name](value) if one.name in shown else value)
                arguments.append(text if one.name == main else f"{one.name}={text}")
        return f"ps.{constructor}({', '.join(arguments)})"


def above_zero(number: object, what: str) -> None:
    """Refuses what is not a whole number above zero."""
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise DefinitionError(f"{what} must be a whole number above zero, and is {number!r}")


# Which sinks a view can have


def check(sink: Sink, view: View) -> None:
    """Rejects a sink that would get nothing of this view, or wrong rows, with a hint."""
    if not isinstance(sink, Sink):
        raise DefinitionError(f"not a sink: {sink!r}", hint="for example ps.to_jsonl('directory')")
    if sink.mode == "realtime":
        raise DefinitionError(
            "real-time mode cannot run this: a view has state, which is kept by epochs",
            hint="leave out mode='realtime'; or send the rows that the view reads, without state",
        )
    if view.firing == Never():
        raise DefinitionError(
            f"{sink!r} would never get a row: the view fires no panes, as {view.firing!r} says",
            hint="choose another trigger, or leave the sink out and query the table",
        )
    if sink.mode != "complete":
        _check_names(sink, view)
    if sink.mode == "append":
        _check_append(sink, view)
    if sink.mode == "update":
        _check_update(sink, view)
    if sink.mode == "upsert":
        _check_upsert(sink, view)
    sink.check_view(view)


def check_rows(sink: Sink) -> None:
    """Rejects a mode that rows of a flow without state do not have."""
    if sink.mode not in ("panes", "append", "realtime"):
        raise DefinitionError(
            f"{sink!r} follows the windows of a view, and rows of a stream have none",
            hint="leave out the mode: each row is delivered once",
        )


def _check_names(sink: Sink, view: View) -> None:
    for name in (*(key for key, _ in view.keys), *view.values):
        if name.lower() in PANE_COLUMNS:
            raise DefinitionError(
                f"the view has a column '{name}', and so has every pane",
                detail=f"panes have the columns {', '.join(PANE_COLUMNS)}",
                hint="rename the view's column, or use mode='complete'",
            )


def _check_append(sink: Sink, view: View) -> None:
    """Each window that ends must get one pane that is final, and that pane must hold all of it."""
    if not view.windows.ends:
        raise DefinitionError(
            f"{sink!r} would never get a row: {view.windows!r} never ends",
            hint="use mode='update' or mode='complete', or a window that ends",
        )
    firing = view.firing
    if firing == OnClose():
        return
    if not isinstance(firing, OnTime) or firing.unchanged != "fire":
        raise DefinitionError(
            f"{sink!r} would miss windows: with {firing!r} one may close without a final pane",
            hint="use .trigger(ps.on_close()), or mode='panes'",
        )
    if view.lateness and not isinstance(view.windows, CountBased):
        raise DefinitionError(
            f"{sink!r} would miss windows: with allowed lateness the pane on time is not final, "
            "and a window without late elements fires no other",
            hint="use .trigger(ps.on_close()), or mode='panes'",
        )
    if view.accumulation == "discarding" and firing.early != Never():
        raise DefinitionError(
            f"{sink!r} would get parts of windows: the panes are discarding, and {firing!r} fires early ones",
            hint="use .accumulating(), or mode='panes'",
        )


def _check_update(sink: Sink, view: View) -> None:
    """A window's newest insert must hold all of it, and a window that was shown must not vanish."""
    if view.accumulation == "discarding":
        raise DefinitionError(
            f"{sink!r} would replace a window's value by a part of it: the panes are discarding",
            hint="use .accumulating(), or mode='panes'",
        )
    if isinstance(view.windows, Merging):
        raise DefinitionError(
            f"{sink!r} cannot follow {view.windows!r}: a window that grows becomes another, and the old one would stay",
            hint="use mode='panes' with .retracting(), mode='append', or mode='complete'",
        )
    if view.signed and view.accumulation == "retracting":
        raise DefinitionError(
            f"{sink!r} cannot show that all rows of a window were retracted: only a retraction shows it",
            hint="use .accumulating(), mode='panes', or mode='complete'",
        )


def _check_upsert(sink: Sink, view: View) -> None:
    """A window's newest pane must hold all of it, and one that vanishes must be taken back."""
    if view.accumulation == "discarding":
        raise DefinitionError(
            f"{sink!r} would replace a window's value by a part of it: the panes are discarding",
            hint="use .accumulating() or .retracting(), or mode='panes'",
        )
    if isinstance(view.windows, Merging) and view.accumulation != "retracting":
        raise DefinitionError(
            f"{sink!r} cannot follow {view.windows!r}: a window that grows becomes another, and the old one would stay",
            hint="use .retracting(), or mode='panes'",
        )
