"""Who is new and sells in the same ten seconds: in one window both are counted together, without a join."""

from nexmark.events import events, timed
from pyspark.sql import functions as F
from session import run

both = events(["person", "auction"], "kind", "name", "if(kind = 'person', id, seller) AS person", "at")
counts = [F.count(F.when(F.col("kind") == kind, 1)).alias(f"{kind}s") for kind in ("person", "auction")]
windows = timed(both).groupBy(F.window("at", "10 seconds").alias("w"), "person")
new = windows.agg(F.max("name").alias("name"), *counts).where("persons > 0 AND auctions > 0")
run(
    new.select(F.unix_micros("w.start").alias("start"), "person", "name"),
    "start INTEGER, person INTEGER, name TEXT",
    "start, person",
)
