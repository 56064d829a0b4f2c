"""Runs the app of a file, and shows how far it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from penstock.app import App
from penstock.cli.figures import Figures, number, show_lag, show_late, show_mark
from penstock.cli.load import LoadedFile, load_app
from penstock.cli.plan import confirm_start
from penstock.cli.serve import Serve, preload, served
from penstock.cli.start import start
from penstock.cli.watch import watch
from penstock.control.starting import Apply
from penstock.errors import PenstockError
from penstock.runtime.phases import LOADING, Phases
from penstock.runtime.spark.java import Java
from penstock.runtime.spark.starting import SparkStart
from penstock.sql.loading import app_name
from penstock.store.base import REFUSALS


@dataclass(frozen=True)
class AppliesFirst:
    """Whether a start applies a changed file first, and whether state may be lost by that."""

    does: bool = False
    may_lose: bool = False


@dataclass(frozen=True)
class AppRun:
    """What `penstock run` runs: the app of a file, in a directory. `options` are those of `start`, `end` of `watch`."""

    file: Path | None
    name: str | None
    directory: Path
    debug: bool
    serve: Serve
    options: Mapping[str, Any]
    end: Mapping[str, Any]
    apply: AppliesFirst

    def run(self, console: Console, phases: Phases, java: Java | None, spark: SparkStart | None) -> None:
        """Runs it until it is to end. `java` is starting already, and so may be `spark` in it."""
        directory = self.directory
        file = None if self.file is None else LoadedFile(self.file, self.name)
        app = App(app_name(directory)) if self.file is None else load_app(self.file, self.name)
        phases.end(LOADING)
        if self.file is not None and not app.views and not app.sinks:
            raise PenstockError(f"the app '{app.name}' has no views", hint='add one: app.view("by_item", …)')
        if not self.options["standby"]:  # the app that runs may be served there until it ends
            self.serve.check()
        preload(self.serve)
        applying = Apply(lambda plan: confirm_start(plan, console, self.apply.may_lose)) if self.apply.does else None
        running = start(
            app, directory, console, debug=self.debug, java=java, spark=spark, phases=phases, file=file,
            apply=applying, **self.options,
        )  # fmt: skip
        for warning in running.warnings:
            console.print(f"note: {warning}", markup=False)
        what = ", ".join(running.app.views) or f"nothing yet. CREATE something: penstock sql --dir {directory}"
        console.print(f"running '{app.name}' in {directory}: {what}. Ctrl-C stops it", markup=False)
        with served(running, self.serve, console):
            last = watch(running, Totals(app.name), console, each=2.0, **self.end)
        show_end(console, last)


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
    refused = "  ".join(f"{kind} {refusals(figures, kind)}" for kind in REFUSALS)
    rate = "" if figures.rate is None else f" ({number(figures.rate)}/s)"
    behind = "" if figures.behind is None else f"  behind {number(figures.behind)}"
    return f"events {number(figures.events)}{rate}  epochs {number(figures.epochs)}{behind}  {refused}"


def refusals(figures: Figures, kind: str) -> str:
    """How many rows of a kind were refused."""
    return show_late(figures) if kind == "late" else number(figures.count(kind))


def watermark(figures: Figures) -> str:
    """The watermark of the view that is furthest behind."""
    mark = figures.watermark
    if mark is None:
        return "no watermark yet"
    lag = show_lag(mark, figures.now)
    return f"watermark {show_mark(mark)}, {lag if mark > figures.now else f'{lag} behind'}"


def show_end(console: Console, last: Figures) -> None:
    """What there is now that the app has stopped."""
    refused = ", ".join(f"{refusals(last, kind)} {kind}" for kind in REFUSALS)
    console.print(f"stopped after commit {number(last.commits)}: {number(last.events)} events ({refused})")
