"""Counts and sums by key in windows of ten seconds."""

import apache_beam as beam
import orjson
from reading import Sums, at, lines, pipeline, windows, write


def parsed(line):
    event = orjson.loads(line)
    return at(event["at"], (event["key"], event["v"]))


if __name__ == "__main__":
    with pipeline() as run:
        write(lines(run) | beam.Map(parsed) | windows(10) | beam.CombinePerKey(Sums()))
