"""The command `batch`: views recomputed from the history, late events and all."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from penstock.cli.generations import File, done
from penstock.cli.options import DIRECTORY, Debug, Directory, Master, errors_shown
from penstock.history.batch.runs import batch as compute


def batch(
    views: Annotated[list[str] | None, typer.Argument(help="Which views. Default: all.", metavar="[VIEW]…")] = None,
    directory: Directory = DIRECTORY,
    file: File = None,
    whole: Annotated[
        bool, typer.Option("--whole", help="Recompute all windows, not only those with new events since the last run.")
    ] = False,
    late: Annotated[
        Literal["in-time", "as-live"],
        typer.Option(
            "--late", help="Count late events, or leave out those that the live view has left out since the last run."
        ),
    ] = "in-time",
    master: Master = "local[*]",
    debug: Debug = False,
) -> None:
    """Recompute views from the history while they run, then swap. Late events count, unless --late says otherwise."""
    with errors_shown(debug):
        arguments = {"views": views or [], "whole": whole, "late": late}
        done(
            "batch", arguments, directory, file, master, debug,
            lambda run, hear: compute(run, views or (), whole=whole, late=late, on_progress=hear),
        )  # fmt: skip
