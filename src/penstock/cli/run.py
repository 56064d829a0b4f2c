"""The command `run`: an app of a file, on Spark, with its progress."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from penstock.app import App
from penstock.cli.figures import Figures, number, show_lag, show_mark
from penstock.cli.load import load_app
from penstock.cli.options import DIRECTORY, AppName, Debug, Directory, Long, Master, errors_shown, output
from penstock.cli.start import start
from penstock.cli.watch import watch
from penstock.errors import PenstockError
from penstock.sql.load import app_name
from penstock.store.base import REFUSALS


class Totals:
    """The figures of an app, and nothing else."""

    def __init__(self, title: str) -> None:
        self.title = title

    def live(self, figures: Figures) -> RenderableType:
        """A line of totals, and a line for each view."""
        table = Table("view", "watermark", box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
        table.add_column("behind the clock", justify="right")
        for name, mark in figures.views.items():
            table.add_row(name, show_mark(mark), show_lag(mark, figures.now))
        return Group(Text.assemble((self.title, "bold"), "  ", totals(figures)), table)

    def line(self, figures: Figures) -> RenderableType:
        """All in one line."""
        return f"{totals(figures)}  {watermark(figures)}"


def totals(figures: Figures) -> str:
    """Events, epochs, and what was refused."""
    refused = "  ".join(f"{kind} {number(figures.count(kind))}" for kind in REFUSALS)
    rate = "" if figures.rate is None else f" ({number(figures.rate)}/s)"
    return f"events {number(figures.events)}{rate}  epochs {number(figures.epochs)}  {refused}"


def watermark(figures: Figures) -> str:
    """The watermark of the view that is furthest behind."""
    mark = figures.watermark
    return "no watermark yet" if mark is None else f"watermark {show_mark(mark)}, {show_lag(mark, figures.now)} behind"


def run(
    file: Annotated[
        Path | None,
        typer.Argument(help="A file that makes an app: Python with a ps.App, or SQL.", metavar="[APP]"),
    ] = None,
    directory: Directory = DIRECTORY,
    seconds: Long = None,
    until_caught_up: Annotated[
        bool, typer.Option("--until-caught-up", help="Stop when all that the logs hold is committed.")
    ] = False,
    master: Master = "local[*]",
    app: AppName = None,
    kafka: Annotated[
        bool, typer.Option("--kafka", help="Let streams from Kafka come later, by CREATE STREAM in a shell.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Run an app until Ctrl-C. It goes on where it was stopped or killed.

    Without a file it is what was created in a shell: penstock sql.
    """
    console = output()
    with errors_shown(debug):
        loaded = App(app_name(directory)) if file is None else load_app(file, app)
        if file is not None and not loaded.views:
            raise PenstockError(f"the app «{loaded.name}» has no views", hint='add one: app.view("by_item", …)')
        running = start(loaded, directory, console, master=master, debug=debug, kafka=kafka)
        for warning in running.warnings:
            console.print(f"note: {warning}", markup=False)
        what = ", ".join(loaded.views) or f"nothing yet. CREATE something: penstock sql --dir {directory}"
        console.print(f"running «{loaded.name}» in {directory}: {what}. Ctrl-C stops it", markup=False)
        picture = Totals(loaded.name)
        last = watch(running, picture, console, each=2.0, seconds=seconds, until_caught_up=until_caught_up)
        show_end(console, last)


def show_end(console: Console, last: Figures) -> None:
    """What there is now that the app has stopped."""
    refused = ", ".join(f"{number(last.count(kind))} {kind}" for kind in REFUSALS)
    console.print(f"stopped after commit {number(last.commits)}: {number(last.events)} events ({refused})")
