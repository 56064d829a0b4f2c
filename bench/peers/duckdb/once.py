"""Runs the query in a file over the whole input, and writes its answer as CSV."""

import os
import sys
from pathlib import Path

import duckdb

duckdb.sql("SET TimeZone = 'UTC'")
query = Path(sys.argv[1]).read_text().format(
    input=os.environ["PEERS_INPUT"], table=os.environ["PEERS_TABLE"], queries=os.environ["PEERS_QUERIES"]
)  # fmt: skip
duckdb.sql(f"COPY ({query}) TO '{os.environ['PEERS_OUTPUT']}/answer.csv' (HEADER false)")
