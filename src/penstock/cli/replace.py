"""The commands `replace` and `rollback`: another definition of a view, computed from all of history."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from penstock.cli.generations import Bar, File, done, show, stopped
from penstock.cli.load import load_app
from penstock.cli.options import DIRECTORY, AppFile, AppName, Debug, Directory, Master, errors_shown, output
from penstock.control import Client
from penstock.control.works import reply_of
from penstock.errors import PenstockError, unknown
from penstock.history.batch.runs import SHOWN
from penstock.history.batch.runs import replace as compute
from penstock.history.batch.runs import rollback as go_back
from penstock.model.view import View
from penstock.runtime.commit.definitions import loaded as loaded_definition
from penstock.sql.showing import show as as_sql
from penstock.store import SqlStore


def replace(
    file: AppFile,
    view: Annotated[str, typer.Argument(help="The view to replace.", metavar="VIEW")],
    directory: Directory = DIRECTORY,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show which rows would change.")] = False,
    master: Master = "local[*]",
    app: AppName = None,
    debug: Debug = False,
) -> None:
    """Replace a view by the definition in a file: compute it while the old one keeps answering, then swap."""
    with errors_shown(debug):
        loaded, console = load_app(file, app), output()
        if view not in loaded.views:
            raise unknown("view", view, loaded.views)
        new = loaded.views[view]
        client = Client(directory)
        if client.is_there:
            _by_the_app(client, view, new, dry_run)
            return
        with (
            stopped(loaded, directory, console, master, debug, lambda store: {view: _stored(store, view)}) as run,
            Bar(console) as hear,
        ):
            outcome = compute(run, view, new, dry=SHOWN if dry_run else None, on_progress=hear)
        if outcome.difference is None:
            show(reply_of([outcome]))
        else:
            difference = outcome.difference
            _show_difference(difference.rows.columns, difference.rows.iter_rows(), difference.summary(view))


def rollback(
    view: Annotated[str, typer.Argument(help="Which view.", metavar="VIEW")],
    directory: Directory = DIRECTORY,
    file: File = None,
    master: Master = "local[*]",
    debug: Debug = False,
) -> None:
    """Go back to the previous definition of a view, recomputed from the history."""
    with errors_shown(debug):
        done(
            "rollback", {"view": view}, directory, file, master, debug,
            lambda run, hear: [go_back(run, view, hear)[0]],
        )  # fmt: skip


def _by_the_app(client: Client, name: str, view: View, dry_run: bool) -> None:
    """A definition reaches a running app as SQL: nothing else is ever run there."""
    try:
        text = as_sql(view, name).replace("CREATE ", "CREATE OR REPLACE ", 1)
    except PenstockError as error:
        raise PenstockError(
            f"the view '{name}' cannot be expressed in SQL, which is all that a running app accepts",
            detail=error.message,
            hint="stop the app, replace the view, and start it with the new file",
        ) from error
    with Bar(output()) as hear:
        reply = client.watch("compare", {"sql": text}, hear) if dry_run else client.ask(text, on_progress=hear)
    _show_difference(reply.columns, reply.rows, reply.message)


def _stored(store: SqlStore, view: str) -> View:
    """The definition that a view has in the store."""
    known = store.views()
    if view not in known:
        raise unknown("view of the store", view, known)
    for made in reversed(store.generations_of(view)):
        if made.definition == known[view] and made.pickled is not None:
            return loaded_definition(store.directory, made)
    raise PenstockError(
        f"the store does not hold the definition of '{view}' in a form that can be run",
        hint="start the app once with the old file and this version of Penstock; or drop the view",
    )


def _show_difference(columns: Sequence[str], rows: Iterable[Sequence[object]], message: str) -> None:
    """The rows that would change, and how many there are."""
    output().print(message, markup=False)
    table = Table(*columns, box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for row in rows:
        table.add_row(*("–" if value is None else str(value) for value in row))
    if table.row_count:
        output().print(table)
