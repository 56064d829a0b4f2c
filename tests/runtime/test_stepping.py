"""Streams whose epochs are jobs of our own: what they remember is committed with what they give out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest

import penstock as ps
from penstock.app import App
from penstock.model.stream import Flow
from penstock.model.time import Instant
from penstock.model.types import Schema
from penstock.runtime.derived.arrivals import Arriving
from penstock.runtime.derived.base import Derived, EpochInput, Memory, Step
from penstock.runtime.derived.times import TIME
from penstock.sources.base import MALFORMED, REASON
from penstock.store.memory import REMEMBERED

OUT = "word string, number bigint"


@dataclass(frozen=True, repr=False)
class Numbered(Derived):
    """Gives each event of a word its number; fails where it is told to."""

    flow: Flow
    flag: str

    @property
    def inputs(self):
        return self.flow.sources

    def read(self, spark, schema: Schema, columns):
        return self.commits(spark, self.name)

    @contextmanager
    def step(self, epoch_input: EpochInput, memory: Memory, now: Instant) -> Iterator[Step]:
        assert [kind for kind, _ in epoch_input.parts].count(TIME) == 1
        arriving = Arriving(self.flow)
        rows = epoch_input.frame.mapInArrow(arriving, arriving.ddl)
        found = pl.from_arrow(rows.orderBy("__commit", "__partition", "__offset").toArrow())
        dead = found.filter(pl.col("__reason").is_not_null())
        words = found.filter(pl.col("__reason").is_null())["word"].to_list()
        known = {key.decode(): int(value) for key, value in memory.of("n", [w.encode() for w in set(words)]).items()}
        given = []
        for word in words:
            known[word] = known.get(word, 0) + 1
            given.append((word, known[word], None, None))
        given += [(None, None, text, reason) for text, reason in dead.select("__row", "__reason").iter_rows()]
        if Path(self.flag).exists():
            raise OSError("told to fail")
        kept = pl.DataFrame([("n", w.encode(), str(n).encode()) for w, n in known.items()], REMEMBERED, orient="row")
        frame = epoch_input.spark.createDataFrame(given, f"{OUT}, `{MALFORMED}` string, `{REASON}` string")
        yield Step(frame, memory=kept, counters={"words": len(words)}, notes={"words": len(words)})


def test_what_an_epoch_remembers_is_there_at_the_next_also_after_a_failure(spark, tmp_path):
    app = App("stepping")
    words = app.stream("words", ps.files(tmp_path / "in"), schema="word string")
    flag = tmp_path / "fail"
    log = Numbered(words.select("word", "10 / length(word) AS part").where("part > 0"), str(flag))
    app.streams["numbered"] = ps.stream("numbered", log, schema=OUT)
    total = app.view("total", app.streams["numbered"].group_by("word").agg(n=ps.count(), last=ps.max("number")))
    (tmp_path / "in").mkdir()

    def wrote(number: int, *words: str) -> None:
        text = "".join(json.dumps({"word": word}) + "\n" for word in words)
        (tmp_path / "in" / f"{number}.json").write_text(text)

    wrote(1, "a", "b", "a")
    run = app.start(tmp_path / "run", spark=spark, tick=0.1)
    run.catch_up()
    run.stop()
    flag.touch()
    wrote(2, "a", "c")
    run = app.start(tmp_path / "run", spark=spark, tick=0.1, patience=0.1)
    with pytest.raises(Exception, match="told to fail"):
        run.catch_up()
    run.stop()
    flag.unlink()
    run = app.start(tmp_path / "run", spark=spark, tick=0.1)
    run.catch_up()
    answer = run.store.query("SELECT word, n, last FROM total ORDER BY word").rows()
    assert run.store.counters()["numbered.words"] == 5
    run.stop()
    assert answer == [("a", 3, 3), ("b", 1, 1), ("c", 1, 1)]
    assert total.columns[0] == "word"
