"""What `batch`, `replay`, `replace` and `rollback` share: an app that runs or one of our own, and a bar."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TypeAlias

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from penstock.app import App
from penstock.cli import figures as fig
from penstock.cli.load import load_app
from penstock.cli.options import output
from penstock.cli.start import quietly
from penstock.control import Client, Reply
from penstock.control.remembered import restore
from penstock.control.works import reply_of
from penstock.errors import PenstockError
from penstock.history.batch.generation import OnProgress, Outcome
from penstock.history.batch.generation import Progress as Far
from penstock.model.view import View
from penstock.runtime.derived.epochs import waiting
from penstock.runtime.run import Run
from penstock.store import SqlStore, open_store

File: TypeAlias = Annotated[
    Path | None,
    typer.Option("--file", "-f", help="The app's file, where the app does not run: Python or SQL.", metavar="APP"),
]


class Bar:
    """How far generations are: what is read of what is known, and how long the rest may take."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._tasks: dict[str, TaskID] = {}
        self._phases: dict[str, str] = {}
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"),
            TimeElapsedColumn(), TimeRemainingColumn(), console=console, transient=True,
        )  # fmt: skip

    def __enter__(self) -> OnProgress:
        if self._console.is_terminal:
            self._bar.start()
        return self._hear

    def __exit__(self, *error: object) -> None:
        if self._console.is_terminal:
            self._bar.stop()

    def _hear(self, far: Far) -> None:
        description = f"{far.view}: {far.phase}" + (f" {fig.number(far.rows)} events" if far.rows else "")
        if not self._console.is_terminal:
            return
        if self._phases.get(far.view) != far.phase:  # each phase is estimated by itself
            self._phases[far.view] = far.phase
            if far.view in self._tasks:
                self._bar.remove_task(self._tasks.pop(far.view))
            self._tasks[far.view] = self._bar.add_task(description, total=1.0)
        self._bar.update(self._tasks[far.view], completed=far.share, description=description)


def done(
    task: str, arguments: Mapping[str, object], directory: Path, file: Path | None, master: str, debug: bool,
    work: Callable[[Run, OnProgress], Iterable[Outcome]],
) -> None:  # fmt: skip
    """Has the app that runs in a directory do a task; does it here if none runs. Shows what became of it."""
    console, client = output(), Client(directory)
    if client.is_there:
        with Bar(console) as hear:
            show(client.watch(task, arguments, hear))
        client.close()
        return
    if file is None:
        raise PenstockError(f"no app runs in '{directory}'", hint="start it, or say what it is: --file app.py")
    with stopped(load_app(file), directory, console, master, debug) as run, Bar(console) as hear:
        show(reply_of(list(work(run, hear))))


@contextmanager
def stopped(
    app: App, directory: Path, console: Console, master: str, debug: bool,
    definitions: Callable[[SqlStore], Mapping[str, View]] = lambda _: {},
) -> Iterator[Run]:  # fmt: skip
    """A run of an app that is stopped. It reads nothing new and delivers nothing: panes wait in the outbox.

    `definitions` are those that some views still have in the store.
    """
    store = open_store(directory)
    store.lock()
    try:
        restored = restore(app, store.catalog())
        known = store.views()
        app.sinks = {}
        app.views = {name: view for name, view in {**app.views, **definitions(store)}.items() if name in known}
        with quietly(directory, console, debug):
            run = Run(
                app.name, waiting(app.streams), app.views, directory, master=master, store=store,
                resting=sorted(restored.resting & app.views.keys()), placements=app.placements,
            )  # fmt: skip
    except BaseException:
        store.close()
        raise
    try:
        yield run
    finally:
        run.stop()


def show(reply: Reply) -> None:
    """What became of generations."""
    if not reply.rows:
        output().print(reply.message, markup=False)
        return
    table = Table(*reply.columns[:2], box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for title in reply.columns[2:]:
        table.add_column(title, justify="right")
    for view, kind, *numbers in reply.rows:
        table.add_row(str(view), str(kind), *(fig.number(n) if isinstance(n, int) else "–" for n in numbers))
    output().print(table)
