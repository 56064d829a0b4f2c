"""Models on Spark against the reference: the same predictions and versions to the last bit, over restarts."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import penstock as ps
from penstock.app import App
from penstock.errors import DefinitionError
from penstock.history.events.event_history import EventHistory
from penstock.learning import Factors, LinearRegression, Rates, load
from penstock.learning.errors import LearningError
from penstock.store import Reader
from penstock.testing import TestStream, learn

SCHEMA = "user string, item int, stars double, at timestamp"
FILES, ROWS = 5, 40


class Odd(ps.Model):
    """Fails wherever it is told to."""

    def initial(self):
        return {"n": np.zeros(1)}

    def predict(self, model, rows):
        return {"prediction": np.zeros(rows.height), "loss": np.zeros(rows.height)}

    def learn(self, model, rows):
        raise ZeroDivisionError("so it is")


def made() -> list[list[dict]]:
    """Ratings, file by file; some without a user, with no rating, and one that no model can take."""
    chance = random.Random(3)
    files = []
    for file in range(FILES):
        rows = [
            {"user": f"u{chance.randrange(9)}", "item": chance.randrange(6), "stars": float(chance.randrange(1, 6)),
             "at": f"2000-01-01T12:{file:02}:{number:02}Z"}
            for number in range(ROWS)
        ]  # fmt: skip
        files.append(rows)
    files[1][3]["user"] = None
    files[1][4]["stars"] = None
    files[2][5]["stars"] = 1e308
    return files


def define(root: Path) -> App:
    app = App("learning")
    ratings = app.stream(
        "ratings", ps.files(root / "in", files_per_epoch=1), schema=SCHEMA, event_time="at", max_ahead=None,
        watermark=ps.bounded("10 seconds", idle=None),
    )  # fmt: skip
    time = {"event_time": "at", "watermark": ps.bounded("10 seconds", idle=None), "max_ahead": None}
    live = app.learn(
        "live", ratings, Factors("user", "item", "stars", factors=3), give=("user", "item", "at"), by="user",
        partitions=3, versions=3, **time,
    )  # fmt: skip
    app.learn(
        "line", ratings.where("stars < 100").select("user", "stars", "at", x="item / 6D"),
        LinearRegression(("x",), "stars"), give=("user", "at"), train_when="user <> 'u1'", versions=2, every=2, **time,
    )  # fmt: skip
    app.learn(
        "liked", ratings.where("stars < 100").select("user", "stars > 3 AS yes"), Rates("user", "yes"), partitions=5
    )
    app.view("error", live.group_by().window(ps.fixed("1 minute")).agg(n=ps.count(), loss=ps.avg("loss")))
    return app


def put(root: Path, number: int, rows: list[dict]) -> None:
    (root / "in").mkdir(exist_ok=True)
    (root / "in" / f"{number}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))


def same(found: pl.DataFrame, wanted: pl.DataFrame) -> None:
    assert found.height
    assert sorted(found.select(wanted.columns).rows(), key=repr) == sorted(wanted.rows(), key=repr)


@pytest.mark.deep
def test_on_spark_models_predict_and_learn_what_the_reference_does(spark, tmp_path):
    (tmp_path / "in").mkdir()
    files, app = made(), define(tmp_path)
    for first in (0, 2):
        run = app.start(tmp_path / "run", spark=spark, tick=3600.0)
        for number in range(first, 2 if first == 0 else FILES):
            put(tmp_path, number, files[number])
            run.catch_up()
        before = {name: run.model(name).version for name in ("live", "line", "liked")}
        assert before == dict.fromkeys(before, 2 if first == 0 else FILES)
        if first:
            answers = run.model("live").predict(pl.DataFrame({"user": ["u1", "nobody"], "item": [2, 3]}))
            assert answers["prediction"].null_count() == 0
            with pytest.raises(DefinitionError, match="unknown version of the model '1'"):
                run.model("live", version=1)
            assert Factors("user", "item", "stars", factors=3).recommend(run.model("live"), "u1", 2).height == 2
        run.stop()

    script = TestStream(app.streams["ratings"])
    for rows in files:
        script = script.add(*rows)
    reader = Reader(tmp_path / "run")
    for name in ("live", "line", "liked"):
        stream, again = app.streams[name], learn(app.streams[name], tmp_path / "run")
        kept = EventHistory(reader).past(stream).read()
        same(kept, again.frame)
        stored = load(tmp_path / "run", name, learning=stream.log.learning)
        assert [one.number for one in stored.versions] == [one.number for one in versions(again)]
        wanted = again.memory.all().sort("part", "key")
        rows = reader.query(f'SELECT part, key, value FROM "__memory_{name}"').sort("part", "key")
        assert without_times(rows) == without_times(wanted)
        if name != "line":  # its parts go by places, and those of a script are others
            played = learn(stream, script)
            same(kept, played.frame)
            assert {part: again.model()[part].tolist() for part in again.model()} == {
                part: played.model()[part].tolist() for part in played.model()
            }
            assert len(again.dead) == len(played.dead)
        assert reader.counters().get(f"{name}.dead", 0) == len(again.dead)
    assert reader.counters()["live.dead"] == 2
    assert [one.number for one in load(tmp_path / "run", "live").versions] == [3, 4, 5]
    assert [one.number for one in load(tmp_path / "run", "line").versions] == [0, 2, 4, 5]
    was = load(tmp_path / "run", "live", 3).all_of("user")
    assert was["user"].shape == (9, 4)
    assert was["user"].tolist() != load(tmp_path / "run", "live").all_of("user")["user"].tolist()
    assert reader.query("SELECT sum(n) FROM error").item() == FILES * ROWS - 2
    reader.close()


def versions(again):
    from penstock.learning.versions import kept

    return kept(again.memory)


def without_times(memory: pl.DataFrame) -> list[tuple]:
    """What is remembered, but for when."""
    import msgpack

    return [
        (part, key, msgpack.unpackb(value)[::2] if part == "version" else value)
        for part, key, value in memory.iter_rows()
    ]


def test_a_model_that_fails_on_all_rows_ends_the_run_with_its_name(spark, tmp_path):
    app = App("odd")
    numbers = app.stream("numbers", ps.files(tmp_path / "in"), schema="n bigint")
    app.learn("guesses", numbers, Odd)
    put(tmp_path, 1, [{"n": n} for n in range(3000)])  # more than 100 for each part
    run = app.start(tmp_path / "run", spark=spark, tick=3600.0)
    with pytest.raises(Exception, match=r"the model Odd fails in learn on more than 100 rows .*so it is"):
        run.catch_up()
    run.stop()
    with pytest.raises(DefinitionError, match="unknown model 'gueses'"):
        load(tmp_path / "run", "gueses")
    assert issubclass(LearningError, ps.PenstockError)
