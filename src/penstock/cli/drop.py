"""The command `drop`: removes what an app's file no longer defines, while the app is stopped."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.options import DIRECTORY, Debug, Directory, errors_shown, output
from penstock.cli.plan import StoreUrl
from penstock.control import Client
from penstock.control.dropping import drop as drop_stored
from penstock.errors import PenstockError
from penstock.runtime.queries.standby import taken
from penstock.store import Keep


def drop(
    names: Annotated[list[str], typer.Argument(help="Views, sinks, streams or operators.", metavar="NAME...")],
    directory: Directory = DIRECTORY,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    store: StoreUrl = None,
    debug: Debug = False,
) -> None:
    """Drop views, sinks and streams from the store of a stopped app, for example those that its file no longer has."""
    with errors_shown(debug):
        if Client(directory).is_there:
            raise PenstockError(
                f"the app in '{directory}' is running",
                hint=f"drop it there: penstock sql -c 'DROP VIEW {names[0]}'; or stop the app",
            )
        if not yes and not typer.confirm(f"Remove {', '.join(names)} with all rows and state?"):
            raise typer.Abort
        opened = taken(directory, Keep(), False, store)
        try:
            dropped = drop_stored(opened, names)
        finally:
            opened.close()
        for definition in dropped:
            output().print(f"dropped the {definition.kind} '{definition.name}'", markup=False)
