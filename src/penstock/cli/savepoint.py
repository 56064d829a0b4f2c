"""The commands of `savepoint`: create, list, restore, drop. None needs Spark; an app goes on while they work."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from penstock.app import App
from penstock.cli import figures as fig
from penstock.cli.load import load_app
from penstock.cli.options import DIRECTORY, Debug, Directory, errors_shown, output
from penstock.control import address
from penstock.history import savepoints
from penstock.history.savepoints import Savepoint
from penstock.model.time import BEGINNING, END

savepoint = typer.Typer(
    name="savepoint",
    help="Take and restore savepoints: consistent snapshots of an app's store, offsets and definitions.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
Name: TypeAlias = Annotated[str, typer.Argument(help="The savepoint's name.", metavar="NAME")]


@savepoint.command()
def create(
    name: Name,
    directory: Directory = DIRECTORY,
    to: Annotated[
        Path | None, typer.Option("--to", help="Write it to this path, not into the app's directory.", metavar="PATH")
    ] = None,
    debug: Debug = False,
) -> None:
    """Take a savepoint, also while the app runs."""
    with errors_shown(debug):
        running = address.read(directory)
        made = savepoints.create(directory, name, to=to, app=None if running is None else running.app)
        where = f"savepoint '{name}' of commit {fig.number(made.commit)}: {fig.show_bytes(made.size)} in {made.path}"
        output().print(where, markup=False)


@savepoint.command("list")
def list_all(directory: Directory = DIRECTORY, debug: Debug = False) -> None:
    """List an app's savepoints, oldest first."""
    with errors_shown(debug):
        table = Table("name", "when", box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
        for title in ("commit", "size"):
            table.add_column(title, justify="right")
        table.add_column("watermark")
        for name, taken in savepoints.listed(directory):
            if taken is None:
                table.add_row(name, "damaged", "–", "–", "–")
            else:
                when, mark = fig.show_mark(taken.made), fig.show_mark(_watermark(taken))
                table.add_row(name, when, fig.number(taken.commit), fig.show_bytes(taken.size), mark)
        output().print(table if table.row_count else "no savepoints")


@savepoint.command()
def drop(name: Name, directory: Directory = DIRECTORY, debug: Debug = False) -> None:
    """Remove a savepoint."""
    with errors_shown(debug):
        savepoints.drop(name, directory)
        output().print(f"dropped the savepoint '{name}'", markup=False)


@savepoint.command()
def restore(
    name: Name,
    directory: Directory = DIRECTORY,
    path: Annotated[
        Path | None,
        typer.Option("--from", help="Path of the savepoint, or of another app's directory.", metavar="PATH"),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace existing state; it is moved aside.")] = False,
    app: Annotated[
        Path | None,
        typer.Option(
            "--app",
            help="The app that will run, Python or SQL: its views are compared with the savepoint's.",
            metavar="APP",
        ),
    ] = None,
    drops: Annotated[
        list[str] | None, typer.Option("--drop", help="Drop the state of this view.", metavar="VIEW")
    ] = None,
    rewind: Annotated[
        bool,
        typer.Option("--rewind-sinks", help="Move away sink files that were written after the savepoint."),
    ] = False,
    trust: Annotated[bool, typer.Option("--trust", help="Trust the Python code in another app's savepoint.")] = False,
    debug: Debug = False,
) -> None:
    """Restore a savepoint into a directory in which no app runs; `penstock run` resumes from it."""
    with errors_shown(debug):
        taken, dropped = savepoints.find(name, directory, path), drops or []
        if app is None and rewind:
            raise typer.BadParameter("say whose sinks: --app APP", param_hint="--rewind-sinks")
        loaded = None if app is None else load_app(app)
        if loaded is not None:
            _compare(taken, loaded, dropped)
            if not rewind:
                savepoints.refuse_ahead(taken, loaded.sinks)
        aside = savepoints.restore(taken, directory, force=force, drop=dropped, trust=trust)
        if aside is not None:
            output().print(f"the state that was there lies in {aside}", markup=False)
        if loaded is not None and rewind:
            for sink, count in savepoints.rewind(taken, loaded.sinks).items():
                output().print(f"the sink '{sink}': {fig.number(count)} files moved away", markup=False)
        at = f"commit {fig.number(taken.commit)}, taken {fig.show_mark(taken.made)}"
        output().print(f"restored '{name}' into {directory}: {at}", markup=False)


def _compare(taken: Savepoint, app: App, dropped: list[str]) -> None:
    """Says what becomes of each view and stream; refuses before anything is touched."""
    verdicts = savepoints.compare(taken, app.views, dropped)
    table = Table("view", "state", "", box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for verdict in verdicts:
        table.add_row(verdict.view, "fits" if verdict.goes_on else "does not fit", Text(verdict.explanation))
    output().print(table)
    for stream in sorted(app.streams.keys() - taken.streams.keys()):
        output().print(f"the stream '{stream}' is new: it is read from where its log begins", markup=False)
    savepoints.refuse_changed(taken, verdicts)


def _watermark(taken: Savepoint) -> int | None:
    """The watermark of the view that is furthest behind, of those that have one."""
    marks = (view.watermark for view in taken.views.values())
    return min((mark for mark in marks if mark is not None and BEGINNING < mark < END), default=None)
