"""Models without Spark: they predict before they learn, in parts, by versions; what fails is told."""

from __future__ import annotations

import random

import numpy as np
import polars as pl
import pytest

import penstock as ps
from penstock.app import App
from penstock.errors import DefinitionError
from penstock.kernel.expressions import dtype
from penstock.learning import Factors, LinearRegression, LogisticRegression, Rates, Weights, spread, summed
from penstock.learning.errors import LearningError
from penstock.learning.played import LearningRun
from penstock.learning.versions import kept
from penstock.testing import TestStream, learn

SCHEMA = "id bigint, user string, item string, x double, y double"


class Mean(ps.Model):
    """The mean of all so far. Its sums are of whole numbers, so it does not matter where epochs end."""

    output = "guess double, off double"

    def initial(self):
        return {"sum": np.zeros(1), "n": np.zeros(1, dtype=np.int64)}

    def predict(self, model, rows):
        guess = model["sum"][0] / max(model["n"][0], 1)
        return {"guess": np.full(rows.height, guess), "off": (rows["y"] - guess).abs()}

    def learn(self, model, rows):
        if (rows["y"] < 0).any():
            raise ValueError("below nothing")
        return {"sum": np.array([rows["y"].sum()]), "n": np.array([rows.height])}

    def merge(self, model, updates):
        return summed(model, updates)


class Growing(Mean):
    def merge(self, model, updates):
        return {"sum": np.zeros(3)}


class Strange(Mean):
    def merge(self, model, updates):
        return {"sun": np.zeros(1)}


class Short(Mean):
    def predict(self, model, rows):
        return {"guess": [1.0], "off": [1.0]}


@pytest.fixture
def app() -> App:
    app = App("test")
    app.stream("rows", ps.files("nowhere"), schema=SCHEMA)
    return app


def script(app: App, epochs: list[list[tuple]]) -> TestStream:
    made = TestStream(app.streams["rows"])
    for rows in epochs:
        made = made.add(*rows)
    return made


def cut(rows: list, into: int) -> list[list]:
    size = -(-len(rows) // into)
    return [rows[first : first + size] for first in range(0, len(rows), size)]


def made(count: int, seed: int = 1) -> list[tuple]:
    chance = random.Random(seed)
    xs = [chance.uniform(-1, 1) for _ in range(count)]
    return [
        (number, f"u{chance.randrange(20)}", f"i{chance.randrange(10)}", x, float(round(8 + 4 * x)))
        for number, x in enumerate(xs)
    ]


def test_an_epoch_is_predicted_by_the_version_before_it(app):
    stream = app.learn("mean", app.streams["rows"], Mean, give="id")
    assert stream.schema.ddl() == "id bigint, guess double, off double, version bigint"
    epochs = [[(1, "a", "i", 0.0, 4.0), (2, "a", "i", 0.0, 8.0)], [(3, "a", "i", 0.0, 6.0)], [(4, "a", "i", 0.0, 9.0)]]
    found = learn(stream, script(app, epochs))
    assert [tuple(row.values()) for row in found.rows] == [
        (1, 0.0, 4.0, 0),
        (2, 0.0, 8.0, 0),
        (3, 6.0, 0.0, 1),
        (4, 6.0, 3.0, 2),
    ]
    assert found.version == 3
    assert (found.model()["sum"][0], found.model(1)["sum"][0], found.model(0)["sum"][0]) == (27.0, 12.0, 0.0)


@pytest.mark.parametrize("partitions", [1, 3, 8])
def test_a_model_that_adds_is_the_same_however_rows_are_cut(app, partitions):
    stream = app.learn("mean", app.streams["rows"], Mean, by="user", partitions=partitions)
    high = app.streams["rows"].select("item", "y > 8 AS yes")
    rates = app.learn("rates", high, Rates("item", "yes"), partitions=partitions)
    rows = made(300)
    for into in (1, 4, 50):
        found = learn(stream, script(app, cut(rows, into)))
        assert found.version == len(cut(rows, into))
        assert (found.model()["sum"][0], found.model()["n"][0]) == (sum(row[4] for row in rows), 300)
        counted = learn(rates, script(app, cut(rows, into))).model()
        wanted = {item: [sum(r[2] == item for r in rows), sum(r[2] == item and r[4] > 8 for r in rows)]
                  for item in counted.keys_of["key"]}  # fmt: skip
        assert dict(zip(counted.keys_of["key"], counted["key"].tolist(), strict=True)) == wanted


def test_the_last_versions_are_kept_and_every_so_many(app):
    stream = app.learn("mean", app.streams["rows"], Mean, versions=3, every=5)
    found = learn(stream, script(app, cut(made(120), 12)))
    assert [version.number for version in kept(found.memory)] == [0, 5, 10, 11, 12]
    assert [version.rows for version in kept(found.memory)] == [0, 50, 100, 110, 120]
    with pytest.raises(DefinitionError, match="unknown version of the model '7'"):
        found.model(7)


def test_old_versions_of_keyed_parts_are_what_they_were(app):
    stream = app.learn("taste", app.streams["rows"], Factors("user", "item", "y", factors=2), by="user", versions=4)
    epochs = cut(made(200), 10)
    found = learn(stream, script(app, epochs))
    for version in (7, 8, 9, 10):
        then = learn(stream, script(app, epochs[:version])).model()
        for part in ("user", "item"):
            was = found.model(version)
            known = was.only({"user": then.keys_of["user"], "item": then.keys_of["item"]})
            assert known[part].tolist() == then[part].tolist(), (version, part)
    with pytest.raises(DefinitionError, match="unknown version"):
        found.model(6)


def test_a_model_learns_only_where_it_is_told_to(app):
    stream = app.learn("frozen", app.streams["rows"], Mean, give="id", train_when="id < 10")
    found = learn(stream, script(app, cut(made(40), 8)))
    assert (found.version, found.model()["n"][0], found.frame.height) == (2, 10, 40)
    assert found.frame["version"].to_list()[-1] == 2


def test_rows_that_a_model_fails_on_are_dead_letters_and_have_not_come(app):
    stream = app.learn("mean", app.streams["rows"], Mean, give="id")
    rows = made(100)
    bad = [(*row[:4], -1.0) if row[0] in (3, 57, 58) else row for row in rows]
    found = learn(stream, script(app, cut(bad, 2)))
    assert sorted(row["id"] for row in found.dead) == [3, 57, 58]
    assert {row["reason"] for row in found.dead} == {"the model Mean failed in learn: ValueError: below nothing"}
    assert found.frame["id"].sort().to_list() == [row[0] for row in rows if row[0] not in (3, 57, 58)]
    assert found.model()["n"][0] == 97


def test_a_row_that_makes_numbers_too_large_is_refused_and_so_is_one_without_its_key(app):
    taste = Factors("user", "item", "y", factors=2)
    stream = app.learn("taste", app.streams["rows"], taste, give="id")
    rows = [*made(50), (50, None, "i1", 0.0, 1.0), (51, "u1", "i1", 0.0, 1e308), (52, "u1", "i1", 0.0, None)]
    found = learn(stream, script(app, [rows]))
    told = {row["id"]: row["reason"] for row in found.dead}
    assert told[50] == "'user', the key of the part 'user', is null"
    assert "larger than 1e+100, or NaN" in told[51]
    assert (len(told), found.frame.height) == (2, 51)
    (without,) = found.frame.filter(pl.col("id") == 52).to_dicts()
    assert without["loss"] is None
    assert without["prediction"] is not None


def test_a_model_that_fails_on_everything_stops_with_its_name(app):
    stream = app.learn("mean", app.streams["rows"], Mean)
    all_bad = [(*row[:4], -1.0) for row in made(200)]
    with pytest.raises(LearningError, match="the model Mean fails in learn on more than 100 rows of one part"):
        learn(stream, script(app, [all_bad]))


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (Growing, "the model Growing fails in merge: 'sum' becomes \\(3,\\) and was \\(1,\\)"),
        (Strange, "the model Strange fails in merge: .*unknown array of the model 'sun'"),
        (Short, "the model Short predicts 1 rows for 5 rows of input"),
    ],
)
def test_what_a_model_gives_must_fit(app, model, said):
    with pytest.raises(LearningError, match=said):
        learn(app.learn("odd", app.streams["rows"], model), script(app, [made(5)]))


def test_a_key_that_has_only_rows_that_are_refused_stays_what_it_was(app):
    stream = app.learn("taste", app.streams["rows"], Factors("user", "item", "y", factors=2), by="user", partitions=8)
    bad = [(number, f"u{number}", "i", 0.0, 1e308) for number in range(20)]
    good = [(20, "ann", "j", 0.0, 3.0)]
    found = learn(stream, script(app, [good + bad]))
    assert len(found.dead) == 20
    assert found.model().keys_of["item"].to_list() == ["i", "j"]
    assert (
        found.model()["item"][0].tolist()
        == Factors("user", "item", "y", factors=2).fresh("item", pl.Series(["i"]))[0].tolist()
    )


def test_regressions_learn(app):
    rows = [(number, "u", "i", x, 3 * x - 1) for number, *_, x, _ in made(2000)]
    line = learn(
        app.learn("line", app.streams["rows"], LinearRegression(("x",), "y", rate=0.3)), script(app, cut(rows, 20))
    )
    assert np.allclose([*line.model()["weights"], *line.model()["bias"]], [3.0, -1.0], atol=0.05)
    losses = line.frame.group_by("version", maintain_order=True).agg(pl.col("loss").mean())["loss"]
    assert losses[0] > 1.0 > 0.01 > losses[-1]
    signs = [(*row[:4], float(row[3] > 0.2)) for row in rows]
    model = LogisticRegression(("x",), "y", rate=0.5)
    sure = learn(app.learn("sure", app.streams["rows"], model), script(app, cut(signs, 20)))
    assert sure.frame["loss"][:100].mean() > 2 * sure.frame["loss"][-100:].mean()
    assert sure.frame["prediction"].is_between(0.0, 1.0).all()


@pytest.mark.parametrize("by", ["user", None])
def test_what_is_learned_depends_on_the_rows_and_not_on_the_order_in_which_tasks_have_them(app, by):
    taste = Factors("user", "item", "y", factors=4)
    learning = app.learn("taste", app.streams["rows"], taste, give="id", by=by, partitions=4).log.learning
    types = {name: dtype(kind) for name, kind in app.streams["rows"].schema}
    rows = pl.DataFrame(made(4000), schema=types, orient="row")
    rows = rows.with_columns(
        pl.lit(1, pl.Int64).alias("__commit"), pl.lit("rows").alias("__stream"),
        (pl.col("id") % 3).cast(pl.Int32).alias("__partition"), pl.col("id").alias("__offset"),
    )  # fmt: skip
    found = []
    for seed in (1, 2):
        found.append(LearningRun(learning))
        for epoch in cut(rows.rows(), 2):
            frame = pl.DataFrame(epoch, rows.schema, orient="row")
            found[-1].epoch(frame.sample(fraction=1.0, shuffle=True, seed=seed), 0)
    assert found[0].frame.equals(found[1].frame)
    assert found[0].memory.values == found[1].memory.values


def test_arrays_of_a_model_are_for_reading():
    weights = Weights({"w": np.zeros(2)})
    with pytest.raises(ValueError, match="read-only"):
        weights["w"][0] = 1.0
    assert (
        spread(pl.Series(["a", "b"]), 3).tolist()
        == spread(pl.Series(["a"]), 3).tolist() + spread(pl.Series(["b"]), 3).tolist()
    )


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda app, rows: app.learn("m", rows, 3), "not a model: 3"),
        (lambda app, rows: app.learn("m", rows, LinearRegression), "needs parameters"),
        (lambda app, rows: app.learn("m", rows, ps.Model), "has no predict"),
        (lambda app, rows: app.learn("m", rows, Mean, give="idd"), "unknown column 'idd'"),
        (lambda app, rows: app.learn("m", rows, Mean, by="users"), "unknown column 'users'"),
        (lambda app, rows: app.learn("m", rows, Rates("x", "y")), "the column 'x' of the keyed part 'key' is a double"),
        (lambda app, rows: app.learn("m", rows, Mean, partitions=0), "at least one partition"),
        (lambda app, rows: app.learn("rows", rows, Mean), "a stream 'rows' already"),
        (lambda app, rows: app.learn("m", rows.select("y", guess="x"), Mean, give="guess"), "two columns 'guess'"),
        (lambda app, rows: app.learn("m", rows.transform(lambda df: df), Mean), "comes before a model"),
        (lambda app, rows: app.learn("m", ps.stream("other", schema=SCHEMA), Mean), "which is not this app's"),
    ],
)
def test_definitions_that_mean_nothing_are_refused(app, call, said):
    with pytest.raises(DefinitionError, match=said):
        call(app, app.streams["rows"])
