"""A script: events and time for streams, step by step, as the commits that a view takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, Literal, TypeAlias

from penstock.errors import DefinitionError, unknown
from penstock.model.column_values import fit_column
from penstock.model.commits import Commit, Event
from penstock.model.stream import Stream
from penstock.model.table import Table
from penstock.model.table_rows import check_rows
from penstock.model.time import END, SCRIPT_DAY, Instant, duration, instant

#: When the clock of a script starts.
DAY: Instant = SCRIPT_DAY

#: The steps that are commits.
_COMMITS: Final = ("add", "watermark", "clock")

ScriptRow: TypeAlias = Mapping[str, object] | Sequence[object]


@dataclass(frozen=True)
class Step:
    """One line of a script."""

    kind: Literal["add", "watermark", "clock", "restart", "backlog", "caught up", "table"]
    stream: str | None = None
    rows: tuple[tuple[int, Mapping[str, object]], ...] = ()  # partition, row
    to: Instant = 0
    also: bool = False  # in the commit of the step before


@dataclass(frozen=True)
class TestStream:
    """A script of events and of time, for one stream or several.

    `add`, `watermark`, `clock` and `end` are a commit each. After `also` they belong to the commit before:
    `script.add(("/a", "12:00:05")).also.clock("+10 seconds")`.
    """

    __test__ = False

    streams: tuple[Stream, ...]
    steps: tuple[Step, ...] = ()
    start: Instant = DAY
    continues: bool = False  # the next step belongs to the commit of the last one

    def __init__(
        self,
        *streams: Stream,
        clock: str | datetime | int = DAY,
        steps: tuple[Step, ...] = (),
        continues: bool = False,
    ) -> None:
        for stream in streams:
            if not isinstance(stream, Stream):
                raise DefinitionError(
                    f"TestStream takes streams, not {stream!r}",
                    hint="pass the ps.stream(…) itself, not a stream derived from it",
                )
        object.__setattr__(self, "streams", streams)
        object.__setattr__(self, "steps", steps)
        object.__setattr__(self, "start", instant(clock, day=DAY))
        object.__setattr__(self, "continues", continues)

    @property
    def also(self) -> TestStream:
        """The next line belongs to the same commit: events of another stream, a watermark, or the time of the commit.

        A commit has one time. Its events are taken at that time, whichever line stands first.
        """
        if not self.steps or self.steps[-1].kind not in _COMMITS:
            raise DefinitionError(
                "also follows a line that is a commit", hint="for example add(…).also.clock('+10 seconds')"
            )
        return TestStream(*self.streams, clock=self.start, steps=self.steps, continues=True)

    def add(self, *rows: ScriptRow, to: str | None = None, partition: int = 0) -> TestStream:
        """Events of one epoch: dictionaries, or values in the order of the columns. `to` names the stream.

        A row may name its own partition in the entry `partition` if the stream has no column of that name.
        """
        stream = self.stream_of(to)
        return self._then(Step("add", stream.name, tuple(_row(stream, row, partition) for row in rows)))

    def watermark(self, to: str | datetime | int, stream: str | None = None) -> TestStream:
        """The source says: no more events older than this. Without a stream: all of them say so."""
        if stream is not None:
            self.stream_of(stream)
        return self._then(Step("watermark", stream, to=instant(to, day=DAY)))

    def end(self, stream: str | None = None) -> TestStream:
        """The input has ended, as with `penstock run --drain`: the watermark goes to the end of time."""
        if stream is not None:
            self.stream_of(stream)
        return self._then(Step("watermark", stream, to=END))

    def clock(self, to: str | datetime | timedelta) -> TestStream:
        """Time passes without events: to an instant, or by a duration ('+10 seconds')."""
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

    def table(self, table: Table, *rows: ScriptRow) -> TestStream:
        """From here on a table has these rows, and no others."""
        values = tuple((0, _row(table, row, 0)[1]) for row in rows)
        check_rows(table, [tuple(row.values()) for _, row in values])
        return self._then(Step("table", table.name, values))

    @property
    def now(self) -> Instant:
        """The clock after the last step."""
        return max((self.start, *(step.to for step in self.steps if step.kind == "clock")))

    @property
    def fed(self) -> set[str]:
        """The streams that the script adds events to."""
        return {step.stream for step in self.steps if step.kind == "add" and step.stream is not None}

    def commits(self) -> Iterator[Commit | None]:
        """The script as commits; None stands for a restart."""
        now, caught_up, resumed = self.start, True, False
        offsets: dict[tuple[str, int], int] = {}
        tables: dict[str, tuple[tuple[object, ...], ...]] = {}
        commit: Commit | None = None
        for step in self.steps:
            if commit is not None and not step.also:
                yield commit
                commit = None
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
            if commit is None:
                commit = Commit(now, caught_up=caught_up, resumed=resumed, tables=tables)
                resumed, tables = False, {}
            if step.kind == "add":
                assert step.stream is not None
                events = []
                for partition, row in step.rows:
                    offset = offsets.get((step.stream, partition), 0)
                    offsets[step.stream, partition] = offset + 1
                    events.append(Event(step.stream, row, partition, offset))
                commit = replace(commit, events=(*commit.events, *events))
            elif step.kind == "watermark":
                names = [stream.name for stream in self.streams] if step.stream is None else [step.stream]
                commit = replace(commit, fixed={**commit.fixed, **dict.fromkeys(names, step.to)})
            else:
                now = max(now, step.to)
                commit = replace(commit, now=now)
        if commit is not None:
            yield commit

    def stream_of(self, name: str | None) -> Stream:
        """The stream of this name; without one, the only stream of the script."""
        if name is None:
            if len(self.streams) != 1:
                raise DefinitionError(
                    "which stream?", hint="write add(…, to='name') where a script has several streams"
                )
            return self.streams[0]
        for stream in self.streams:
            if stream.name == name:
                return stream
        raise unknown("stream", name, [stream.name for stream in self.streams])

    def _then(self, step: Step) -> TestStream:
        if self.continues and step.kind not in _COMMITS:
            raise DefinitionError(
                f"'{step.kind}' is no part of a commit", hint="add, watermark, clock or end may follow also"
            )
        return TestStream(*self.streams, clock=self.start, steps=(*self.steps, replace(step, also=self.continues)))


def check_script(script: object) -> None:
    """Rejects what is not a script, with an example of one."""
    if not isinstance(script, TestStream):
        raise DefinitionError(
            f"not a script: {script!r}", hint='write one: TestStream(stream).add(("/a", "12:00:05")).watermark("12:01")'
        )


def _row(stream: Stream | Table, row_values: ScriptRow, partition: int) -> tuple[int, Mapping[str, object]]:
    names = stream.schema.names
    if isinstance(row_values, Mapping):
        row = {str(name): value for name, value in row_values.items()}
        if "partition" in row and "partition" not in stream.schema:
            partition = int(str(row.pop("partition")))
    else:
        if isinstance(row_values, str) or len(row_values) > len(names):
            raise DefinitionError(
                f"not a row of '{stream.name}': {row_values!r}", detail=f"its columns are {', '.join(names)}"
            )
        row = dict(zip(names, row_values, strict=False))
    values = {stream.schema.find(name): value for name, value in row.items()}
    return partition, {name: fit_column(name, values.get(name), kind, DAY) for name, kind in stream.schema}
