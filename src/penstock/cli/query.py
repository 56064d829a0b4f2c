"""The command `query`: a SELECT over the views. It needs no Spark, and works while an app runs."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.answers import Format, Printer
from penstock.cli.options import DIRECTORY, Debug, Directory, errors_shown, output
from penstock.control import ask
from penstock.store import Reader


def query(
    sql: Annotated[str, typer.Argument(help="A SELECT over the views.", metavar="SQL")],
    directory: Directory = DIRECTORY,
    format: Annotated[Format, typer.Option("--format", help="Output format.")] = Format.table,
    debug: Debug = False,
) -> None:
    """Query the views in SQL, also while the app runs.

    The store's own tables can be queried too: __refused, __commits and others.
    """
    with errors_shown(debug):
        reader = Reader(directory)
        reader.check()
        Printer(output(), format).answer(ask(reader, sql))
