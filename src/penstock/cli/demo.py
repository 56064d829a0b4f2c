"""The command `demo`: an app with events of its own, and its answer drawn as it changes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import polars as pl
import typer
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from penstock.cli.figures import Figures, number
from penstock.cli.flights import show_flights
from penstock.cli.options import Debug, Long, Master, NoServe, Port, errors_shown, output
from penstock.cli.options import seconds as parsed
from penstock.cli.repair import show_repair
from penstock.cli.running import show_end, totals, watermark
from penstock.cli.serve import Serve, served
from penstock.cli.start import start
from penstock.cli.view_rows import ask_views
from penstock.cli.watch import watch
from penstock.dev.demos import DEMOS, trending
from penstock.errors import PenstockError
from penstock.model.time import SECOND
from penstock.store import Reader

#: The default directory of a demo.
DIRECTORY = Path(".penstock-demo")
#: How many seconds a demo takes by default.
LONG = 60.0
#: How much of the year passes in a second of the demo `flights`: all of it in less than a minute.
SPEED = "7 days"
#: A file that marks a directory as a demo's, which the next demo may empty.
MARK = "demo"

#: The window that covers the last minute, or most of it: the first that ends well after the watermark (in seconds).
TOP = """
SELECT tag, posts, people, window_start, window_end FROM trending
WHERE window_end = (SELECT min(window_end) FROM trending
                    WHERE window_end > strftime('%Y-%m-%d %H:%M:%S', ?1 + 2, 'unixepoch'))
ORDER BY posts DESC, tag LIMIT 10
"""


class Trending:
    """The tags of the last minute, as bars."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._before: list[str] = []

    def live(self, figures: Figures) -> RenderableType:
        """Bars, and the figures below them."""
        return Group(*self._picture(figures, width=40))

    def line(self, figures: Figures) -> RenderableType:
        """The same, printed one below the other."""
        return Group(*self._picture(figures, width=30), "")

    def _picture(self, figures: Figures, width: int) -> list[RenderableType]:
        mark = figures.watermark
        top = pl.DataFrame() if mark is None else ask_views(self._reader, TOP, [mark // SECOND])
        if not top.height:
            return [Text("waiting for the first posts …")]
        start, end = top["window_start"][0][11:], top["window_end"][0][11:]
        totals_row = ask_views(self._reader, "SELECT posts, people FROM totals").row(0)
        return [
            Text.assemble(("trending", "bold"), f"  from {start} to {end}"),
            self._bars(top, width),
            Text(f"all: {number(totals_row[0])} posts by about {number(totals_row[1])} people"),
            Text(totals(figures), "dim"),
            Text(watermark(figures), "dim"),
        ]

    def _bars(self, top: pl.DataFrame, width: int) -> Table:
        table = Table.grid(padding=(0, 1))
        for justify in ("left", "left", "left", "right", "right"):
            table.add_column(justify=justify, no_wrap=True)
        tags, most = top["tag"].to_list(), top["posts"][0]
        for place, (tag, posts, people, *_) in enumerate(top.iter_rows()):
            bar = Text("█" * max(1, round(width * posts / most)), style="cyan")
            counts = (f"{number(posts)} posts", f"≈ {number(people)} people")
            table.add_row(self._move(tag, place), Text(f"#{tag}"), bar, *counts)
        self._before = tags
        return table

    def _move(self, tag: str, place: int) -> Text:
        """Whether a tag has risen or fallen since the last picture."""
        if not self._before or tag in self._before[place : place + 1]:
            return Text(" ")
        was = self._before.index(tag) if tag in self._before else len(self._before)
        return Text("▲", style="green") if was > place else Text("▼", style="red")


def demo(
    name: Annotated[str, typer.Argument(help=f"Which demo: {', '.join(DEMOS)}.", metavar="[NAME]")] = "trending",
    seconds: Long = None,
    directory: Annotated[Path, typer.Option("--dir", help="Directory of the demo's store.", metavar="DIR")] = DIRECTORY,
    speed: Annotated[
        str, typer.Option("--speed", help="How much time of the data passes in a second (flights).", metavar="DURATION")
    ] = SPEED,
    resume: Annotated[bool, typer.Option("--resume", help="Resume a demo that was stopped or killed.")] = False,
    master: Master = "local[*]",
    port: Port = None,
    no_serve: NoServe = False,
    debug: Debug = False,
) -> None:
    """Watch views change: trending tags of generated posts, or a year of departures from New York.

    'repair' deploys a view that counts wrong, replaces it while events flow, and proves that every number is right.
    """
    if name not in DEMOS:
        raise typer.BadParameter(f"there is no demo '{name}'; there are: {', '.join(DEMOS)}", param_hint="NAME")
    console = output()
    with errors_shown(debug):
        serve = Serve(port, no_serve or name == "repair")
        serve.check()
        _empty(directory, name, resume)
        if name == "flights":
            pace = int(parsed(speed) * SECOND)
            show_flights(directory, console, seconds=seconds, speed=pace, master=master, debug=debug, serve=serve)
        elif name == "repair":
            show_repair(directory, console, seconds=seconds or LONG, master=master, debug=debug)
        else:
            _show_trending(directory, console, seconds=seconds or LONG, master=master, debug=debug, serve=serve)


def _show_trending(
    directory: Path, console: Console, *, seconds: float, master: str, debug: bool, serve: Serve
) -> None:
    running = start(trending.app(), directory, console, master=master, debug=debug)
    picture = Trending(Reader(directory))
    with served(running, serve, console):
        last = watch(running, picture, console, each=3.0, seconds=seconds, from_first_commit=True)
    console.print(picture.live(last))
    show_end(console, last)
    question = "SELECT * FROM trending ORDER BY posts DESC LIMIT 5"
    console.print(f'ask it:  penstock query "{question}" --dir {directory}', style="bold", soft_wrap=True)


def _empty(directory: Path, name: str, resume: bool) -> None:
    """A demo starts empty, unless it resumes: it removes what an earlier one left, and nothing else."""
    mark = directory / MARK
    if resume:
        if not mark.is_file() or mark.read_text() != name:
            raise PenstockError(f"there is no demo '{name}' in '{directory}' to go on with", hint="leave out --resume")
        return
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        if not mark.is_file():
            raise PenstockError(f"'{directory}' is in use, and not by a demo", hint="choose another one: --dir")
        shutil.rmtree(directory)
    directory.mkdir(parents=True, exist_ok=True)
    mark.write_text(name)
