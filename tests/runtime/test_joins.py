"""Two streams joined in the epochs of both, against the reference: rows, late events, restarts, events at the bounds.

What has no partner must come when the reference gives it out, without any further event.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.app import App
from penstock.history.events.event_history import EventHistory
from penstock.runtime.run import Run
from penstock.testing import TestStream, join
from tests.strategies import DEEP

LEFT, RIGHT = "ad int, user string, at timestamp", "ad bigint, place string, seen timestamp"
Epoch = tuple[str, list[tuple]]
#: Files, each an epoch; the last two take time past everything.
EPOCHS = [
    ("clicks", [(1, "a", "12:00:00"), (2, "b", "12:00:10"), (None, "n", "12:00:10")]),
    ("shown", [(1, "p", "11:59:30"), (1, "q", "11:59:29"), (1, "r", "12:00:05"), (2, "s", "12:00:16")]),
    ("shown", [(3, "t", "12:01:00"), (2, "u", "12:00:15")]),
    ("clicks", [(3, "c", "12:01:30"), (3, "d", "12:01:31")]),
    ("clicks", [(1, "late", "12:00:01"), (3, "e", "12:00:55")]),
    ("shown", [(3, "v", "12:02:00"), (9, "w", "12:02:00")]),
    ("shown", [(3, "late", "12:00:59"), (3, "x", "12:01:35")]),
    ("clicks", [(7, "end", "13:00:00")]),
    ("shown", [(8, "end", "13:00:00")]),
]


def define(root: Path, **said) -> tuple[App, list[ps.Stream], ps.Stream]:
    app = App("ads")
    made = [
        app.stream(
            name, ps.files(root / name, files_per_epoch=1), schema=schema, event_time=time,
            watermark=ps.bounded("10 seconds", idle=None), max_ahead=None,
        )
        for name, schema, time in (("clicks", LEFT, "at"), ("shown", RIGHT, "seen"))
    ]  # fmt: skip
    joined = app.join(
        "matched", made[0].where("user <> 'no'"), made[1], on="ad", event_time="coalesce(at, seen)",
        watermark=ps.bounded("1 minute", idle=None), max_ahead=None, **said,
    )  # fmt: skip
    app.view("by_place", joined.group_by("place").agg(n=ps.count()))
    return app, made, joined


def put(root: Path, number: int, name: str, rows: list[tuple]) -> None:
    schema = LEFT if name == "clicks" else RIGHT
    columns = [part.split()[0] for part in schema.split(", ")]
    told = [{**dict(zip(columns, row, strict=True)), columns[2]: f"2000-01-01T{row[2]}Z"} for row in rows]
    hidden = root / name / f".{number}.json"
    hidden.write_text("".join(json.dumps(row) + "\n" for row in told))
    hidden.rename(root / name / f"{number}.json")


def made_up(chance: random.Random, count: int) -> list[Epoch]:
    """Epochs of both streams, mostly in order; times that lie a millisecond or a microsecond beside the bounds."""
    found: list[Epoch] = []
    for number in range(count):
        rows = []
        for one in range(chance.randint(1, 6)):
            second = max(0, number * 8 + chance.randint(-25, 5))
            part = chance.choice([0, 0, 1, 999, 1000, 1001, 2000, 999_000, 999_999])
            time = f"12:{second // 60:02}:{second % 60:02}.{part:06}"
            rows.append((chance.choice([1, 2, None]), f"e{number}.{one}", time))
        found.append((chance.choice(["clicks", "shown"]), rows))
    return [*found, *EPOCHS[-2:]]


def want(root: Path, epochs: list[Epoch], **said) -> tuple[Counter, Counter]:
    """The rows that have come out after these epochs, and the events that were late."""
    _, streams, joined = define(root, **said)
    script = TestStream(*streams)
    for name, rows in epochs:
        script = script.add(*rows, to=name)
    found = join(joined, script)
    late = Counter(one.event.row.get("user", one.event.row.get("place")) for one in found.late)
    return Counter((row[1], row[3]) for row in found.rows), late


def come(run: Run, joined: ps.Stream) -> Counter:
    return Counter(EventHistory(run.store).past(joined).read().select("user", "place").iter_rows())


def compare(spark, root: Path, epochs: list[Epoch], restart: int, said: dict[str, Any]) -> None:
    """Runs the epochs one after the other; after each, all that the reference gives comes by itself, and no more."""
    for name in ("clicks", "shown"):
        (root / name).mkdir()
    for first, last in ((0, restart), (restart, len(epochs))):
        app, _, joined = define(root, **said)
        run = app.start(root / "state", spark=spark, tick=0.2)
        try:
            for number in range(first, last):
                put(root, number, *epochs[number])
                run.catch_up()
                rows, late = want(root, epochs[: number + 1], **said)
                for _ in range(1200):
                    if come(run, joined) == rows:
                        break
                    run.wait(0.1)
                assert come(run, joined) == rows, number
            refused = run.store.query("SELECT row FROM __refused WHERE kind = 'late' AND stream = 'matched'")
            told = Counter(row.get("user", row.get("place")) for row in map(json.loads, refused.to_series()))
            assert told == late
            assert run.store.counters().get("matched.late", 0) == late.total()
            assert run.store.query("SELECT coalesce(sum(n), 0) FROM by_place").item() == rows.total()
        finally:
            run.stop()
    assert late.total() > 0 or epochs is not EPOCHS


WITHIN = ("-30 seconds", "5 seconds")
#: All but three are for the deep run. By default Nexmark joins on Spark too.
KINDS: dict[str, dict[str, Any]] = {
    "left": {"how": "left", "within": WITHIN},
    "right": {"how": "right", "within": WITHIN},
    "full": {"how": "full", "within": WITHIN},
    "inner": {"how": "inner", "within": WITHIN},
    "window": {"how": "inner", "window": ps.fixed("1 minute")},
    "window full": {"how": "full", "window": ps.fixed("1 minute", offset="10 seconds")},
    "window left": {"how": "left", "window": ps.fixed("10 seconds")},
    "exclusive": {"how": "full", "within": WITHIN, "bounds": "exclusive"},
}
USUAL = KINDS if DEEP else ["left", "full", "window full"]


@pytest.mark.parametrize("said", [KINDS[kind] for kind in USUAL], ids=USUAL)
def test_spark_joins_as_the_reference_does_over_restarts(spark, tmp_path, said):
    compare(spark, tmp_path, EPOCHS, 5, said)


@pytest.mark.skipif(not DEEP, reason="for the deep run")
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("how", ["left", "right", "full"])
@pytest.mark.parametrize("meet", [{"within": ("-10 seconds", "3.5 seconds")}, {"window": ps.fixed("10 seconds")}])
def test_random_streams_are_joined_as_the_reference_does(spark, tmp_path, seed, how, meet):
    compare(spark, tmp_path, made_up(random.Random(seed), 10), 6, {"how": how, **meet})


def test_another_definition_of_the_same_name_is_rejected(spark, tmp_path):
    for name in ("clicks", "shown"):
        (tmp_path / name).mkdir()
    put(tmp_path, 0, *EPOCHS[0])
    run = define(tmp_path, within=WITHIN)[0].start(tmp_path / "state", spark=spark)
    try:
        run.catch_up()
    finally:
        run.stop()
    with pytest.raises(ps.DefinitionError, match="'matched' had another definition"):
        define(tmp_path, within=("-1 minute", "0 seconds"))[0].start(tmp_path / "state", spark=spark)
