"""The audit that ends every fault: all views, sinks and counters compared with recomputation from what was produced.

What a run decides by its clock and by how it cuts epochs, which event was late for which view, is recorded in the
store: the recomputation takes that from there, and nothing else. It is plain Python and shares no code with the engine.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from penstock.history.savepoints import listed
from penstock.model.time import instant, to_datetime
from penstock.query.ask import Questions
from penstock.sinks.files import read_jsonl
from penstock.store import Reader
from penstock.store.reader import InSegments
from tests import outbox

START = 1_714_564_800_000_000  # 2024-05-01T12:00:00Z
SECOND = 1_000_000


def made_up(count: int, seed: int = 5) -> list[dict]:
    """Events in disorder of up to 15 seconds; one in ten twice, one in thirty a minute late, some even later."""
    chance = random.Random(seed)
    made = []
    for number in range(count):
        behind = chance.random() * 15 + chance.choices((0, 60, 150), (28, 1, 1))[0]
        at = START + int((number * 0.2 - behind) * SECOND)
        made.append({"id": number, "k": "abcdefghijkl"[number % 12], "v": chance.randrange(1000), "at": at})
        if chance.random() < 0.1:
            made.append(dict(made[-1]))
    return made


@dataclass
class Audit:
    """What was produced: events in any order, some of them twice, and so many messages that are not events (`dead`).

    User code fails on so many events (`poison`), which other views have. `panes` is the directory of the view
    'sessions'’ sink, `messages` what readers of its topic have seen.
    """

    state: Path
    rows: Sequence[dict]
    dead: int = 0
    panes: Path | None = None
    messages: Sequence[Any] | None = None
    poison: int = 0

    def run(self) -> dict[str, set[int]]:
        """Compares everything; by view the ids of the events that were late for it."""
        reader = Reader(self.state)
        try:
            late = self._late(reader)
            self._views(reader, late)
            self._added(reader)
            self._counters(reader, late)
            self._commits(reader)
            self._outbox(reader)
            if self.panes is not None:
                self._sink(reader, list(read_jsonl(self.panes)))
            if self.messages is not None:
                self._sink(reader, self._received())
            assert not [name for name, _ in listed(self.state)], "a savepoint that was not taken to its end"
            return late
        finally:
            reader.close()

    # views

    @property
    def _once(self) -> dict[int, dict]:
        return {row["id"]: row for row in self.rows}

    def _late(self, reader: Reader) -> dict[str, set[int]]:
        refused = reader.query("SELECT view, row FROM __refused WHERE kind = 'late'").rows()
        return {view: {json.loads(row)["id"] for of, row in refused if of == view} for view in VIEWS}

    def _views(self, reader: Reader, late: dict[str, set[int]]) -> None:
        for view, (columns, recomputed) in VIEWS.items():
            expected = sorted(recomputed([row for row in self._once.values() if row["id"] not in late[view]]))
            found = sorted(rows_of(reader, columns, view))
            assert found == expected, f"{view}: {set(found) ^ set(expected)}"

    def _added(self, reader: Reader) -> None:
        """A view that was added while the app ran has the events of the commits since."""
        since = [entry.since for entry in reader.catalog() if entry.name == "added"]
        if since:
            commits = reader.query("SELECT rows FROM __commits WHERE kind = 'epoch' AND number > ?1", since)
            refused = reader.query("SELECT count(*) FROM __refused WHERE kind <> 'late' AND \"commit\" > ?1", since)
            came = sum(count for (count,) in commits.rows()) - refused.item()
            assert reader.query("SELECT coalesce(sum(n), 0) FROM added").item() == came, "added"

    # counters and commits

    def _counters(self, reader: Reader, late: dict[str, set[int]]) -> None:
        counted = reader.counters()
        expected = {
            "events": len(self.rows) + self.dead,
            "late": sum(map(len, late.values())),
            "duplicate": len(self.rows) - len(self._once),
            "dead": self.dead + self.poison,
        }
        assert {kind: counted.get(f"events.{kind}", 0) for kind in expected} == expected, "counters"
        kept = dict(reader.query("SELECT kind, count(*) FROM __refused GROUP BY kind").rows())
        assert kept == {kind: n for kind, n in expected.items() if n and kind != "events"}, "refused rows"

    def _commits(self, reader: Reader) -> None:
        """No commit and no epoch is missing, and none is there twice; time does not go back."""
        numbers = [number for (number,) in reader.query("SELECT number FROM __commits ORDER BY number").rows()]
        assert numbers == list(range(1, len(numbers) + 1)), "commits"
        epochs = reader.query("SELECT query, epoch FROM __commits WHERE kind = 'epoch' ORDER BY number").rows()
        for query in {query for query, _ in epochs}:
            mine = [epoch for of, epoch in epochs if of == query]
            assert mine == list(range(len(mine))), f"epochs of {query}"

    # sinks

    def _outbox(self, reader: Reader) -> None:
        panes = outbox.panes(reader).select("view", "key", "start", "end", "index", "kind")
        assert panes.is_unique().all(), "a pane stands in the outbox twice"

    def _received(self) -> list[dict]:
        """The messages of a topic as rows of a file, in the order of the panes; of a key they came in that order."""
        rows, last = [], {}
        for message in self.messages or ():
            told = {name: value.decode() for name, value in message.headers()}
            row = {**json.loads(message.value()), "pane": int(told["pane"]), "kind": told["kind"]}
            assert last.get(message.key(), 0) < row["pane"], "the panes of a key are in order"
            last[message.key()] = row["pane"]
            rows.append(row)
        return sorted(rows, key=lambda row: row["pane"])

    def _sink(self, reader: Reader, delivered: list[dict]) -> None:
        mine = outbox.panes(reader).filter(view="sessions")["id"].to_list()
        assert [row["pane"] for row in delivered] == mine, "the sink has each pane once"
        standing: dict[tuple, tuple] = {}
        for row in delivered:
            window = (row["k"], instant(row["window_start"]), instant(row["window_end"]))
            if row["kind"] == "insert":
                assert window not in standing, "the pane before was taken back"
                standing[window] = (row["n"], row["top"])
            else:
                assert standing.pop(window) == (row["n"], row["top"]), "a pane is taken back as it was"
        table = rows_of(reader, "k, window_start, window_end, n, top", "sessions")
        shown = {(k, *map(instant, bounds)): (n, top) for k, *bounds, n, top in table}
        assert standing == shown, "what the sink was told last is what the table holds"


def rows_of(reader: Reader, columns: str, view: str) -> list[tuple]:
    """The rows of a view, wherever they are kept, with times as the store shows them."""
    sql = f"SELECT {columns} FROM {view}"
    try:
        return reader.query(sql).rows()
    except InSegments:
        rows = Questions(reader).ask(sql).table.to_pylist()
        return [tuple(_text(instant(v)) if isinstance(v, datetime) else v for v in row.values()) for row in rows]


# recomputation


def _counts(rows: list[dict]) -> Iterable[tuple]:
    found: dict[tuple, list[int]] = {}
    for row in rows:
        found.setdefault((row["k"], row["at"] - row["at"] % (10 * SECOND)), []).append(row["v"])
    return ((k, _text(at), len(values), sum(values)) for (k, at), values in found.items())


def _sessions(rows: list[dict]) -> Iterable[tuple]:
    found: dict[str, list[list[dict]]] = {}
    for row in sorted(rows, key=lambda row: row["at"]):
        mine = found.setdefault(row["k"], [])
        if mine and row["at"] - mine[-1][-1]["at"] <= 3 * SECOND:
            mine[-1].append(row)
        else:
            mine.append([row])
    for k, sessions in found.items():
        for of in sessions:
            yield k, _text(of[0]["at"]), _text(of[-1]["at"] + 3 * SECOND), len(of), max(row["v"] for row in of)


def _total(rows: list[dict]) -> Iterable[tuple]:
    return [(len(rows), sum(row["v"] for row in rows), len(rows))]


def _beats(rows: list[dict]) -> Iterable[tuple]:
    return [(len(rows),)]


#: By view its columns, and what they must be.
VIEWS: dict[str, tuple[str, Callable[[list[dict]], Iterable[tuple]]]] = {
    "counts": ("k, window_start, n, s", _counts),
    "sessions": ("k, window_start, window_end, n, top", _sessions),
    "total": ("n, s, ids", _total),
    "beats": ("n", _beats),
}


def _text(at: int) -> str:
    """An instant as the store shows it."""
    return to_datetime(at).strftime("%Y-%m-%d %H:%M:%S" + (".%f" if at % SECOND else ""))
