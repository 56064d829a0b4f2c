"""What the killed app's views must hold: computed from the events in plain Python, without those recorded as late."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from pathlib import Path

from penstock.model.time import instant, to_datetime
from penstock.sinks.files import read_jsonl
from penstock.store import Reader

START = 1_714_564_800_000_000  # 2024-05-01T12:00:00Z
SECOND = 1_000_000


def made_up(count: int) -> list[dict]:
    """Events in disorder of up to 15 seconds; one in ten twice, one in thirty a minute late, some even later."""
    chance = random.Random(5)
    made = []
    for number in range(count):
        behind = chance.random() * 15 + chance.choices((0, 60, 150), (28, 1, 1))[0]
        at = START + int((number * 0.2 - behind) * SECOND)
        made.append({"id": number, "k": "abcdefghijkl"[number % 12], "v": chance.randrange(1000), "at": at})
        if chance.random() < 0.1:
            made.append(dict(made[-1]))
    return made


def check(root: Path, rows: Iterable[dict]) -> None:
    """Every view equals recomputation under the recorded decisions, and the files hold each pane once."""
    reader = Reader(root / "state")
    rows = list(rows)
    once = {row["id"]: row for row in rows}
    refused = reader.query("SELECT kind, view, row FROM __refused").rows()
    late = {
        view: {json.loads(row)["id"] for kind, of, row in refused if (kind, of) == ("late", view)} for view in VIEWS
    }
    assert sum(kind == "duplicate" for kind, _, _ in refused) == len(rows) - len(once)
    assert late["sessions"] > late["counts"], "the test has late events"
    for view, recomputed in VIEWS.items():
        expected = sorted(recomputed([row for row in once.values() if row["id"] not in late[view]]))
        columns = {"counts": "k, window_start, n, s", "sessions": "k, window_start, window_end, n, top"}
        found = reader.query(f"SELECT {columns.get(view, 'n, s, ids')} FROM {view}").rows()
        assert sorted(found) == expected, view
    _check_panes(root, reader)
    numbers = reader.query('SELECT count(*), max("number") FROM __commits').row(0)
    assert numbers[0] == numbers[1], "commits are numbered without gaps"
    reader.close()


def _check_panes(root: Path, reader: Reader) -> None:
    panes = reader.query('SELECT id, view, key, start, "end", "index", kind FROM __panes ORDER BY id')
    assert panes.drop("id").is_unique().all(), "a pane stands in the outbox twice"
    delivered = list(read_jsonl(root / "panes"))
    mine = panes.filter(panes["view"] == "sessions")["id"].to_list()
    assert [row["pane"] for row in delivered] == mine, "the files hold each pane once"
    standing: dict[tuple, tuple] = {}
    for row in delivered:
        window = (row["k"], instant(row["window_start"]), instant(row["window_end"]))
        if row["kind"] == "insert":
            assert window not in standing, "the pane before was taken back"
            standing[window] = (row["n"], row["top"])
        else:
            assert standing.pop(window) == (row["n"], row["top"]), "a pane is taken back as it was"
    table = reader.query("SELECT k, window_start, window_end, n, top FROM sessions").rows()
    shown = {(k, *map(instant, bounds)): (n, top) for k, *bounds, n, top in table}
    assert standing == shown, "what the sink was told last is what the table holds"


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


VIEWS = {"counts": _counts, "sessions": _sessions, "total": _total}


def _text(at: int) -> str:
    """An instant as the store shows it."""
    return to_datetime(at).strftime("%Y-%m-%d %H:%M:%S" + (".%f" if at % SECOND else ""))
