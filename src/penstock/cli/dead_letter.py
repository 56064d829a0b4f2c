"""The commands of `dead-letter`: list, show, retry."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import polars as pl
import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from penstock.cli import figures as fig
from penstock.cli.answers import Format, Printer
from penstock.cli.load import load_app
from penstock.cli.options import DIRECTORY, Debug, Directory, Master, errors_shown, output
from penstock.cli.start import start
from penstock.control.client import Client
from penstock.errors import PenstockError
from penstock.history.events.dead import all_letters, dead_letters
from penstock.history.events.event_history import EventHistory
from penstock.runtime.dead_letters import RetryCounts
from penstock.store import Reader

dead_letter = typer.Typer(
    name="dead-letter",
    help="List, show and retry dead letters: rows that were rejected, or on which code failed.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
Name: TypeAlias = Annotated[str, typer.Argument(help="The stream, operator, view or sink.", metavar="NAME")]
Where: TypeAlias = Annotated[
    str | None,
    typer.Option("--where", help="Only these, by reason, row, commit, partition, offset or at.", metavar="CONDITION"),
]


@dead_letter.command("list")
def list_all(directory: Directory = DIRECTORY, debug: Debug = False) -> None:
    """Count the dead letters of each stream, by operator and reason."""
    with errors_shown(debug):
        events = EventHistory(Reader(directory))
        table = Table("stream", "operator", box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
        table.add_column("rows", justify="right")
        table.add_column("reason")
        counts = all_letters(events).group_by("stream", "operator", "reason").agg(pl.len().alias("rows"))
        counts = counts.sort("stream", "operator", "rows", "reason", descending=[False, False, True, False])
        for stream, operator, reason, rows in counts.iter_rows():
            table.add_row(stream, operator, fig.number(rows), reason)
        output().print(table if table.row_count else "no dead letters")


@dead_letter.command()
def show(
    name: Name,
    where: Where = None,
    limit: Annotated[int, typer.Option("--limit", help="Maximum number of rows.", metavar="N")] = 20,
    directory: Directory = DIRECTORY,
    format: Annotated[Format, typer.Option("--format", help="Output format.")] = Format.table,
    debug: Debug = False,
) -> None:
    """Show the newest dead letters of a stream, operator, view or sink."""
    with errors_shown(debug):
        letters = dead_letters(EventHistory(Reader(directory)), name, where).tail(limit)
        Printer(output(), format).frame(letters.drop("raw", "rest", "extent"))


@dead_letter.command()
def retry(
    name: Name,
    where: Where = None,
    app: Annotated[
        Path | None,
        typer.Option("--app", help="The app, Python or SQL, if it is not running.", metavar="APP"),
    ] = None,
    directory: Directory = DIRECTORY,
    master: Master = "local[*]",
    debug: Debug = False,
) -> None:
    """Retry dead letters where they failed, in one epoch. Those that fail again stay, with the new reason."""
    with errors_shown(debug):
        client = Client(directory)
        if client.is_there:
            (counts,) = client.do("retry", of=name, where=where).rows
            retried = RetryCounts(*(int(str(count)) for count in counts))
            client.close()
        elif app is None:
            raise PenstockError(f"no app runs in '{directory}'", hint="start it, or say which app it is: --app app.py")
        else:
            retried = _retried(app, directory, name, where, master, debug)
        passed = fig.number(retried.rows - retried.dead - retried.late)
        message = f"{fig.number(retried.rows)} dead letters of '{name}' retried: {passed} succeeded"
        late = f", {fig.number(retried.late)} are late by now" if retried.late else ""
        output().print(f"{message}{late}, {fig.number(retried.dead)} failed again", markup=False)


def _retried(app: Path, directory: Path, name: str, where: str | None, master: str, debug: bool) -> RetryCounts:
    """The same with the app's current definitions, without reading its logs."""
    Reader(directory).listing()  # refuses a directory without a store
    running = start(load_app(app), directory, output(), master=master, debug=debug)
    try:
        return running.run.retry_dead_letters(name, where)
    finally:
        running.stop()
