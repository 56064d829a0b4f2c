"""Bids for every 123rd auction."""

import apache_beam as beam
from nexmark.bids import bids
from reading import OUTPUT, pipeline

if __name__ == "__main__":
    with pipeline() as run:
        every = bids(run, lambda bid: (bid["auction"], bid["price"]))
        rows = every | beam.Filter(lambda bid: bid[0] % 123 == 0) | beam.MapTuple("{},{}".format)
        rows | beam.io.WriteToText(f"{OUTPUT}/answer/part")
