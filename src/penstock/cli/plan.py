"""The commands `plan` and `apply`: what a changed file means for an app that has run, and doing it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from penstock.app import App
from penstock.cli.generations import Bar, show
from penstock.cli.load import load_app
from penstock.cli.options import DIRECTORY, AppFile, AppName, Debug, Directory, Master, errors_shown, output
from penstock.cli.start import quietly
from penstock.control import Client, RemoteError, Reply
from penstock.control.applying import Application, check_possible, run_opener
from penstock.control.planning import has_store, planned
from penstock.control.works import reply_of
from penstock.errors import PenstockError
from penstock.plans.of_app import definitions_of
from penstock.plans.plan import Facts, Plan
from penstock.plans.plan import plan as plan_of
from penstock.plans.text import text_of
from penstock.runtime.queries.standby import taken
from penstock.store import Keep, Reader

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
        if made.changes and not as_json:
            _print_way(file, directory)
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
    """Change the app in --dir to the one in a file, as penstock plan shows: all of it or, if a step fails, nothing.

    An app that penstock run has started with this file goes on running: it pauses between two commits.
    """
    with errors_shown(debug):
        loaded, console = load_app(file, app), output()
        made = _planned(loaded, directory, keep_removed)
        console.print(text_of(made), markup=False)
        if not made.changes:
            return
        check_possible(made)
        confirm(made, yes)
        client = Client(directory)
        if client.is_there:
            request = {"file": str(file.resolve()), "plan": made.to_json(), "keep_removed": keep_removed}
            with Bar(console) as hear:
                reply: Reply | None = client.watch("apply", request, hear)
            client.close()
            what = "The app goes on with the file"
        else:
            reply = apply_here(loaded, directory, console, made, master=master, store=store, debug=debug)
            what = "Start the app with the file"
        if reply is not None:
            if reply.rows:
                show(reply)
            console.print(f"applied {_counted(made)}. {what}", markup=False)


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
) -> Reply | None:
    """Does a plan on a stopped app; None where nothing has run yet."""
    if not has_store(directory):
        console.print(f"nothing has run in '{directory}' yet: penstock run begins with the file", markup=False)
        return None
    opened = taken(directory, Keep(), False, store, app.name)
    try:
        current = planned(app, opened)
        if set(made.changes) - set(current.changes):
            raise PenstockError("the app has changed since the plan was made", hint="apply again")
        opener = run_opener(app, opened, {"master": master}, lambda: quietly(directory, console, debug))
        with Bar(console) as hear:
            return reply_of(Application(app, opened, made, opener, hear).do())
    finally:
        opened.close()


def confirm_start(made: Plan, console: Console, yes: bool) -> None:
    """Shows what a start applies. Refuses to lose state, unless that was allowed."""
    console.print(text_of(made), markup=False)
    if made.lossy and not yes:
        names = ", ".join(change.subject for change in made.lossy)
        raise PenstockError(f"state would be lost: {names}", hint="say --yes to do it, or apply it: penstock apply")


def _print_way(file: Path, directory: Path) -> None:
    """What `apply` would do to the app that runs, if one runs."""
    client = Client(directory)
    if not client.is_there:
        return
    try:
        client.do("check apply", file=str(file.resolve()))
        print("The app runs: penstock apply pauses it between two commits, and new events wait meanwhile")
    except RemoteError as error:
        print(f"The app runs and cannot take this: {error.message}. To do it, {error.hint}")
    finally:
        client.close()


def _counted(made: Plan) -> str:
    count = len(made.changes)
    return f"{count} change{'' if count == 1 else 's'}"
