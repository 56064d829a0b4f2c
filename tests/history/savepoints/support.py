"""An app without Spark: a store, and a checkpoint that is written as Spark writes one."""

from __future__ import annotations

import json
from pathlib import Path

import penstock as ps
from penstock.kernel.plan import Plan
from penstock.store import Commit, SqliteStore

NOON = 1_714_564_800_000_000
VISITS = ps.stream(
    "visits", schema="page string, at timestamp", event_time="at", watermark=ps.bounded("1 second"), max_ahead=None
)
BY_PAGE = VISITS.group_by("page").window(ps.fixed("10 seconds")).agg(n=ps.count())
HEAD = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}\n'
#: As Spark does by default.
KEPT, COMPACTED = 100, 10


class Written:
    """An app of one stream, epoch by epoch. Each epoch reads one file."""

    def __init__(self, directory: Path, *, query: str = "q-1") -> None:
        self.directory, self.query, self.epoch = directory, query, -1
        self.checkpoint = directory / "checkpoints" / "visits"
        self.store = SqliteStore.open(directory)
        self.store.lock()
        self.store.prepare({"by_page": Plan(BY_PAGE)})
        self.put("metadata", json.dumps({"id": query}))

    def put(self, name: str, text: str) -> None:
        path = self.checkpoint / name
        path.parent.mkdir(parents=True, exist_ok=True)
        hidden = path.with_name(f".{path.name}.tmp")
        hidden.write_text(text)
        hidden.rename(path)

    def announce(self) -> None:
        """Spark has found a file, and cut the next epoch."""
        self.epoch += 1
        last = (self.epoch + 1) % COMPACTED == 0
        entries = [self.entry(number) for number in (range(self.epoch + 1) if last else [self.epoch])]
        self.put(f"sources/0/{self.epoch}{'.compact' if last else ''}", "\n".join(["v1", *entries]))
        self.put(f"offsets/{self.epoch}", HEAD + self.offsets)

    @property
    def offsets(self) -> str:
        return json.dumps({"logOffset": self.epoch}, separators=(",", ":"))

    @staticmethod
    def entry(number: int) -> str:
        return json.dumps({"path": f"file:///in/{number}.json", "timestamp": number, "batchId": number})

    def commit(self) -> None:
        """The engine has committed the epoch."""
        self.store.commit(
            Commit(
                "epoch", NOON + self.epoch, self.query, self.epoch, self.offsets,
                view_times={"by_page": NOON + self.epoch}, counters={"visits.events": 10},
            )
        )  # fmt: skip

    def done(self) -> None:
        """Spark marks the epoch as done, and deletes what is old."""
        self.put(f"commits/{self.epoch}", 'v1\n{"nextBatchWatermarkMs":0}')
        old = self.epoch - KEPT
        for name in (f"offsets/{old}", f"commits/{old}"):
            (self.checkpoint / name).unlink(missing_ok=True)

    def run(self, epochs: int) -> Written:
        for _ in range(epochs):
            self.announce()
            self.commit()
            self.done()
        return self


def names(folder: Path) -> list[str]:
    """What a folder of a checkpoint holds, by number."""
    return sorted((path.name for path in folder.iterdir()), key=lambda name: int(name.split(".")[0]))
