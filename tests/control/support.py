"""An app that reads files, and what its views must hold."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from penstock.app import App
from penstock.control import Live
from penstock.model.time import instant
from penstock.sql import define, parse

STREAM = """CREATE STREAM visits (page STRING, user STRING, ms INT, at TIMESTAMP,
    WATERMARK FOR at AS at - INTERVAL 10 SECONDS) FROM FILES '{folder}'"""
BY_PAGE = "CREATE CONTINUOUS VIEW by_page AS SELECT page, count(*) AS n, sum(ms) AS ms FROM visits GROUP BY page"
BY_USER = "CREATE CONTINUOUS VIEW by_user AS SELECT user, count(*) AS n FROM visits GROUP BY user"


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = instant("2024-05-01T13:00:00Z")

    def __call__(self) -> int:
        return self.now


def app(root: Path, *more: str) -> App:
    """An app with the stream `visits` and these views."""
    (root / "in").mkdir(exist_ok=True)
    made = App(root.name)
    for statement in parse(";".join([STREAM.format(folder=root / "in"), *more])):
        define(made, statement)
    return made


def started(root: Path, spark: object, *more: str, empty: bool = False, **options: object) -> Live:
    made = App(root.name) if empty else app(root, *more)
    settings = {"spark": spark, "tick": 3600.0, "clock": Clock(), **options}
    return Live(made, root / "state", **settings).start()


def put(root: Path, name: str, *visits: tuple[str, str, int, int], folder: str = "in") -> None:
    """A file of visits (page, user, ms, second) appears whole."""
    lines = [
        json.dumps({"page": p, "user": u, "ms": ms, "at": f"2024-05-01T12:{at // 60:02}:{at % 60:02}Z"})
        for p, u, ms, at in visits
    ]
    hidden = root / f".{name}"
    hidden.write_text("\n".join(lines) + "\n")
    hidden.rename(root / folder / f"{name}.json")


def counted(visits: list[tuple[str, str, int, int]], by: int) -> dict[str, int]:
    return dict(Counter(visit[by] for visit in visits))


def table(live: Live, sql: str) -> dict[str, int]:
    return dict(live.store.query(sql).iter_rows())
