"""What every job has: its input, scanned once, and its answer as CSV."""

import os

import polars as pl

TIME = pl.col("at").str.to_datetime("%Y-%m-%dT%H:%M:%S%.6fZ", time_unit="us")


def scan(**schema):
    return pl.scan_ndjson(os.environ["PEERS_INPUT"] + "/*.json", schema=schema)


def table():
    schema = {"ad": pl.String, "campaign": pl.String}
    return pl.scan_csv(os.environ["PEERS_TABLE"] + "/ads.csv", has_header=False, schema=schema)


def write(rows):
    frame = rows.collect(engine="streaming")
    frame.write_csv(os.environ["PEERS_OUTPUT"] + "/answer.csv", include_header=False)
