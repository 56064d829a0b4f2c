"""Bids with the text that a table of 10,000 rows has for their auction."""

import os
from pathlib import Path

from nexmark.bids import bids, spark
from nexmark.rows import write
from pyspark.sql import functions as F

folder = Path(os.environ["PEERS_INPUT"]).parent / "side_input"
texts = F.broadcast(spark.read.schema("number bigint, value string").csv(str(folder)))
joined = bids.where("bidder > 0").join(texts, F.expr("auction % 10000 = number"))
write(joined.select("auction", "bidder", "price", "at", "value"))
