"""The command `replay`: a stream's views rebuilt from its log, from an offset or a time on."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.generations import File, done
from penstock.cli.options import DIRECTORY, Debug, Directory, Master, errors_shown
from penstock.history.batch.log_past import BEGINNING, From
from penstock.history.batch.runs import replay as rebuild


def replay(
    stream: Annotated[str, typer.Argument(help="The stream whose views are rebuilt.", metavar="STREAM")],
    start: Annotated[
        str,
        typer.Option(
            "--from",
            help="Where to begin: 'beginning', a time, or an offset (of a directory, an epoch).",
            metavar="OFFSET|TIME",
        ),
    ] = BEGINNING,
    view: Annotated[str | None, typer.Option("--view", help="Only this view.", metavar="VIEW")] = None,
    directory: Directory = DIRECTORY,
    file: File = None,
    master: Master = "local[*]",
    debug: Debug = False,
) -> None:
    """Rebuild a stream's views from what its source still has, while they run, then swap.

    Events before the place where it begins are not in them any more.
    """
    with errors_shown(debug):
        at = From.parse(start)
        done(
            "replay", {"stream": stream, "from": start, "view": view}, directory, file, master, debug,
            lambda run, hear: rebuild(run, stream, at, view, hear),
        )  # fmt: skip
