"""One run through a script: an app, the events and the time that it was fed, and what comes out of its views."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal, TypeAlias

from penstock.app import App
from penstock.errors import DefinitionError, PenstockError, unknown
from penstock.model.stream import Stream
from penstock.model.table import Table
from penstock.model.time import Instant
from penstock.model.view import View
from penstock.scripts.follow import Following
from penstock.scripts.judge import judge
from penstock.scripts.questions import ask, explain
from penstock.sql import statements as sql
from penstock.sql.answers import Answer, answer, subscription
from penstock.sql.catalog import define
from penstock.sql.constants import value
from penstock.sql.errors import Piece
from penstock.sql.history import refuse_history
from penstock.sql.inserts import inserted
from penstock.sql.read import parse
from penstock.testing import DAY, Result, Step, TestStream, start
from penstock.testing import Engine as Runner

Engine: TypeAlias = Literal["reference", "kernel", "spark"]


class Play:
    """One run through a script: an app, what was fed to it so far, and what its panes were asserted up to."""

    def __init__(self, engine: Engine = "kernel", folder: Path | None = None) -> None:
        self.app = App("script")
        self.engine, self.folder = engine, folder
        self.assertions = 0
        self._steps: tuple[Step, ...] = ()
        self._start: Instant = DAY
        self._seen: dict[tuple[str, str], int] = {}
        self._following: dict[str, Following] = {}

    def do(self, statement: sql.Statement) -> Answer | None:
        """Runs one statement; the answer, if it asks something."""
        match statement:
            case sql.Question():
                columns, rows = self.ask(statement)
                return Answer(tuple(columns), tuple(rows))
            case sql.Explain(statement=sql.Question() as asked):
                return Answer(("plan",), tuple((line,) for line in explain(asked, self.app.views)))
            case sql.Show() | sql.ShowCreate() | sql.Describe() | sql.Explain():
                return answer(self.app, statement)
            case sql.Subscribe():
                subscription(self.app, statement)
            case sql.History():
                raise refuse_history(statement)
            case sql.Insert():
                self._insert(statement)
            case sql.AdvanceWatermark():
                name = None if statement.stream is None else self._source(statement, statement.stream)
                if statement.to is None:
                    self._then(self._script().end(name))
                else:
                    with statement.source.at(statement.to):
                        to = value(statement.source, statement.to)
                        self._then(self._script().watermark(to, name))  # type: ignore[arg-type]
            case sql.AdvanceClock():
                with statement.source.at(statement.to or statement.whole):
                    by = f"+{statement.by} microseconds"
                    to = by if statement.to is None else value(statement.source, statement.to)
                    self._then(self._script().clock(to))  # type: ignore[arg-type]
            case sql.StartClock():
                if self._steps:
                    raise statement.source.error("the clock is already running: use ADVANCE CLOCK", statement.whole)
                with statement.source.at(statement.at):
                    self._start = TestStream(clock=value(statement.source, statement.at)).start  # type: ignore[arg-type]
            case sql.Step():
                script = self._script()
                steps = {"RESTART": script.restart, "BACKLOG": script.backlog, "CAUGHT UP": script.caught_up}
                self._then(steps[statement.what]())
            case sql.Assert():
                self._assert(statement)
            case sql.Load():
                self._load(statement)
            case _:
                define(self.app, statement, without_log=True)
        return None

    # events and time

    def _script(self) -> TestStream:
        return TestStream(*self.app.streams.values(), clock=self._start, steps=self._steps)

    def _then(self, script: TestStream) -> None:
        self._steps = script.steps

    def _source(self, statement: sql.Statement, name: Piece) -> str:
        if name.text not in self.app.streams:
            raise statement.source.placed(unknown("stream", name.text, self.app.streams), name, {})
        return name.text

    def _insert(self, statement: sql.Insert) -> None:
        if statement.stream.text in self.app.tables:
            self._insert_rows(statement, self.app.tables[statement.stream.text])
            return
        name = self._source(statement, statement.stream)
        added = self._script().add(to=name).steps[-1]
        self._steps = (*self._steps, replace(added, rows=tuple(inserted(self.app.streams[name], statement))))

    def _insert_rows(self, statement: sql.Insert, table: Table) -> None:
        """A table has these rows too from here on."""
        rows = [row for _, row in inserted(Stream(table.name, table.schema), statement)]
        known = [step for step in self._steps if step.kind == "table" and step.stream == table.name]
        rows = [*(row for _, row in known[-1].rows), *rows] if known else rows
        with statement.source.at(statement.stream):
            self._then(self._script().table(table, *rows))

    def _load(self, statement: sql.Load) -> None:
        path = (self.folder or Path()) / statement.path.text
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, ValueError):
            raise statement.source.error(f"there is no file '{statement.path.text}'", statement.path) from None
        for other in parse(text, path.name):
            define(self.app, other, without_log=True)

    # what comes out

    def result(self, view: str) -> Result:
        """What a view did with everything so far."""
        definition = self.app.views[view]
        following = self._following.get(view)
        if following is None or following.view is not definition:
            following = self._following[view] = Following(definition, self.start(definition))
        try:
            return following.follow(self._script())
        except DefinitionError:
            raise
        except Exception as error:
            raise _failed(view, definition, error) from error

    def start(self, view: View) -> Runner:
        """A fresh engine for a view."""
        return start(view, self.engine)

    def ask(self, question: sql.Question) -> tuple[list[str], list[tuple[object, ...]]]:
        """The answer to a SELECT over the views, as the store would give it: the columns and the rows."""
        return ask(question, self.app.views, self._script().now, lambda view: self.result(view).table)

    def _assert(self, statement: sql.Assert) -> None:
        self.assertions += 1
        if statement.question is not None:
            names, answers = self.ask(statement.question)
            judge(statement, names, [list(row) for row in answers])
            return
        source, view = statement.source, statement.view
        if view.text not in self.app.views:
            raise source.placed(unknown("view", view.text, self.app.views), view, {})
        rows, names = self._rows(statement.what, view.text)
        for column in statement.columns:
            if column.text not in names:
                raise source.placed(unknown("column", column.text, names), column, {})
        hidden = {"TABLE": {"final"}, "PANES": {"commit", "final"}}.get(statement.what, set())
        columns = [column.text for column in statement.columns] or [name for name in names if name not in hidden]
        judge(statement, columns, [[row.get(name) for name in columns] for row in rows])

    def _rows(self, what: str, view: str) -> tuple[list[dict[str, object]], list[str]]:
        """Rows to be asserted, and their columns. Panes and refused rows are those since they were last asserted."""
        result, definition = self.result(view), self.app.views[view]
        if what == "TABLE":
            return result.table, list(definition.columns)
        rows = {"PANES": result.panes, "LATE": result.late, "DUPLICATES": result.duplicates, "DEAD": result.dead}[what]
        fresh = rows[self._seen.get((what, view), 0) :]
        self._seen[what, view] = len(rows)
        return fresh, _columns(what, definition)


def _failed(name: str, view: View, error: Exception) -> PenstockError:
    """The error of one test for whatever happens while a view runs: the other tests go on."""
    if isinstance(error, PenstockError):
        return PenstockError(f"the view '{name}' fails: {error.message}", detail=error.detail, hint=error.hint)
    what = f"{type(error).__name__}: {error}".splitlines()[0][:300]
    expressions = "', '".join(view.expressions)
    return PenstockError(f"the view '{name}' fails: {what}", detail=f"its expressions are '{expressions}'")


def _columns(what: str, view: View) -> list[str]:
    if what == "PANES":
        return ["commit", *view.columns[:-1], "kind", "timing", "index", "final"]
    names = dict.fromkeys(name for source in view.input.sources for name in source.schema.names if name[:2] != "__")
    return [*names, "reason"]
