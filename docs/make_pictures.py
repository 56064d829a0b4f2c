"""Draws the pictures of docs/model.md and docs/state.md into docs/images/, from what the engine really does.

    python docs/make_pictures.py

The output is the same bytes each time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib as mpl

mpl.use("svg")

import matplotlib.pyplot as plt
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FuncFormatter, MultipleLocator

import penstock as ps
from penstock.kernel.hashing import hashes
from penstock.model.commits import Event, Pane, Rejection, TableRow
from penstock.model.reference import Reference
from penstock.model.time import Instant, duration, instant
from penstock.model.windows import Interval
from penstock.state.compact import Merge
from penstock.state.layout import GONE, Layout
from penstock.state.segment import MappedSegment, Segment, SegmentFile, encoded, shards
from penstock.state.step import cut
from penstock.testing import DAY, TestStream

IMAGES = Path(__file__).parent / "images"
MINUTE = duration("1 minute")
COLOURS = {"early": "#9ecae9", "on time": "#88c9a1", "late": "#f6b26b"}
EDGES = {"early": "#4a90c2", "on time": "#3b8f5c", "late": "#c77414"}
INK, FAINT, WATERMARK, RED = "#2b2f36", "#c9ced6", "#b0306a", "#c0392b"

mpl.rcParams.update(
    {
        "svg.hashsalt": "penstock",
        "svg.fonttype": "path",
        "font.family": "DejaVu Sans",
        "font.size": 10,
        "axes.edgecolor": FAINT,
        "axes.labelcolor": INK,
        "axes.titlecolor": INK,
        "axes.titlesize": 11,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "xtick.color": INK,
        "ytick.color": INK,
        "text.color": INK,
        "figure.facecolor": "white",
        "axes.facecolor": "white",
    }
)

SCORES = ps.stream(
    "scores", schema="score int, at timestamp", event_time="at", watermark=ps.bounded("30 seconds", idle=None)
)

#: When each score arrived, the score, and when it happened. The 9 comes more than two minutes late.
ARRIVALS = [
    ("12:00:30", 5, "12:00:20"),
    ("12:01:10", 7, "12:00:50"),
    ("12:02:00", 8, "12:01:50"),
    ("12:02:40", 3, "12:02:20"),
    ("12:03:20", 4, "12:02:50"),
    ("12:03:50", 9, "12:01:20"),
    ("12:04:40", 3, "12:04:20"),
    ("12:05:30", 8, "12:05:10"),
    ("12:06:20", 3, "12:05:50"),
    ("12:07:20", 2, "12:07:00"),
]


@dataclass(frozen=True)
class Moment:
    """One commit: when it was, what it brought and fired, and the watermark after it."""

    now: Instant
    events: tuple[Event, ...]
    panes: tuple[Pane, ...]
    refused: tuple[Rejection, ...]
    watermark: Instant


@dataclass(frozen=True)
class Moments:
    moments: tuple[Moment, ...]
    table: tuple[TableRow, ...]


def play(view: ps.View, script: TestStream) -> Moments:
    """Runs a script on the reference interpreter and notes everything."""
    engine, moments = Reference(view), []
    for commit in script.commits():
        if commit is None:
            engine = engine.restart()
            continue
        panes, refused = engine.commit(commit)
        moments.append(Moment(commit.now, commit.events, tuple(panes), tuple(refused), engine.intake.time.watermark))
    return Moments(tuple(moments), tuple(engine.table()))


def arrivals(until: str = "12:07:20", ticks: str | None = None) -> TestStream:
    """The scores as they arrive, with regular ticks of the clock in between."""
    script = TestStream(SCORES, clock="12:00:00")
    times = {instant(at, day=DAY): (score, happened) for at, score, happened in ARRIVALS}
    if ticks is not None:
        step = duration(ticks)
        for at in range(instant("12:00:00", day=DAY), instant(until, day=DAY) + 1, step):
            times.setdefault(at, None)  # type: ignore[arg-type]
    for at in sorted(times):
        if at > instant(until, day=DAY):
            break
        script = script.clock(_clock(at))
        if times[at] is not None:
            script = script.add(times[at])
    return script


# Drawing


def plane(axes: Axes, first: str, last: str, top: str, *, bottom: str | None = None, processing: bool = True) -> None:
    """Event time to the right, processing time upwards."""
    axes.set_xlim(*(instant(at, day=DAY) for at in (first, last)))
    axes.set_ylim(instant(bottom or first, day=DAY), instant(top, day=DAY))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MultipleLocator(MINUTE, offset=DAY % MINUTE))
        axis.set_major_formatter(FuncFormatter(lambda at, _: _clock(int(at))[:5]))
    axes.tick_params(length=3)
    axes.set_axisbelow(True)
    axes.grid(color="#eef0f3", linewidth=0.8)
    axes.set_xlabel("event time")
    if processing:
        axes.set_ylabel("processing time")


def watermark(axes: Axes, played: Moments) -> None:
    """The watermark as a staircase: it moves when a commit ends."""
    low = int(axes.get_xlim()[0])
    known = [(m.watermark, m.now) for m in played.moments if m.watermark > low]
    xs, ys = [low, known[0][0]], [known[0][1]] * 2
    for at, now in known[1:]:
        xs += [xs[-1], at]
        ys += [now, now]
    axes.plot([*xs, xs[-1]], [*ys, axes.get_ylim()[1]], color=WATERMARK, linewidth=1.8, zorder=4, label="watermark")


def events(axes: Axes, played: Moments, size: int = 210) -> None:
    """Each event as a dot with its value; refused ones in red."""
    for moment in played.moments:
        refused = {id(r.event) for r in moment.refused}
        for event in moment.events:
            at, value = event.row["at"], event.row["score"]
            colour = RED if id(event) in refused else INK
            axes.scatter([at], [moment.now], s=size, color="white", edgecolor=colour, linewidth=1.2, zorder=6)
            axes.annotate(
                str(value), (at, moment.now), ha="center", va="center_baseline", fontsize=9, color=colour, zorder=7
            )


def panes(axes: Axes, played: Moments) -> None:
    """Each pane as a box over its window, from the last pane (or the first element) up to when it fires."""
    windows = {pane.window for moment in played.moments for pane in moment.panes}
    since: dict[Interval, Instant] = {}
    for moment in played.moments:
        for event in moment.events:
            for window in windows:
                if window.holds(int(str(event.row["at"]))):
                    since.setdefault(window, moment.now)
        taken_back = [pane.window for pane in moment.panes if pane.kind == "retract"]
        for pane in moment.panes:
            where = (pane.window.start + pane.window.end) / 2
            if pane.kind == "retract":
                grown = all(other.window != pane.window for other in moment.panes if other.kind == "insert")
                _label(axes, f"−{_value(pane)}", where - (0 if grown else 0.45 * MINUTE), moment.now, RED)
                continue
            low = max(since[window] for window in {pane.window, *taken_back} if _covers(pane.window, window))
            axes.add_patch(
                Rectangle(
                    (pane.window.start, low),
                    pane.window.end - pane.window.start,
                    moment.now - low,
                    facecolor=COLOURS[pane.timing],
                    edgecolor=EDGES[pane.timing],
                    linewidth=1.2,
                    alpha=0.55,
                    zorder=2,
                )
            )
            _label(axes, _value(pane), where, moment.now, INK)
            since[pane.window] = moment.now


def _covers(window: Interval, other: Interval) -> bool:
    return window.start <= other.start and other.end <= window.end


def _label(axes: Axes, text: str, where: float, now: Instant, colour: str) -> None:
    """What a pane shows or takes back, just below its upper edge."""
    axes.annotate(
        text,
        (where, now - MINUTE * 0.17),
        ha="center",
        va="center_baseline",
        fontsize=11,
        fontweight="bold",
        color=colour,
        zorder=8,
        path_effects=[withStroke(linewidth=2.5, foreground="white", alpha=0.7)],
    )


def _value(pane: Pane | TableRow) -> str:
    value = pane.values[0]
    return "null" if value is None else str(value)


def _clock(at: Instant) -> str:
    return str(timedelta(microseconds=at - DAY)).zfill(8)


def legend(axes: Axes, *timings: str, where: str = "lower right") -> None:
    boxes = [Rectangle((0, 0), 1, 1, fc=COLOURS[t], ec=EDGES[t], alpha=0.7, label=f"{t} pane") for t in timings]
    lines = axes.get_lines()[:1]
    axes.legend(handles=[*lines, *boxes], loc=where, frameon=True, framealpha=0.9, edgecolor=FAINT, fontsize=9)


def save(figure: Figure, name: str) -> None:
    IMAGES.mkdir(exist_ok=True)
    nothing = {"Date": None, "Creator": None}
    figure.savefig(IMAGES / f"{name}.svg", metadata=nothing, bbox_inches="tight", pad_inches=0.15)
    plt.close(figure)


# The pictures


def two_times() -> None:
    """Events by when they happened and when they arrived, and the watermark."""
    view = SCORES.window(ps.fixed("2 minutes")).agg(total=ps.sum("score")).trigger(ps.never())
    played = play(view, arrivals())
    figure, axes = plt.subplots(figsize=(7.2, 4.8))
    plane(axes, "12:00:00", "12:08:00", "12:08:00")
    noon, end = axes.get_xlim()
    axes.plot([noon, end], [noon, end], color=FAINT, linestyle=(0, (4, 3)), linewidth=1.4)
    axes.annotate(
        "no delay at all",
        (instant("12:06:20", day=DAY), instant("12:06:05", day=DAY)),
        rotation=33,
        rotation_mode="anchor",
        color="#8a929e",
        fontsize=9,
        va="top",
    )
    watermark(axes, played)
    events(axes, played)
    axes.annotate(
        "watermark: no more\nevents to the left of it",
        (instant("12:03:50", day=DAY), instant("12:05:10", day=DAY)),
        (instant("12:01:40", day=DAY), instant("12:06:30", day=DAY)),
        color=WATERMARK,
        ha="center",
        arrowprops={"arrowstyle": "-", "color": WATERMARK, "linewidth": 0.9},
    )
    axes.annotate(
        "the 9 is behind\nthe watermark",
        (instant("12:01:17", day=DAY), instant("12:04:00", day=DAY)),
        (instant("12:01:00", day=DAY), instant("12:04:40", day=DAY)),
        ha="center",
        arrowprops={"arrowstyle": "-", "color": INK, "linewidth": 0.9},
    )
    save(figure, "two-times")


def kinds_of_window() -> None:
    """The same events under four kinds of window, with the totals of the table."""
    kinds = [
        ("ps.fixed('2 minutes')", ps.fixed("2 minutes")),
        ("ps.sliding('2 minutes', every='1 minute')", ps.sliding("2 minutes", every="1 minute")),
        ("ps.cumulating('4 minutes', step='1 minute')", ps.cumulating("4 minutes", step="1 minute")),
        ("ps.session('40 seconds')", ps.session("40 seconds")),
    ]
    tables = [
        play(SCORES.window(window).agg(total=ps.sum("score")).allow_late("1 hour"), arrivals()).table
        for _, window in kinds
    ]
    depths = [max(_lanes(rows).values()) + 2 for rows in tables]
    figure, grid = plt.subplots(
        4, 1, figsize=(7.6, 8.6), sharex=True, gridspec_kw={"height_ratios": depths, "hspace": 0.32}
    )
    for axes, (name, _), rows, depth in zip(grid, kinds, tables, depths, strict=True):
        axes.set_xlim(instant("11:58:40", day=DAY), instant("12:09:10", day=DAY))
        axes.xaxis.set_major_locator(MultipleLocator(MINUTE, offset=DAY % MINUTE))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda at, _: _clock(int(at))[:5]))
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.grid(axis="x", color="#eef0f3", linewidth=0.8)
        axes.set_axisbelow(True)
        axes.tick_params(length=3)
        axes.set_title(name, loc="left", family="monospace", fontsize=10)
        lanes = _lanes(rows)
        for row in rows:
            low = -1.0 - lanes[row.window]
            axes.add_patch(
                Rectangle(
                    (row.window.start, low - 0.4),
                    row.window.end - row.window.start,
                    0.8,
                    facecolor=COLOURS["on time"],
                    edgecolor=EDGES["on time"],
                    linewidth=1.1,
                    alpha=0.6,
                )
            )
            middle = (row.window.start + row.window.end) / 2
            axes.annotate(_value(row), (middle, low), ha="center", va="center_baseline", fontweight="bold")
        for _, score, happened in ARRIVALS:
            at = instant(happened, day=DAY)
            axes.scatter([at], [0], s=130, color="white", edgecolor=INK, linewidth=1.1, zorder=5)
            axes.annotate(str(score), (at, 0), ha="center", va="center_baseline", fontsize=8.5, zorder=6)
        axes.set_ylim(0.5 - depth, 0.6)
    grid[-1].set_xlabel("event time")
    save(figure, "windows")


def _lanes(rows: Sequence[TableRow]) -> dict[Interval, int]:
    """The first lane in which a window does not cover another."""
    ends: list[int] = []
    lanes: dict[Interval, int] = {}
    for row in sorted(rows, key=lambda r: r.window):
        lane = next((i for i, end in enumerate(ends) if end <= row.window.start), len(ends))
        ends[lane : lane + 1] = [row.window.end]
        lanes[row.window] = lane
    return lanes


def early_on_time_late() -> None:
    """Early panes by the clock, one on time, and a late one."""
    view = (
        SCORES.window(ps.fixed("2 minutes"))
        .agg(total=ps.sum("score"))
        .trigger(ps.on_time(early=ps.every("1 minute"), late=ps.each()))
        .allow_late("1 hour")
    )
    played = play(view, arrivals("12:08:00", ticks="1 minute"))
    figure, axes = plt.subplots(figsize=(7.6, 5.2))
    plane(axes, "12:00:00", "12:08:00", "12:08:30")
    watermark(axes, played)
    panes(axes, played)
    events(axes, played, 170)
    legend(axes, "early", "on time", "late")
    save(figure, "early-on-time-late")


def three_accumulations() -> None:
    """The same input and trigger, and the three ways in which panes relate."""
    base = (
        SCORES.window(ps.fixed("2 minutes"))
        .agg(total=ps.sum("score"))
        .trigger(ps.on_time(early=ps.every("1 minute"), late=ps.each()))
        .allow_late("1 hour")
    )
    figure, grid = plt.subplots(1, 3, figsize=(11.4, 5), sharey=True)
    for axes, view in zip(grid, (base.discarding(), base.accumulating(), base.retracting()), strict=True):
        played = play(view, arrivals("12:05:40", ticks="1 minute"))
        plane(axes, "12:00:00", "12:04:00", "12:06:00", processing=axes is grid[0])
        watermark(axes, played)
        panes(axes, played)
        events(axes, played, 150)
        axes.set_title(f".{view.accumulation}()", loc="left", family="monospace")
    legend(grid[2], "early", "on time", "late", where="upper left")
    figure.tight_layout(w_pad=2)
    save(figure, "accumulation")


def bridged_sessions() -> None:
    """Two sessions, complete and shown, that a late event makes one."""
    view = SCORES.window(ps.session("1 minute")).agg(total=ps.sum("score")).retracting().allow_late("1 hour")
    before = [
        ("12:00:40", 5, "12:00:20"),
        ("12:01:10", 7, "12:00:50"),
        ("12:03:10", 3, "12:02:40"),
        ("12:03:40", 4, "12:03:10"),
        ("12:05:10", 2, "12:05:00"),
    ]
    late = ("12:06:00", 9, "12:01:45")
    figure, grid = plt.subplots(1, 2, figsize=(10.6, 4.9), sharey=True)
    for axes, events_of, title in (
        (grid[0], before, "two sessions, on time"),
        (grid[1], [*before, late], "the 9 comes late, and they are one"),
    ):
        script = TestStream(SCORES, clock="12:00:00")
        for at, score, happened in events_of:
            script = script.clock(at).add((score, happened))
        played = play(view, script)
        plane(axes, "12:00:00", "12:06:00", "12:06:30", processing=axes is grid[0])
        watermark(axes, played)
        panes(axes, played)
        events(axes, played, 170)
        axes.set_title(title, loc="left")
    legend(grid[1], "on time", "late")
    figure.tight_layout(w_pad=2)
    save(figure, "sessions")


def idle_partition() -> None:
    """Two partitions, one of which falls silent; then both."""
    stream = ps.stream(
        "scores", schema="score int, at timestamp", event_time="at", watermark=ps.bounded("30 seconds", idle="1 minute")
    )
    view = stream.window(ps.fixed("1 day")).agg(total=ps.sum("score"))
    arrivals = [
        ("12:00:30", 0, "12:00:20"),
        ("12:00:40", 1, "12:00:30"),
        ("12:01:10", 0, "12:01:00"),
        ("12:01:40", 0, "12:01:35"),
        ("12:02:10", 0, "12:02:00"),
        ("12:02:40", 0, "12:02:35"),
    ]
    script = TestStream(stream, clock="12:00:00")
    times = {instant(at, day=DAY): (partition, happened) for at, partition, happened in arrivals}
    for at in sorted({*times, *range(min(times), instant("12:05:00", day=DAY), MINUTE // 6)}):
        script = script.clock(_clock(at))
        if at in times:
            partition, happened = times[at]
            script = script.add((1, happened), partition=partition)
    played = play(view, script)
    figure, axes = plt.subplots(figsize=(7.2, 4.6))
    plane(axes, "12:00:00", "12:05:00", "12:05:00")
    watermark(axes, played)
    for partition, marker, label in ((0, "o", "partition 0"), (1, "s", "partition 1")):
        points = [(e.row["at"], m.now) for m in played.moments for e in m.events if e.partition == partition]
        xs, ys = zip(*points, strict=True)
        axes.scatter(xs, ys, s=70, marker=marker, color="white", edgecolor=INK, zorder=6, label=label)
    left_out = "partition 1 is silent\nfor a minute: it is left out"
    all_silent = "all are silent for a minute: event\ntime goes on as the clock does"
    notes = [
        ("12:01:05", "12:01:40", "12:01:52", "12:00:42", left_out),
        ("12:03:05", "12:03:45", "12:01:15", "12:04:20", all_silent),
    ]
    for x, y, text_x, text_y, text in notes:
        axes.annotate(
            text,
            (instant(x, day=DAY), instant(y, day=DAY)),
            (instant(text_x, day=DAY), instant(text_y, day=DAY)),
            arrowprops={"arrowstyle": "-", "color": INK, "linewidth": 0.9},
            fontsize=9.5,
            ha="left" if text_x > x else "center",
        )
    axes.legend(loc="lower right", frameon=True, edgecolor=FAINT, fontsize=9)
    save(figure, "idle")


#: The users whose rows each of four commits writes.
COMMITS = [
    ["ann", "bob", "cleo", "dan", "eve", "finn", "gus", "hal", "ida", "joe", "kim", "lea", "max", "nora", "olaf"],
    ["ann", "cleo", "finn", "ida", "quin"],
    ["ann", "dan", "hal", "max"],
    ["bob", "eve", "quin"],
]
BY_USER = Layout("rows", ("user",), (), {"user": pl.String(), "visits": pl.Int64()})
ALL_HASHES, SHARDS, TASKS = 2.0**64, 4, 2
FILE, FILE_EDGE = "#dfe9f3", "#4a90c2"


def segments() -> None:
    """The way of an epoch into segments; then real segments, before and after compaction."""
    figure = plt.figure(figsize=(11.4, 7.6))
    grid = figure.add_gridspec(2, 2, height_ratios=[1, 1.15], hspace=0.3, wspace=0.16)
    _way_into_segments(figure.add_subplot(grid[0, :]))
    with TemporaryDirectory() as directory:
        runs = [_written(directory, number, pl.DataFrame({"user": users})) for number, users in enumerate(COMMITS, 1)]
        every = [segment for run in runs for segment in run]
        merge, file = Merge(directory, BY_USER, tuple(every), is_oldest=True), SegmentFile(directory, "merged.arrow")
        for shard in shards(TASKS):
            merge.write(file, [shard])
        for column, listed, title in (
            (0, every, "four commits: of each row the newest version holds"),
            (1, file.close(), "after compaction: one run, no old versions"),
        ):
            axes = figure.add_subplot(grid[1, column])
            _draw_runs(axes, directory, listed)
            axes.set_title(title, loc="left", fontsize=10.5)
    save(figure, "segments")


def _written(directory: str, run: int, users: pl.DataFrame) -> list[Segment]:
    """The segments of a commit: two tasks write a file each."""
    rows = users.with_columns(pl.lit(run, pl.Int64).alias("visits"))
    listed: list[Segment] = []
    for task, part in enumerate(cut(rows, hashes(rows.select("user")), TASKS)):
        file = SegmentFile(directory, f"{run}-{task}.arrow")
        file.add(encoded("by_user", BY_USER, run, part))
        listed += file.close()
    return listed


def _draw_runs(axes: Axes, directory: str, listed: Sequence[Segment]) -> None:
    """Segments over the range of hashes, the newest on top, and how a reader looks for one user."""
    axes.set_xlim(-0.02 * ALL_HASHES, 1.02 * ALL_HASHES)
    axes.set_ylim(0.3, 5.35)
    axes.set_xticks([(shard.low + shard.high) / 2 for shard in shards(SHARDS)])
    axes.set_xticklabels([f"shard {number}" for number in range(SHARDS)])
    axes.set_xlabel("hash of the key")
    axes.tick_params(length=0)
    for shard in shards(SHARDS)[1:]:
        axes.axvline(float(shard.low), color=FAINT, linewidth=0.9, linestyle=(0, (4, 3)))
    runs = sorted({segment.run for segment in listed})
    axes.set_yticks(runs)
    axes.set_yticklabels([f"run {run}" for run in runs])
    where = float(hashes(pl.DataFrame({"user": ["ann"]}))[0])
    seen: set[str] = set()
    low = 0.0
    for segment in sorted(listed, key=lambda one: -one.run):
        mapped = MappedSegment(directory, segment)
        left = 0 if float(mapped.hashes[0]) < ALL_HASHES / 2 else ALL_HASHES / 2
        inset = ALL_HASHES * 0.004
        axes.add_patch(
            Rectangle(
                (left - inset, segment.run - 0.33), ALL_HASHES / 2 - inset, 0.66,
                facecolor=FILE, edgecolor=FILE_EDGE, linewidth=1, zorder=2,
            )
        )  # fmt: skip
        users = mapped.slice(0, segment.rows, ["user", GONE])["user"].to_list()
        for user, hashed in zip(users, mapped.hashes, strict=True):
            colour = FAINT if user in seen else INK
            low = segment.run if user == "ann" and user not in seen else low
            axes.scatter([float(hashed)], [segment.run], s=22, color=colour, zorder=4)
        seen.update(users)
    axes.plot([where, where], [4.85, low + 0.12], color=WATERMARK, linewidth=1.6, zorder=3)
    axes.annotate("user = 'ann'", (where, 4.9), ha="center", va="bottom", color=WATERMARK, fontsize=9.5)
    axes.scatter([where], [low], s=70, facecolor="none", edgecolor=WATERMARK, linewidth=1.6, zorder=5)


def _way_into_segments(axes: Axes) -> None:
    axes.set_xlim(-0.5, 103.5)
    axes.set_ylim(-0.5, 37)
    axes.axis("off")
    boxes = {
        "reduce": (0, 12, 15, 24, "tasks reduce\n\nrows in,\ndeltas out"),
        "spool": (22, 12, 15, 24, "spool files\n\ndeltas, packed\nby receiver"),
        "step": (44, 12, 17, 24, "tasks own shards\n\nmerge, fire,\nwrite one file,\nforce it to disk"),
        "commit": (72, 20, 14, 16, "commit\n\nlists segments"),
        "readers": (92, 20, 11, 16, "readers\n\nsee one\ncommit"),
        "compact": (72, 0, 14, 11, "compaction\nmerges runs"),
    }
    for name, (x, y, width, height, text) in boxes.items():
        is_driver = name == "commit"
        axes.add_patch(
            FancyBboxPatch(
                (x, y), width, height, boxstyle="round,pad=0,rounding_size=1",
                facecolor="#fdf3e3" if is_driver else "white", edgecolor="#c77414" if is_driver else INK, linewidth=1.1,
            )
        )  # fmt: skip
        axes.annotate(text, (x + width / 2, y + height / 2), ha="center", va="center", fontsize=9.5)
    arrows = [
        ((15, 24), (22, 24)), ((37, 24), (44, 24)), ((61, 28), (72, 28)), ((86, 28), (92, 28)),
        ((77, 20), (77, 11)), ((81, 11), (81, 20)),
    ]  # fmt: skip
    for begin, end in arrows:
        axes.annotate("", end, begin, arrowprops={"arrowstyle": "-|>", "color": INK, "linewidth": 1.1})
    axes.annotate("names,\npanes", (66.3, 32), ha="center", va="center", fontsize=8.5)
    axes.annotate(
        "few rows: the driver steps the view itself, without a Spark job", (30.5, 4.5), ha="center", va="center",
        fontsize=9, color="#6b7380",
    )  # fmt: skip


if __name__ == "__main__":
    two_times()
    kinds_of_window()
    early_on_time_late()
    three_accumulations()
    bridged_sessions()
    idle_partition()
    segments()
