"""An app that lives without Spark: a thread steps the kernel with made-up posts and commits to a store."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from random import Random

import polars as pl

import penstock as ps
from penstock.app import App
from penstock.kernel.admit import admit
from penstock.kernel.fire import Time
from penstock.kernel.local import events_frame
from penstock.kernel.plan import Plan
from penstock.kernel.reduce import reduce
from penstock.kernel.step import step
from penstock.model.commits import Event
from penstock.model.time import BEGINNING
from penstock.model.watermarks import Tracker
from penstock.store import Commit, SqliteStore
from penstock.store.arrivals import Ages, Arrivals, DeliveryTime
from penstock.store.audits import AuditRecord
from penstock.store.figures import Figures, Intake, Lateness
from penstock.store.file import File
from penstock.store.marks import Mark, ReaderTime

SECOND = 1_000_000
TAGS = (
    "rain", "football", "election", "recipes", "chess", "comet", "festival", "traffic", "jazz", "tennis", "markets",
    "gardening", "opera", "cycling", "robots", "glacier", "books", "surfing", "pottery", "volcano",
)  # fmt: skip
COUNTRIES = ("AT", "BR", "DE", "IN", "JP")


def app() -> App:
    """Posts, and views of all shapes over them."""
    made = App("trending")
    posts = made.stream(
        "posts", ps.http("posts"), schema="id bigint, tag string, country string, likes int, at timestamp",
        event_time="at", watermark=ps.bounded("4 seconds"),
    )  # fmt: skip
    windows = ps.fixed("10 seconds")
    made.view(
        "trending",
        posts.group_by("tag").window(windows).agg(posts=ps.count(), likes=ps.sum("likes"))
        .trigger(ps.on_time(early=ps.every("3 seconds"))).allow_late("10 seconds"),
    )  # fmt: skip
    made.view("by_country", posts.group_by("country").window(windows).agg(posts=ps.count(), likes=ps.avg("likes")))
    made.view("top_tags", posts.group_by("tag").agg(posts=ps.count()))
    made.view("totals", posts.group_by().agg(posts=ps.count(), likes=ps.sum("likes")))
    made.sink("trending", ps.to_jsonl("panes"), name="trending_jsonl")
    made.sink("totals", ps.to_function(print), name="totals_alerts")
    return made


class LiveApp:
    """Commits epochs, by hand with `commit` or from a thread between `start` and `stop`."""

    def __init__(self, directory: Path) -> None:
        self.app, self.directory = app(), directory
        self.stream = self.app.streams["posts"]
        self.store = SqliteStore.open(directory)
        self.store.lock()
        self.plans = {name: Plan(view) for name, view in self.app.views.items()}
        self.store.prepare(self.plans)
        self.store.note_graph(self.app.graph().to_json())
        self.store.keep_history({"posts": ("all", self.stream.schema.ddl())}, None)
        self._tracker = Tracker(self.stream.watermark)
        self._chance, self._posts, self._epoch = Random(1), 0, 0
        self._stopping, self._thread = threading.Event(), threading.Thread(target=self._live, daemon=True)
        now = int(time.time() * SECOND)
        for name, view in self.app.views.items():
            self.store.generations.note_definition(name, repr(view), None, now)
        for place, name in enumerate(("trending", "totals")):
            found = AuditRecord(now, name, 0, 480 - 479 * place, 120_000, 0, "[]", None, 1.7 - place)
            self.store.records.note_audit(found)

    def commit(self, now: int | None = None) -> int:
        """One epoch. Some posts are late, and one of its rows is not a post at all."""
        now, began = int(time.time() * SECOND) if now is None else now, time.perf_counter()
        posts = self._chance.randrange(300, 420)
        before = self._tracker.watermark
        events = [self._post(now) for _ in range(posts)]
        admitted = admit(self.stream, events_frame(self.stream, events, 0), now, self._tracker.newest)
        self._tracker.advance(admitted.observed, now=now)
        after = self._tracker.watermark
        reduced = {name: reduce(plan, "posts", admitted.rows, before) for name, plan in self.plans.items()}
        middle = time.perf_counter()
        at = Time(before, after, now, lambda percent: after)
        changes = {n: step(self.plans[n], [r.deltas], self.store.state(n), at) for n, r in reduced.items()}
        refused = self._refused(events, {name: part.late for name, part in reduced.items()}, now)
        done = time.perf_counter()
        late = refused["late"]["offset"].n_unique()
        ages = Ages.of([self._chance.lognormvariate(5.5, 0.5) for _ in range(posts)])
        arrivals = Arrivals(ages, lambda: now + 120_000)
        figures = Figures(posts, Lateness(late, refused["late"].height), Intake(behind=0), arrivals=arrivals)
        times = [{"trending": ReaderTime(("posts",), mark)} for mark in (before, after)]
        number = self._epoch + 1
        self.store.commit(
            Commit(
                kind="epoch", now=now, query="q", epoch=self._epoch, offsets=f'{{"number": {number}}}',
                changes=changes, view_times=dict.fromkeys(self.plans, after), refused=refused, figures=figures,
                timings={"reduce": middle - began, "merge": done - middle}, mark=Mark.of("posts", *times),
                trackers={"posts": self._tracker.snapshot()},
                counters={
                    "posts.events": posts, "posts.late_events": late,
                    **{f"posts.{kind}": rows.height for kind, rows in refused.items()},
                },
                files=[File(f"posts/{number}", "posts", "events", number, number, posts, 40 * posts, "", now, now)],
            )
        )  # fmt: skip
        self._epoch = number
        newest = self.store.query("SELECT value FROM __meta WHERE name = 'panes'").item()
        self.store.delivered({"trending_jsonl": newest}, [DeliveryTime("trending_jsonl", number, now + 200_000)])
        self.store.delivered({"totals_alerts": max(0, newest - 12)})
        return number

    def _post(self, now: int) -> Event:
        chance = self._chance
        self._posts += 1
        rank = min(int(chance.paretovariate(0.9)) - 1, len(TAGS) - 1)
        tag = TAGS[(rank + now // (12 * SECOND)) % len(TAGS)]
        behind = 75.0 if self._epoch and chance.random() < 0.002 else chance.uniform(0, 3)
        country = chance.choices(COUNTRIES, (2, 5, 3, 6, 4))[0]
        row = {"id": self._posts, "tag": tag, "country": country, "likes": chance.randrange(50)}
        return Event("posts", {**row, "at": now - int(behind * SECOND)}, 0, self._posts)

    def _refused(self, events: list[Event], late: dict[str, pl.DataFrame], now: int) -> dict[str, pl.DataFrame]:
        known = {event.offset: event.row for event in events}
        rows = [
            _refusal(view, offset, known[offset]["at"], f"{missed} of its {windows} windows had closed", known[offset])
            for view, frame in late.items()
            for offset, missed, windows in frame.select("__offset", "__missed", "__windows").rows()
        ]
        self._posts += 1
        broken = {"id": self._posts, "tag": "<b>rain</b>", "likes": "many", "at": "yesterday"}
        dead = [_refusal(None, self._posts, None, "the column 'likes' holds no int: 'many'", broken)]
        return {"late": _frame(rows), "dead": _frame(dead)}

    def start(self) -> LiveApp:
        """Goes on by itself, about once a second."""
        self._thread.start()
        return self

    def _live(self) -> None:
        while not self._stopping.wait(0.9):
            self.commit()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        self.store.close()


def _refusal(view: str | None, offset: int, at: int | None, reason: str, row: dict[str, object]) -> dict[str, object]:
    return {"stream": "posts", "view": view, "partition": 0, "offset": offset, "at": at, "reason": reason,
            "row": json.dumps(row), "missed": 1, "windows": 1}  # fmt: skip


def _frame(rows: list[dict[str, object]]) -> pl.DataFrame:
    kinds = {
        "stream": pl.String(), "view": pl.String(), "partition": pl.Int32(), "offset": pl.Int64(), "at": pl.Int64(),
        "reason": pl.String(), "row": pl.String(), "missed": pl.Int64(), "windows": pl.Int64(),
    }  # fmt: skip
    return pl.DataFrame(rows, schema=kinds)


def filled(directory: Path, seconds: int = 90) -> LiveApp:
    """An app with a past of so many seconds."""
    made, now = LiveApp(directory), int(time.time() * SECOND)
    assert made.stream.watermark is not None
    assert made._tracker.watermark == BEGINNING
    for ago in range(seconds, 0, -1):
        made.commit(now=now - ago * SECOND)
    return made
