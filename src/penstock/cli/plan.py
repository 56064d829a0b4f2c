"""The commands `plan` and `apply`: what a changed file means for an app that has run, and doing it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from penstock.app import App
from penstock.cli.generations import Bar, show
from penstock.cli.load import load_app
from penstock.cli.options import DIRECTORY, AppFile, AppName, Debug, Directory, Master, errors_shown, output
from penstock.cli.start import quietly
from penstock.control import Client
from penstock.control.apply_stopped import OpenRun, apply_stopped, check_possible
from penstock.control.planning import has_store, planned
from penstock.control.works import reply_of
from penstock.errors import PenstockError
from penstock.model.stream import Stream
from penstock.model.view import View
from penstock.plans.of_app import definitions_of
from penstock.plans.plan import Facts, Plan
from penstock.plans.plan import plan as plan_of
from penstock.plans.text import text_of
from penstock.runtime.queries.standby import taken
from penstock.runtime.run import Run
from penstock.store import Keep, Reader, SqlStore

#: The exit code that says that there are changes, as in other tools that plan.
CHANGES = 2

KeepRemoved = Annotated[
    bool, typer.Option("--keep-removed", help="Remove nothing: what the file lacks stays in the store, without events.")
]
StoreUrl = Annotated[
    str | None, typer.Option("--store", help="Store in PostgreSQL, if the directory does not say it.", metavar="URL")
]


def plan(
    file: AppFile,
    directory: Directory = DIRECTORY,
    as_json: Annotated[bool, typer.Option("--json", help="Print the plan as JSON.")] = False,
    detailed_exitcode: Annotated[
        bool,
        typer.Option("--detailed-exitcode", help="Exit with 0 if nothing changes, 2 if something does, 1 on errors."),
    ] = False,
    keep_removed: KeepRemoved = False,
    app: AppName = None,
    debug: Debug = False,
) -> None:
    """Show what changes from the app in --dir to the one in a file, and what each change costs. Changes nothing."""
    with errors_shown(debug):
        made = _planned(load_app(file, app), directory, keep_removed)
        print(made.to_json() if as_json else text_of(made))
        if detailed_exitcode and made.changes:
            raise typer.Exit(CHANGES)


def apply(
    file: AppFile,
    directory: Directory = DIRECTORY,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask, even if state is lost.")] = False,
    keep_removed: KeepRemoved = False,
    store: StoreUrl = None,
    master: Master = "local[*]",
    app: AppName = None,
    debug: Debug = False,
) -> None:
    """Change the app in --dir to the one in a file, as penstock plan shows: all of it or, if a step fails, nothing."""
    with errors_shown(debug):
        loaded, console = load_app(file, app), output()
        made = _planned(loaded, directory, keep_removed)
        console.print(text_of(made), markup=False)
        if not made.changes:
            return
        check_possible(made)
        confirm(made, yes)
        apply_here(loaded, directory, console, made, master=master, store=store, debug=debug)


def confirm(made: Plan, yes: bool) -> None:
    """Asks whether state may be lost. Without a terminal nobody can answer."""
    if not made.lossy or yes:
        return
    names = ", ".join(change.subject for change in made.lossy)
    if not sys.stdin.isatty():
        raise PenstockError(
            f"state would be lost: {names}", hint="say --yes to do it, or --keep-removed to remove nothing"
        )
    if not typer.confirm(f"State is lost: {names}. Do it?"):
        raise typer.Abort


def _planned(app: App, directory: Path, keep_removed: bool) -> Plan:
    if has_store(directory):
        made = planned(app, Reader(directory))
    else:
        made = plan_of(app.name, (), definitions_of(app), Facts())
    return made.without_removals() if keep_removed else made


def apply_here(
    app: App, directory: Path, console: Console, made: Plan, *, master: str, store: str | None, debug: bool
) -> None:
    """Does a plan on a stopped app."""
    if Client(directory).is_there:
        raise PenstockError(
            f"the app in '{directory}' is running", hint="stop it, apply the file, and start it with the file"
        )
    if not has_store(directory):
        console.print(f"nothing has run in '{directory}' yet: penstock run begins with the file", markup=False)
        return
    opened = taken(directory, Keep(), False, store, app.name)
    try:
        current = planned(app, opened)
        if set(made.changes) - set(current.changes):
            raise PenstockError("the app has changed since the plan was made", hint="apply again")
        with Bar(console) as hear:
            outcomes = apply_stopped(app, opened, made, open_run(app, directory, console, opened, master, debug), hear)
    finally:
        opened.close()
    if outcomes:
        show(reply_of(outcomes))
    count = len(made.changes)
    console.print(f"applied {count} change{'' if count == 1 else 's'}. Start the app with the file", markup=False)


def open_run(app: App, directory: Path, console: Console, store: SqlStore, master: str, debug: bool) -> OpenRun:
    """What opens a run of some streams and views on a locked store. It reads nothing and delivers nothing."""

    @contextmanager
    def opened(streams: Mapping[str, Stream], views: Mapping[str, View]) -> Iterator[Run]:
        with quietly(directory, console, debug):
            run = Run(app.name, streams, views, directory, master=master, store=store, placements=app.placements)
        try:
            yield run
        finally:
            run.stop()

    return opened
