"""The command `batch`: views computed anew from the history, late events and all."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from penstock.cli.generations import File, done
from penstock.cli.options import DIRECTORY, Debug, Directory, Master, errors_shown
from penstock.history.batch.runs import batch as compute


def batch(
    views: Annotated[list[str] | None, typer.Argument(help="Which views; all, if left out.", metavar="[VIEW]…")] = None,
    directory: Directory = DIRECTORY,
    file: File = None,
    whole: Annotated[
        bool, typer.Option("--whole", help="Compute all windows, not just those touched since the last time.")
    ] = False,
    late: Annotated[
        Literal["in-time", "as-live"],
        typer.Option("--late", help="Count late events, or leave out those that live left out since the last run."),
    ] = "in-time",
    master: Master = "local[*]",
    debug: Debug = False,
) -> None:
    """Compute views from all of history beside the running ones, and swap. To it no event is late, unless told so."""
    with errors_shown(debug):
        given = {"views": views or [], "whole": whole, "late": late}
        done(
            "batch", given, directory, file, master, debug,
            lambda run, hear: compute(run, views or (), whole=whole, late=late, told=hear),
        )  # fmt: skip
