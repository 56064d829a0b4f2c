"""Test a view in milliseconds: feed it events, move the watermark and the clock, restart it, and look at its panes.

>>> import penstock as ps
>>> from penstock.testing import TestStream, run
>>> visits = ps.stream("visits", schema="page string, at timestamp", event_time="at",
...                    watermark=ps.bounded("10 seconds"))
>>> views = visits.group_by("page").window(ps.fixed("1 minute")).agg(n=ps.count())
>>> script = (TestStream(visits)
...           .add(("/a", "12:00:10"), ("/b", "12:00:20"), ("/a", "12:00:30"))
...           .watermark("12:01:00"))
>>> print(run(views, script))
commit  page  window_start  window_end  n  kind    timing   index  final
     2  /a    12:00:00      12:01:00    2  insert  on time      0  true
     2  /b    12:00:00      12:01:00    1  insert  on time      0  true
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from penstock.errors import DefinitionError, unknown
from penstock.model.chain import chained
from penstock.model.changes import origins
from penstock.model.column_values import fit_column
from penstock.model.commits import Commit, Event, Pane, Refused, TableRow
from penstock.model.join import join_behind
from penstock.model.join_played import JoinPlayed, join_played, with_joins
from penstock.model.loops import Iteration
from penstock.model.played import Played, played
from penstock.model.process import Processed, process_of
from penstock.model.processor import Processor
from penstock.model.reference import Reference
from penstock.model.stream import Flow, Stream
from penstock.model.table import Table
from penstock.model.table_rows import check_rows
from penstock.model.time import BEGINNING, END, SCRIPT_DAY, Instant, duration, instant, to_datetime
from penstock.model.view import View
from penstock.model.windows import Counted
from penstock.text_table import text_table, value_text

if TYPE_CHECKING:
    from penstock.learning.played import Learned
    from penstock.runtime.derived.loops.local import LoopPlayed
    from penstock.topology.builder import TopologyBuilder
    from penstock.topology.local import Played as PlayedTopology
    from penstock.topology.streams import Flowing

#: When the clock of a script starts.
DAY: Instant = SCRIPT_DAY

Given: TypeAlias = Mapping[str, object] | Sequence[object]


@dataclass(frozen=True)
class Step:
    """One line of a script."""

    kind: Literal["add", "watermark", "clock", "restart", "backlog", "caught up", "table"]
    stream: str | None = None
    rows: tuple[tuple[int, Mapping[str, object]], ...] = ()  # partition, row
    to: Instant = 0


@dataclass(frozen=True)
class TestStream:
    """A script of events and of time, for one stream or several. Every line but the last four is a commit."""

    __test__ = False

    streams: tuple[Stream, ...]
    steps: tuple[Step, ...] = ()
    start: Instant = DAY

    def __init__(self, *streams: Stream, clock: str | datetime | int = DAY, steps: tuple[Step, ...] = ()) -> None:
        for given in streams:
            if not isinstance(given, Stream):
                raise DefinitionError(
                    f"TestStream takes streams, not {given!r}", hint="give ps.stream(…), not what is made of it"
                )
        object.__setattr__(self, "streams", streams)
        object.__setattr__(self, "steps", steps)
        object.__setattr__(self, "start", instant(clock, day=DAY))

    def add(self, *rows: Given, to: str | None = None, partition: int = 0) -> TestStream:
        """Events of one epoch: dictionaries, or values in the order of the columns. `to` names the stream.

        A row may name its own partition in the entry `partition` if the stream has no column of that name.
        """
        stream = self._stream(to)
        return self._then(Step("add", stream.name, tuple(_row(stream, row, partition) for row in rows)))

    def watermark(self, to: str | datetime | int, stream: str | None = None) -> TestStream:
        """The source says: no more events older than this. Without a stream: all of them say so."""
        if stream is not None:
            self._stream(stream)
        return self._then(Step("watermark", stream, to=instant(to, day=DAY)))

    def end(self, stream: str | None = None) -> TestStream:
        """The input has ended, as with `penstock run --drain`: the watermark goes to the end of time."""
        if stream is not None:
            self._stream(stream)
        return self._then(Step("watermark", stream, to=END))

    def clock(self, to: str | datetime | timedelta) -> TestStream:
        """Time passes without events: to an instant, or by a duration («+10 seconds»)."""
        if isinstance(to, timedelta) or (isinstance(to, str) and to.lstrip().startswith("+")):
            return self._then(
                Step("clock", to=self.now + duration(to.strip().lstrip("+") if isinstance(to, str) else to))
            )
        return self._then(Step("clock", to=instant(to, day=DAY)))

    def restart(self) -> TestStream:
        """The process ends and another takes over from what was committed."""
        return self._then(Step("restart"))

    def backlog(self) -> TestStream:
        """From here on the log holds more than was read: nothing is idle."""
        return self._then(Step("backlog"))

    def caught_up(self) -> TestStream:
        """From here on the log is read to its end."""
        return self._then(Step("caught up"))

    def table(self, table: Table, *rows: Given) -> TestStream:
        """From here on a table has these rows, and no others."""
        values = tuple((0, _row(table, row, 0)[1]) for row in rows)
        check_rows(table, [tuple(row.values()) for _, row in values])
        return self._then(Step("table", table.name, values))

    @property
    def now(self) -> Instant:
        """The clock after the last step."""
        return max((self.start, *(step.to for step in self.steps if step.kind == "clock")))

    def commits(self) -> Iterator[Commit | None]:
        """The script as commits; None stands for a restart. What joins of its streams give are commits too."""
        fed = {step.stream for step in self.steps if step.kind == "add"}
        joins = {one.name: join for one in self.streams if (join := join_behind(one)) and one.name not in fed}
        return with_joins(self._own(), joins)

    def _own(self) -> Iterator[Commit | None]:
        now, caught_up, resumed = self.start, True, False
        offsets: dict[tuple[str, int], int] = {}
        tables: dict[str, tuple[tuple[object, ...], ...]] = {}
        for step in self.steps:
            if step.kind == "table":
                tables[str(step.stream)] = tuple(tuple(row.values()) for _, row in step.rows)
                continue
            if step.kind in ("backlog", "caught up"):
                caught_up = step.kind == "caught up"
                continue
            if step.kind == "restart":
                resumed = True
                yield None
                continue
            commit = Commit(now, caught_up=caught_up, resumed=resumed, tables=tables)
            resumed, tables = False, {}
            if step.kind == "add":
                assert step.stream is not None
                events = []
                for partition, row in step.rows:
                    offset = offsets.get((step.stream, partition), 0)
                    offsets[step.stream, partition] = offset + 1
                    events.append(Event(step.stream, row, partition, offset))
                commit = replace(commit, events=tuple(events))
            elif step.kind == "watermark":
                names = [stream.name for stream in self.streams] if step.stream is None else [step.stream]
                commit = replace(commit, fixed=dict.fromkeys(names, step.to))
            else:
                now = max(now, step.to)
                commit = replace(commit, now=now)
            yield commit

    def _stream(self, name: str | None) -> Stream:
        if name is None:
            if len(self.streams) != 1:
                raise DefinitionError("which stream?", hint="say add(…, to='name') where a script has several streams")
            return self.streams[0]
        for stream in self.streams:
            if stream.name == name:
                return stream
        raise unknown("stream", name, [stream.name for stream in self.streams])

    def _then(self, step: Step) -> TestStream:
        return TestStream(*self.streams, clock=self.start, steps=(*self.steps, step))


class Engine(Protocol):
    """What runs a view, commit by commit."""

    def commit(self, commit: Commit) -> tuple[list[Pane], list[Refused]]: ...
    def table(self) -> list[TableRow]: ...
    def restart(self) -> Engine: ...


@dataclass(frozen=True)
class Fired:
    """A pane, and the number of the commit that fired it (from 1)."""

    commit: int
    pane: Pane


@dataclass(frozen=True)
class Result:
    """What a view did with a script: `panes`, `table`, and the rows that were `late`, `duplicates` or `dead`."""

    view: View
    fired: tuple[Fired, ...]
    rows: tuple[TableRow, ...]
    refused: tuple[Refused, ...]
    lowered: View | None = None  # the same view over columns of which Spark knows the types

    @property
    def panes(self) -> list[dict[str, object]]:
        """The panes in the order in which they fired, as dictionaries."""
        return [
            {
                "commit": fired.commit,
                **self._shown(fired.pane),
                "kind": fired.pane.kind,
                "timing": fired.pane.timing,
                "index": fired.pane.index,
                "final": fired.pane.final,
            }
            for fired in self.fired
        ]

    @property
    def table(self) -> list[dict[str, object]]:
        """The view's table at the end."""
        return [{**self._shown(row), "final": row.final} for row in self.rows]

    @property
    def late(self) -> list[dict[str, object]]:
        """Rows that came after some or all of their windows had closed, with the reason."""
        return self._refused("late")

    @property
    def duplicates(self) -> list[dict[str, object]]:
        """Rows whose id was accepted before."""
        return self._refused("duplicate")

    @property
    def dead(self) -> list[dict[str, object]]:
        """Rows that could not be read or on which an expression failed, with the reason."""
        return self._refused("dead")

    def _shown(self, row: Pane | TableRow) -> dict[str, object]:
        counted = isinstance(self.view.windows, Counted)
        names = self.view.values
        types = self._types()
        return {
            **{k: _shown(v, t) for (k, _), v, t in zip(self.view.keys, row.key, types, strict=False)},
            "window_start": row.window.start if counted else _bound(row.window.start),
            "window_end": row.window.end if counted else _bound(row.window.end),
            **{n: _shown(v, t) for n, v, t in zip(names, row.values, types[len(self.view.keys) :], strict=True)},
        }

    def _types(self) -> list[str]:
        view = self.lowered or self.view
        return [*(view.bound(text).type or "string" for _, text in view.keys), *view.value_types.values()]

    def _refused(self, kind: str) -> list[dict[str, object]]:
        schemas = {source.name: source.schema for source in self.view.input.sources}
        return [
            {
                **{
                    c: _shown(r.event.row.get(c), t)
                    for c, t in schemas[r.event.stream]
                    if r.event.partition >= 0 and not c.startswith("__")
                },
                **(r.event.row if r.event.partition < 0 else {}),  # made by DataFrame code, with columns of its own
                "reason": r.reason,
            }
            for r in self.refused
            if r.kind == kind
        ]

    def __str__(self) -> str:
        return show(self.panes)


def run(view: View, script: TestStream, engine: Literal["reference", "kernel", "spark"] = "kernel") -> Result:
    """Runs a view over a script: on the kernel, on the reference interpreter (the specification), or on Spark."""
    script = _with_joined(view, script)
    missing = {s.name for s in origins(view)} - {s.name for s in script.streams}
    if missing:
        raise DefinitionError(
            f"the script lacks the stream «{min(missing)}»", hint="name it: TestStream(first, second)"
        )
    return replay(view, script, start(view, engine))


def _with_joined(view: View, script: TestStream) -> TestStream:
    """The script with the joins of its streams that a view reads."""
    found = {stream.name: stream for stream in script.streams}

    def take(stream: Stream) -> None:
        join = join_behind(stream)
        if join is not None and stream.name not in found:
            for source in join.inputs:
                take(source)
            if all(source.name in found for source in join.inputs):
                found[stream.name] = stream

    for stream in origins(view):
        take(stream)
    return TestStream(*found.values(), clock=script.start, steps=script.steps)


def process(
    processor: type[Processor] | Processed,
    script: TestStream,
    *,
    by: str | Sequence[str] = (),
    of: Flow | None = None,
    allow_late: str | timedelta = "0 seconds",
) -> Played:
    """Runs a processor over a script, without Spark: its class, with its keys, or what `app.process` gave.

    `of` is the flow that it reads; without it, the one stream of the script.
    """
    if isinstance(processor, Processed):
        return played(processor.process, script.commits())
    keys = (by,) if isinstance(by, str) else tuple(by)
    flow = of if of is not None else script._stream(None)
    return played(process_of(flow, processor, keys, duration(allow_late)), script.commits())


def learn(learned: Stream, script: TestStream | Path | str) -> Learned:
    """Runs a model, as `app.learn` gave its stream, without Spark: over a script, of which each commit is an epoch.

    Or over the directory of an app that ran: again over what the master has, in the epochs that were recorded.
    """
    from penstock.learning.played import learned as learned_of

    found = getattr(learned.log, "learning", None)
    if found is None:
        raise DefinitionError(f"«{learned.name}» is no model's stream", hint="give what app.learn(…) returned")
    if isinstance(script, TestStream):
        return learned_of(found, script.commits())
    from penstock.runtime.derived.learning.again import learned_again

    return learned_again(found, learned.name, Path(script))


def run_topology(
    topology: TopologyBuilder | Flowing, script: TestStream | None = None, *, settle: bool = True, **options: Any
) -> PlayedTopology:
    """Runs a topology without Spark, one task at a time: what `app.topology` gave, or a builder with its options.

    A commit of the script is an epoch. With `settle` epochs follow until no tree is open.
    """
    from penstock.topology.builder import TopologyBuilder
    from penstock.topology.local import play

    made = topology.build("topology", **options) if isinstance(topology, TopologyBuilder) else topology.topology
    return play(made, (script or TestStream().clock("+0 seconds")).commits(), settle=settle)


def join(joined: Stream, script: TestStream) -> JoinPlayed:
    """Runs a join of streams, as `app.join` gave it, over a script, without Spark."""
    found = join_behind(joined)
    if found is None:
        raise DefinitionError(f"«{joined.name}» is no join of streams", hint="give what app.join(…) returned")
    return join_played(found, script.commits())


def iterate(loop: Stream, script: TestStream) -> LoopPlayed:
    """Runs a loop, as `app.iterate` gave it, over a script, without Spark."""
    from penstock.runtime.derived.loops.local import played as loop_played

    found = getattr(loop.log, "iteration", None)
    if not isinstance(found, Iteration):
        raise DefinitionError(f"«{loop.name}» is no loop", hint="give what app.iterate(…) returned")
    return loop_played(found, script.commits())


def start(view: View, engine: str) -> Engine:
    """A fresh engine for a view."""
    if engine == "kernel":
        from penstock.kernel.local import LocalKernel

        return chained(view, LocalKernel)
    if engine == "reference":
        return chained(view, Reference)
    if engine == "spark":
        from penstock.runtime.script import OnSpark

        return OnSpark(view)
    raise unknown("engine", engine, ["kernel", "reference", "spark"])


def replay(view: View, script: TestStream, runner: Engine) -> Result:
    """Runs a script on an engine."""
    fired: list[Fired] = []
    refused: list[Refused] = []
    names = {source.name for source in origins(view)}
    number = 0
    for commit in script.commits():
        if commit is None:
            runner = runner.restart()
            continue
        number += 1
        mine = tuple(event for event in commit.events if event.stream in names)
        panes, turned_away = runner.commit(replace(commit, events=mine))
        fired += [Fired(number, pane) for pane in panes]
        refused += turned_away
    rows = tuple(runner.table())
    return Result(view, tuple(fired), rows, tuple(refused), getattr(runner, "lowered", None))


def show(rows: Sequence[Mapping[str, object]]) -> str:
    """Rows as a table of text; times of the test's day without their date."""
    return text_table(rows, text_of)


def text_of(value: object) -> str:
    """A value as the tests write it."""
    return value_text(value).removeprefix("2000-01-01T") if isinstance(value, datetime) else value_text(value)


def _bound(at: Instant) -> datetime | int | None:
    """A window's bound; microseconds where a datetime cannot express it."""
    try:
        return None if at in (BEGINNING, END) else to_datetime(at)
    except OverflowError:
        return at


def _shown(value: Any, kind: str) -> object:
    """A value of the model as a user expects it: timestamps as datetimes, dates as dates."""
    if value is None:
        return None
    try:
        if kind == "timestamp":
            return to_datetime(value)
        if kind == "date":
            return date(1970, 1, 1) + timedelta(days=value)
    except OverflowError:
        return value  # a year that Python does not know
    if kind.startswith("array<"):
        return [_shown(part, kind[6:-1]) for part in value]
    return value


def _row(stream: Stream | Table, given: Given, partition: int) -> tuple[int, Mapping[str, object]]:
    names = stream.schema.names
    if isinstance(given, Mapping):
        row = {str(name): value for name, value in given.items()}
        if "partition" in row and "partition" not in stream.schema:
            partition = int(str(row.pop("partition")))
    else:
        if isinstance(given, str) or len(given) > len(names):
            raise DefinitionError(
                f"not a row of «{stream.name}»: {given!r}", detail=f"its columns are {', '.join(names)}"
            )
        row = dict(zip(names, given, strict=False))
    values = {stream.schema.find(name): value for name, value in row.items()}
    return partition, {name: fit_column(name, values.get(name), kind, DAY) for name, kind in stream.schema}
