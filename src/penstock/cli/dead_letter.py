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
from penstock.history.events.dead import dead_letters
from penstock.history.events.event_history import EventHistory
from penstock.store import Reader

dead_letter = typer.Typer(
    name="dead-letter",
    help="List, show and retry dead letters: rows that a stream has rejected.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
Stream: TypeAlias = Annotated[str, typer.Argument(help="The stream.", metavar="STREAM")]
Where: TypeAlias = Annotated[
    str | None,
    typer.Option("--where", help="Only these, by reason, row, commit, partition, offset or at.", metavar="CONDITION"),
]


@dead_letter.command("list")
def list_all(directory: Directory = DIRECTORY, debug: Debug = False) -> None:
    """Count the dead letters of each stream, by reason."""
    with errors_shown(debug):
        events = EventHistory(Reader(directory))
        table = Table("stream", box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
        table.add_column("rows", justify="right")
        table.add_column("reason")
        for stream in sorted(events.store.listing().kept):
            counts = dead_letters(events, stream).group_by("reason").agg(pl.len().alias("rows"))
            for reason, rows in counts.sort("rows", "reason", descending=[True, False]).iter_rows():
                table.add_row(stream, fig.number(rows), reason)
        output().print(table if table.row_count else "no dead letters")


@dead_letter.command()
def show(
    stream: Stream,
    where: Where = None,
    limit: Annotated[int, typer.Option("--limit", help="Maximum number of rows.", metavar="N")] = 20,
    directory: Directory = DIRECTORY,
    format: Annotated[Format, typer.Option("--format", help="Output format.")] = Format.table,
    debug: Debug = False,
) -> None:
    """Show the newest dead letters of a stream."""
    with errors_shown(debug):
        found = dead_letters(EventHistory(Reader(directory)), stream, where).tail(limit)
        Printer(output(), format).frame(found.drop("raw", "rest", "extent"))


@dead_letter.command()
def retry(
    stream: Stream,
    where: Where = None,
    app: Annotated[
        Path | None,
        typer.Option("--app", help="The app, Python or SQL, if it is not running.", metavar="APP"),
    ] = None,
    directory: Directory = DIRECTORY,
    master: Master = "local[*]",
    debug: Debug = False,
) -> None:
    """Retry dead letters, in one epoch. Those that fail again stay, with the new reason."""
    with errors_shown(debug):
        client = Client(directory)
        if client.is_there:
            ((rows, dead),) = client.do("retry", stream=stream, where=where).rows
            client.close()
        elif app is None:
            raise PenstockError(f"no app runs in '{directory}'", hint="start it, or say which app it is: --app app.py")
        else:
            rows, dead = _retried(app, directory, stream, where, master, debug)
        passed = int(str(rows)) - int(str(dead))
        said = f"{fig.number(int(str(rows)))} dead letters of '{stream}' fed in again: {fig.number(passed)} count now"
        output().print(f"{said}, {fig.number(int(str(dead)))} failed again", markup=False)


def _retried(app: Path, directory: Path, stream: str, where: str | None, master: str, debug: bool) -> tuple[int, int]:
    """The same with the app's definitions of now, without reading its logs."""
    Reader(directory).listing()  # refuses a directory without a store
    running = start(load_app(app), directory, output(), master=master, debug=debug)
    try:
        found = running.run.retry_dead_letters(stream, where)
    finally:
        running.stop()
    return found.rows, found.dead
