"""The command `erase`: a tombstone for events, by a condition."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from penstock.cli import figures as fig
from penstock.cli.options import DIRECTORY, Debug, Directory, errors_shown, output
from penstock.control.client import Client
from penstock.history.events.erase import erase as append
from penstock.store import Reader, open_store


def erase(
    stream: Annotated[str, typer.Argument(help="The stream whose events are erased.", metavar="STREAM")],
    where: Annotated[
        str, typer.Option("--where", help="Which events, for example \"user = 'x'\".", metavar="CONDITION")
    ],
    reason: Annotated[str | None, typer.Option("--reason", help="Why, for the record.", metavar="TEXT")] = None,
    directory: Directory = DIRECTORY,
    debug: Debug = False,
) -> None:
    """Erase past events of a stream: batch runs skip them, and compaction removes them from the files."""
    with errors_shown(debug):
        client = Client(directory)
        if client.is_there:
            ((id, commit),) = client.do("erase", stream=stream, where=where, reason=reason).rows
            client.close()
        else:
            Reader(directory).listing()  # refuses a directory without a store
            store = open_store(directory)
            store.lock()
            try:
                made = append(store, stream, where, reason, time.time_ns() // 1000)
            finally:
                store.close()
            id, commit = made.id, made.commit
        message = f"tombstone {id}: events of '{stream}' up to commit {fig.number(int(str(commit)))} with {where}"
        output().print(message, markup=False)
        output().print(
            "views have them until they are computed again; penstock history compact drops them", markup=False
        )
