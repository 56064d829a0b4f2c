"""The command `batch`: views computed anew from the master, late events and all."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.batch.runs import batch as compute
from penstock.cli.generations import File, done
from penstock.cli.options import DIRECTORY, Debug, Directory, Master, errors_shown


def batch(
    views: Annotated[list[str] | None, typer.Argument(help="Which views; all, if left out.", metavar="[VIEW]…")] = None,
    directory: Directory = DIRECTORY,
    file: File = None,
    whole: Annotated[
        bool, typer.Option("--whole", help="Compute all windows, not just those touched since the last time.")
    ] = False,
    master: Master = "local[*]",
    debug: Debug = False,
) -> None:
    """Compute views from all of history beside the running ones, and swap. To it no event is late."""
    with errors_shown(debug):
        given = {"views": views or [], "whole": whole}
        done(
            "batch", given, directory, file, master, debug,
            lambda run, hear: compute(run, views or (), whole=whole, told=hear),
        )  # fmt: skip
