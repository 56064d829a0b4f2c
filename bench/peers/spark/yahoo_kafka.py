"""The Yahoo benchmark: views, with the campaign of their ad, counted by campaign in windows of ten seconds."""

import os

from pyspark.sql import functions as F
from session import OUTPUT, session

from penstock.runtime.spark.jars import connector

NAMES = ("ad_id", "event_type", "event_time")
SERVERS = os.environ["PEERS_SERVERS"]
spark = session({"spark.jars": ",".join(map(str, connector()))})
log = spark.readStream.format("kafka").option("kafka.bootstrap.servers", SERVERS)
log = log.option("subscribe", os.environ["PEERS_TOPIC"]).option("startingOffsets", "earliest")
# A million events an epoch, as from files.
log = log.option("maxOffsetsPerTrigger", 1_000_000).load()
schema = ", ".join(f"{name} string" for name in NAMES)
events = log.select(F.from_json(F.col("value").cast("string"), schema).alias("e")).select("e.*")
ads = F.broadcast(spark.read.schema("ad string, campaign string").csv(os.environ["PEERS_TABLE"]))
views = events.where("event_type = 'view'").select(
    "ad_id", F.expr("timestamp_millis(CAST(event_time AS bigint))").alias("at")
)
views = views.withWatermark("at", "10 seconds").join(ads, F.col("ad_id") == F.col("ad"))
counts = views.groupBy("campaign", F.window("at", "10 seconds").alias("w")).agg(F.count("*").alias("n"))
rows = counts.select("campaign", F.unix_millis("w.start").alias("start"), "n")
query = rows.select(F.to_json(F.struct("*")).alias("value")).writeStream.outputMode("update").format("kafka")
query = query.option("kafka.bootstrap.servers", SERVERS).option("topic", os.environ["PEERS_ANSWER"])
query.option("checkpointLocation", str(OUTPUT / "checkpoint")).start().awaitTermination()
