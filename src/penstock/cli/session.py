"""Statements on the command line: who answers each, and how it is shown."""

from __future__ import annotations

import re
from pathlib import Path
from time import perf_counter

from rich.console import Console

from penstock.cli.answers import Format, Printer, Ticker
from penstock.cli.apart import apart
from penstock.control import Client, NoApp, Panes, Reply, ask
from penstock.control.dropping import no_longer_defined
from penstock.errors import PenstockError
from penstock.sql import Statement, parse
from penstock.sql import statements as sql
from penstock.store import Reader


class Session:
    """Asks the store in this process, and has the app that runs in the directory do the rest."""

    def __init__(self, directory: Path, console: Console, format: Format, *, timing: bool = False) -> None:
        self.reader, self.client = Reader(directory), Client(directory)
        self.reader.check()
        self.console, self.printer = console, Printer(console, format, timing=timing)
        self.last: sql.Question | None = None

    def text(self, text: str, file: str | None = None) -> None:
        """Runs the statements of a text, once all of them are read."""
        for statement in parse(text, file):
            self.run(statement)

    def run(self, statement: Statement) -> None:
        """Runs one statement and prints its answer."""
        started = perf_counter()
        if isinstance(statement, sql.Question):
            asked = statement
            answer = apart(lambda: ask(self.reader, asked))
            self.last = statement
            self.printer.answer(answer, perf_counter() - started)
        elif isinstance(statement, sql.Subscribe):
            self._subscribe(statement)
        else:
            self._show(self._reply(statement), perf_counter() - started)

    def close(self) -> None:
        self.client.close()
        self.reader.close()

    def _show(self, reply: Reply, seconds: float) -> None:
        if reply.columns:
            self.printer.rows(reply.columns, reply.rows, seconds)
        if reply.message:
            self.printer.message(reply.message, seconds)

    def _reply(self, statement: Statement) -> Reply:
        try:
            return self.client.ask(_placed(statement), statement.source.file)
        except NoApp:
            stored = self._from_store(statement)
            if stored is None:
                raise
            return stored

    def _from_store(self, statement: Statement) -> Reply | None:
        """What the store knows of views, where no app can be asked."""
        try:
            views = {entry.name: entry for entry in apart(self.reader.catalog) if entry.kind == "view"}
        except PenstockError:
            return None
        if isinstance(statement, sql.Show) and statement.what == "VIEWS":
            gone = no_longer_defined(self.reader)
            rows = [
                (name, "not defined" if name in gone else "stopped", definition)
                for name, definition in self.reader.views().items()
            ]
            return Reply(("view", "state", "definition"), tuple(rows))
        if isinstance(statement, sql.Describe) and statement.name.text in views:
            return Reply(("column", "type"), views[statement.name.text].columns)
        return None

    def _subscribe(self, statement: sql.Subscribe) -> None:
        """Prints panes until Ctrl-C."""
        panes, count = apart(lambda: Panes(self.reader, statement)), 0
        ticker = Ticker(self.console, self.printer.format, panes.columns)
        follow = panes.follow()
        try:
            while True:
                rows = apart(lambda: next(follow))
                count += len(rows)
                ticker.print(rows)
        except KeyboardInterrupt:
            self.printer.message(f"ended after {count} row{'' if count == 1 else 's'}")


def _placed(statement: Statement) -> str:
    """A statement with as many lines and columns before it as in its text: errors then name the right place."""
    before = statement.source.text[: statement.whole.start]
    *lines, line = re.sub(r"[^\n]", " ", before).split("\n")
    return "\n" * len(lines) + line + statement.text
