"""Topologies against the same jobs hand-written in PySpark, on the same files in one run; and what open trees take.

    python bench/topologies.py [--quick] [--trees]

Word count: sentences are split, and each word is emitted with its number so far. Hand-written means: `mapInArrow` to
split, `transformWithState` (RocksDB with a changelog) to count, Parquet by `foreachBatch`. The chain: JSON is parsed, a
price is reckoned, a line is written, by three functions; hand-written they are called one after the other in one
`mapInArrow`; and once more with its input kept as Parquet too, as Penstock's history does. Penstock reads the same
files into a stream with its history, the topology from there, exactly once; output goes to its history and to
a view. All warm up first; then they take turns.

`--trees` needs no Spark: the memory of an open tree, up to a million descendants.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

sys.path.insert(0, str(Path(__file__).parent.parent))

import penstock as ps
from bench.side_by_side import Report, by_hand_state, compare, middle, ratio
from penstock.app import App
from penstock.runtime.spark.session import spark_session
from penstock.testing import TestStream
from penstock.topology.epoch import OPEN
from penstock.topology.local import LocalRun
from penstock.topology.trees import Tree, root_of

QUICK = "--quick" in sys.argv
PER_FILE, ROUNDS = (5_000, 1) if QUICK else (100_000, 3)
FILES = {"words": 3, "orders": 3} if QUICK else {"words": 8, "orders": 24}
WORDS = 20_000
COUNTED = "word string, n bigint"
LINES = "line string, cents bigint"


def write_sentences(folder: Path) -> None:
    """Sentences of five words, some of them often."""
    chance = np.random.default_rng(0)
    for number in range(FILES["words"]):
        picked = np.minimum(chance.zipf(1.2, (PER_FILE // 5, 5)), WORDS)
        sentences = [" ".join(f"w{word}" for word in row) for row in picked.tolist()]
        pq.write_table(pa.table({"sentence": sentences}), folder / f"{number:04}.parquet")


def write_orders(folder: Path) -> None:
    chance = np.random.default_rng(0)
    for number in range(FILES["orders"]):
        rows = zip(chance.integers(0, 1000, PER_FILE).tolist(), chance.integers(1, 9, PER_FILE).tolist(), strict=True)
        orders = [json.dumps({"item": f"item{item}", "pieces": pieces, "price": item / 100}) for item, pieces in rows]
        pq.write_table(pa.table({"sentence": orders}), folder / f"{number:04}.parquet")


# the functions that both call


def parsed(text: str) -> tuple[str, int, float]:
    found = json.loads(text)
    return found["item"], found["pieces"], found["price"]


def reckoned(item: str, pieces: int, price: float) -> tuple[str, int]:
    cents = round(pieces * price * 100)
    return item, cents - cents // 10 if pieces > 5 else cents


def written(item: str, cents: int) -> tuple[str, int]:
    return f"{item}: {cents / 100:.2f}", cents


# by hand


def split_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        words = [word for sentence in batch.column(0).to_pylist() for word in sentence.split()]
        yield pa.RecordBatch.from_arrays([pa.array(words, pa.string())], names=["word"])


def chain_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows = [written(*reckoned(*parsed(text))) for text in batch.column(0).to_pylist()]
        lines, cents = zip(*rows, strict=True) if rows else ((), ())
        arrays = [pa.array(lines, pa.string()), pa.array(cents, pa.int64())]
        yield pa.RecordBatch.from_arrays(arrays, names=["line", "cents"])


class CountByHand(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        self.state = handle.getValueState("state", "n bigint")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        found = self.state.get()
        n = 0 if found is None else found[0]
        for _ in rows:
            n += 1
            yield Row(word=key[0], n=n)
        self.state.update((n,))

    def close(self) -> None:
        return


def started(spark: SparkSession, folder: Path) -> DataFrame:
    by_hand_state(spark)
    return spark.readStream.schema("sentence string").option("maxFilesPerTrigger", 1).parquet(str(folder))


def by_hand(spark: SparkSession, folder: Path, work: Path, make: Callable[[DataFrame], DataFrame]) -> DataFrame:
    events = started(spark, folder)

    def keep(rows: DataFrame, number: int) -> None:
        rows.write.mode("append").parquet(str(work / "rows"))

    query = make(events).writeStream.foreachBatch(keep).option("checkpointLocation", str(work / "checkpoint"))
    query.trigger(availableNow=True).start().awaitTermination()
    return spark.read.parquet(str(work / "rows"))


def words_by_hand(spark: SparkSession, folder: Path, work: Path) -> int:
    def make(events: DataFrame) -> DataFrame:
        words = events.mapInArrow(split_batches, "word string")
        return words.groupBy("word").transformWithState(CountByHand(), COUNTED, "Append", "None")

    return by_hand(spark, folder, work, make).count()


def chain_by_hand(spark: SparkSession, folder: Path, work: Path) -> int:
    rows = by_hand(spark, folder, work, lambda events: events.mapInArrow(chain_batches, LINES))
    return int(rows.selectExpr("sum(cents)").first()[0])


def chain_by_hand_with_input(spark: SparkSession, folder: Path, work: Path) -> int:
    def keep(events: DataFrame, number: int) -> None:
        kept = events.persist()
        kept.write.mode("append").parquet(str(work / "events"))
        kept.mapInArrow(chain_batches, LINES).write.mode("append").parquet(str(work / "rows"))
        kept.unpersist()

    query = started(spark, folder).writeStream.foreachBatch(keep).option("checkpointLocation", str(work / "checkpoint"))
    query.trigger(availableNow=True).start().awaitTermination()
    return int(spark.read.parquet(str(work / "rows")).selectExpr("sum(cents)").first()[0])


# by Penstock


class Split(ps.BasicBolt):
    outputs = "word string"

    def execute(self, tup: Any, collector: Any) -> None:
        for word in tup.sentence.split():
            collector.emit((word,))


class Count(ps.StatefulBolt):
    outputs = COUNTED

    def execute(self, tup: Any, collector: Any) -> None:
        word = tup.word
        n = self.state[word] = self.state.get(word, 0) + 1
        collector.emit((word, n))


class Parse(ps.BasicBolt):
    outputs = "item, pieces, price"

    def execute(self, tup: Any, collector: Any) -> None:
        collector.emit(parsed(tup.sentence))


class Reckon(ps.BasicBolt):
    outputs = "item, cents"

    def execute(self, tup: Any, collector: Any) -> None:
        collector.emit(reckoned(*tup))


class Write(ps.BasicBolt):
    outputs = LINES

    def execute(self, tup: Any, collector: Any) -> None:
        collector.emit(written(*tup))


def by_penstock(
    spark: SparkSession, folder: Path, work: Path, declare: Callable[[ps.TopologyBuilder], object], answer: str
) -> int:
    app = App("bench")
    log = ps.files(folder, format="parquet", files_per_epoch=1)
    builder = ps.TopologyBuilder().spout("source", app.stream("events", log, schema="sentence string"))
    declare(builder)
    rows = app.topology("rows", builder, guarantee="exactly_once")
    total = {"n": ps.count()} if answer == "n" else {"cents": ps.sum("cents")}
    app.view("total", rows.group_by().agg(**total))
    run = app.start(work / "state", spark=spark, tick=3600.0, target=None)
    run.catch_up()
    found = run.store.query(f"SELECT {answer} FROM total").item()
    if "--notes" in sys.argv:
        for (told,) in run.store.query("SELECT details FROM __commits ORDER BY number").iter_rows():
            print("   ", told, file=sys.stderr)
    run.stop()
    return int(found)


def words_by_penstock(spark: SparkSession, folder: Path, work: Path) -> int:
    def declare(builder: ps.TopologyBuilder) -> None:
        builder.bolt("split", Split, 2).shuffle("source")
        builder.bolt("count", Count, 4).fields("split", "word")

    return by_penstock(spark, folder, work, declare, "n")


def chain_by_penstock(spark: SparkSession, folder: Path, work: Path) -> int:
    def declare(builder: ps.TopologyBuilder) -> None:
        builder.bolt("parse", Parse, 2).shuffle("source")
        builder.bolt("reckon", Reckon, 2).local_or_shuffle("parse")
        builder.bolt("write", Write, 2).local_or_shuffle("reckon")

    return by_penstock(spark, folder, work, declare, "cents")


JOBS = {
    "words": (words_by_penstock, {"word count": words_by_hand}),
    "orders": (
        chain_by_penstock,
        {"chain of three bolts": chain_by_hand, "the same, its input kept by both": chain_by_hand_with_input},
    ),
}
WRITE = {"words": write_sentences, "orders": write_orders}


def against_hand(spark: SparkSession, root: Path, report: Report) -> None:
    rows = []
    for what, (penstock, hands) in JOBS.items():
        folder = root / what
        folder.mkdir()
        WRITE[what](folder)
        jobs = {name: partial(run, spark, folder) for name, run in {**hands, "penstock": penstock}.items()}
        taken, _ = compare(jobs, root, ROUNDS)
        total = FILES[what] * PER_FILE
        speed = {name: f"{total / seconds / 1000:.0f} k/s" for name, seconds in middle(taken).items()}
        for name in hands:
            of = f"{ratio(taken, name, 'penstock'):.2f}"
            rows.append([name, f"{total:,} {what}", speed[name], speed["penstock"], of])
    title = f"{PER_FILE:,} words or orders a file, exactly once"
    report.table(title, ["job", "input", "hand-written", "Penstock", "Penstock, of hand-written"], rows)


# trees


class Grow(ps.Bolt):
    """Emits so many tuples for each that it gets, each anchored to it."""

    outputs = "n bigint"

    def __init__(self, children: int) -> None:
        self.children = children

    def prepare(self, context: Any, collector: Any) -> None:
        self.collector = collector

    def execute(self, tup: Any) -> None:
        for number in range(self.children):
            self.collector.emit((number,), anchors=tup)
        self.collector.ack(tup)


class Never(ps.Bolt):
    """Acks all but the first that it gets: the tree stays open."""

    def prepare(self, context: Any, collector: Any) -> None:
        self.collector, self.first = collector, True

    def execute(self, tup: Any) -> None:
        if not self.first:
            self.collector.ack(tup)
        self.first = False


def trees(report: Report) -> None:
    """What one open tree takes in the store and in memory, by its size."""
    rows = []
    for size in (1, 10, 100, 1_000, 10_000, 100_000, 1_000_000):
        stream = ps.stream("seeds", schema="seed bigint")
        builder = ps.TopologyBuilder().spout("seeds", stream)
        builder.bolt("grow", Grow(size), 1).shuffle("seeds")
        builder.bolt("never", Never, 1).shuffle("grow")
        run = LocalRun(builder.build("trees", outputs=[]))
        (commit,) = TestStream(stream).add((1,)).commits()
        assert commit is not None
        run.commit(commit)
        open_trees = run.memory.part(OPEN)
        stored = sum(len(key) + len(value) for key, value in open_trees.items())
        tracemalloc.start()
        kept = {root_of(key): Tree.loaded(value) for key, value in open_trees.items()}
        memory, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        rows.append([f"{size:,}", str(len(kept)), f"{stored} B", f"{memory} B"])
    report.table("An open tree", ["descendants", "open trees", "in the store", "in memory"], rows)


def main() -> None:
    report = Report("topologies", "python bench/topologies.py")
    trees(report)
    if "--trees" in sys.argv:
        return
    spark = spark_session("bench", master="local[2]", memory="4g")
    root = Path(tempfile.mkdtemp())
    try:
        against_hand(spark, root, report)
        if not QUICK:
            report.write()
    finally:
        shutil.rmtree(root, ignore_errors=True)
        spark.stop()


if __name__ == "__main__":
    main()
