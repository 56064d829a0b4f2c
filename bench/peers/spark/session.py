"""What every job has: a Spark session, its input of JSON lines, and SQLite, into which epochs are committed."""

import os
import sqlite3
import sys
from pathlib import Path

from pyspark.sql import SparkSession

# Functions in Python run in the environment that this job runs in.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
CORES = os.environ["PEERS_CORES"]
STATE = "spark.sql.streaming.stateStore"
SETTINGS = {
    "spark.driver.memory": "4g",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": CORES,
    "spark.ui.enabled": "false",
    f"{STATE}.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    f"{STATE}.rocksdb.changelogCheckpointing.enabled": "true",
    f"{STATE}.rocksdb.trackTotalNumberOfRows": "false",
}
OUTPUT = Path(os.environ["PEERS_OUTPUT"])
DATABASE = OUTPUT / "answer.db"
#: A million events an epoch: with fewer the fixed cost of an epoch weighs more, with more the first result is late.
FILES = 4


def session(further=None):
    builder = SparkSession.builder.master(f"local[{CORES}]").appName("peers")
    for name, value in {**SETTINGS, **(further or {})}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def read(spark, schema):
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", FILES).json(os.environ["PEERS_INPUT"])


REPLACE = "INSERT OR REPLACE INTO answer VALUES ({})"


def add(keys, column):
    """A statement that adds to rows instead of replacing them."""
    return (
        f"INSERT INTO answer VALUES ({{}}) ON CONFLICT ({keys}) DO UPDATE SET {column} = {column} + excluded.{column}"
    )


def open_table(table, keys):
    """Makes the table of SQLite that answers are written into."""
    store = sqlite3.connect(DATABASE)
    store.execute("PRAGMA journal_mode = WAL")
    store.execute(f"CREATE TABLE answer ({table}, PRIMARY KEY ({keys})) WITHOUT ROWID")
    store.execute("CREATE TABLE epochs (query, number, PRIMARY KEY (query, number))")
    store.close()


def start(rows, mode="update", prepare=lambda batch: batch, statement=REPLACE, name="answer"):
    """Starts a query that writes changed rows into the table, exactly once, until the input is done."""

    def write(batch, number):
        changed = prepare(batch).toArrow()
        store = sqlite3.connect(DATABASE, timeout=60)
        with store:
            if store.execute("SELECT 1 FROM epochs WHERE query = ? AND number = ?", [name, number]).fetchone() is None:
                places = ", ".join("?" * len(changed.column_names))
                columns = [column.to_pylist() for column in changed.columns]
                store.executemany(statement.format(places), zip(*columns, strict=True))
                store.execute("INSERT INTO epochs VALUES (?, ?)", [name, number])
        store.close()

    query = rows.writeStream.queryName(name).outputMode(mode).foreachBatch(write).trigger(availableNow=True)
    return query.option("checkpointLocation", str(OUTPUT / "checkpoint" / name)).start()


def run(rows, table, keys, mode="update", prepare=lambda batch: batch, statement=REPLACE):
    """Runs one query until the input is done."""
    open_table(table, keys)
    start(rows, mode, prepare, statement).awaitTermination()
