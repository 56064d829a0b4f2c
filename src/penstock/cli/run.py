"""The command `run`: an app of a file, on Spark, with its progress."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from penstock.app import App
from penstock.cli.figures import Figures, number, show_lag, show_late, show_mark
from penstock.cli.load import load_app
from penstock.cli.options import DIRECTORY, AppName, Debug, Directory, Long, Master, errors_shown, not_negative, output
from penstock.cli.options import seconds as seconds_of
from penstock.cli.restart import end_like, keep_running
from penstock.cli.serve import NoServe, NoTokens, Port, Serve, served
from penstock.cli.start import start
from penstock.cli.watch import watch
from penstock.errors import PenstockError
from penstock.runtime.spark.secure import SECRET_FILE
from penstock.sql.loading import app_name
from penstock.store import Standby
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


def run(
    file: Annotated[
        Path | None,
        typer.Argument(help="A file that defines an app: Python with a ps.App, or SQL.", metavar="[APP]"),
    ] = None,
    directory: Directory = DIRECTORY,
    seconds: Long = None,
    until_caught_up: Annotated[
        bool, typer.Option("--until-caught-up", help="Stop when everything that the sources hold now is committed.")
    ] = False,
    drain: Annotated[
        bool,
        typer.Option(
            "--drain",
            help="With --until-caught-up: close all open windows at the end, so that the last ones fire too.",
        ),
    ] = False,
    master: Master = "local[*]",
    app: AppName = None,
    kafka: Annotated[
        bool, typer.Option("--kafka", help="Allow streams from Kafka to be added later, by CREATE STREAM in a shell.")
    ] = False,
    conf: Annotated[
        list[str] | None, typer.Option("--conf", help="A Spark setting; can be repeated.", metavar="KEY=VALUE")
    ] = None,
    executor_python: Annotated[
        str | None, typer.Option("--executor-python", help="The Python of a cluster's executors.", metavar="PATH")
    ] = None,
    cluster_secret: Annotated[
        Path | None,
        typer.Option("--cluster-secret", help="A file with the secret of a standalone cluster.", metavar="FILE"),
    ] = None,
    insecure_cluster: Annotated[
        bool,
        typer.Option("--insecure-cluster", help="Do not authenticate or encrypt traffic between Spark's processes."),
    ] = False,
    checkpoints: Annotated[
        str | None,
        typer.Option(
            "--checkpoints", help="Directory or URL of Spark's checkpoints. Default: in --dir.", metavar="URL"
        ),
    ] = None,
    history: Annotated[
        str | None,
        typer.Option("--history", help="Where the history goes, if not into --dir.", metavar="URL"),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            "--store",
            help="Store in PostgreSQL: postgresql://user@host/database. Default: PENSTOCK_STORE, or a file in --dir.",
            metavar="URL",
        ),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option("--group", help="Unix group that may read --dir. Default: only you.", metavar="NAME"),
    ] = None,
    standby: Annotated[
        bool, typer.Option("--standby", help="Wait until the app that runs in --dir ends or hangs, then take over.")
    ] = False,
    takeover_after: Annotated[
        float | None,
        typer.Option(
            "--takeover-after",
            help="How long the running app may be silent before takeover, for example 10s.",
            parser=seconds_of,
            metavar="DURATION",
        ),
    ] = None,
    restart: Annotated[
        bool, typer.Option("--restart", help="Restart the app when its process is killed or fails.")
    ] = False,
    target: Annotated[
        float | None,
        typer.Option(
            "--target",
            help="Longest time an epoch may take, for example 2s. 0s: no limit.",
            parser=not_negative,
            metavar="DURATION",
        ),
    ] = None,
    grace: Annotated[
        float | None,
        typer.Option(
            "--grace",
            help="How long to keep history files that compaction has replaced. Default: 10m.",
            parser=not_negative,
            metavar="DURATION",
        ),
    ] = None,
    port: Port = None,
    no_serve: NoServe = False,
    no_tokens: NoTokens = False,
    debug: Debug = False,
) -> None:
    """Run an app until Ctrl-C. A restarted app resumes where it stopped.

    Without a file, run what was created in a shell: penstock sql.
    """
    console = output()
    if drain and not until_caught_up:
        raise typer.BadParameter("--drain closes the windows when all is read: say --until-caught-up too")
    if restart:
        command = [sys.executable, *(part for part in sys.orig_argv[1:] if part != "--restart")]
        end_like(keep_running(command, lambda text: console.print(text, markup=False)))
    with errors_shown(debug):
        loaded = App(app_name(directory)) if file is None else load_app(file, app)
        if file is not None and not loaded.views and not loaded.sinks:
            raise PenstockError(f"the app '{loaded.name}' has no views", hint='add one: app.view("by_item", …)')
        running = start(
            loaded, directory, console, master=master, debug=debug, kafka=kafka,
            conf=_trust(cluster_secret, insecure_cluster) | settings(conf or []),
            executor_python=executor_python, checkpoints=checkpoints, history_at=history, store=store, group=group,
            grace="10 minutes" if grace is None else timedelta(seconds=grace),
            target="2 seconds" if target is None else timedelta(seconds=target) or None,
            standby=standby and Standby(takeover_after or 10.0, lambda text: console.print(text, markup=False)),
        )  # fmt: skip
        for warning in running.warnings:
            console.print(f"note: {warning}", markup=False)
        what = ", ".join(loaded.views) or f"nothing yet. CREATE something: penstock sql --dir {directory}"
        console.print(f"running '{loaded.name}' in {directory}: {what}. Ctrl-C stops it", markup=False)
        picture = Totals(loaded.name)
        with served(running, Serve(port, no_serve, no_tokens), console):
            last = watch(
                running, picture, console, each=2.0, seconds=seconds, until_caught_up=until_caught_up, drain=drain
            )
        show_end(console, last)


def _trust(secret: Path | None, insecure: bool) -> dict[str, str]:
    """What is said about the secret of a cluster, as settings of Spark's."""
    if secret is not None and insecure:
        raise typer.BadParameter("--cluster-secret and --insecure-cluster contradict each other")
    if insecure:
        return {"spark.authenticate": "false"}
    return {} if secret is None else {SECRET_FILE: str(secret)}


def settings(given: Sequence[str]) -> dict[str, str]:
    """Spark's settings, as they are given on the command line.

    >>> settings(["spark.cores.max=4", "spark.executor.extraJavaOptions=-Da=b"])
    {'spark.cores.max': '4', 'spark.executor.extraJavaOptions': '-Da=b'}
    """
    pairs = [text.partition("=") for text in given]
    for (name, sign, _), text in zip(pairs, given, strict=True):
        if not sign or not name.startswith("spark."):
            raise typer.BadParameter(f"not a setting of Spark's: '{text}'; write spark.executor.memory=2g")
    return {name: value for name, _, value in pairs}


def show_end(console: Console, last: Figures) -> None:
    """What there is now that the app has stopped."""
    refused = ", ".join(f"{refusals(last, kind)} {kind}" for kind in REFUSALS)
    console.print(f"stopped after commit {number(last.commits)}: {number(last.events)} events ({refused})")
