"""Words of lines, counted by hour."""

import apache_beam as beam
import orjson
from reading import at, lines, pipeline, windows, write


def words(line):
    event = orjson.loads(line)
    return [at(event["at"], word) for word in event["line"].split(" ")]


def row(item):
    return item[0], [item[1]]


if __name__ == "__main__":
    with pipeline() as run:
        write(lines(run) | beam.FlatMap(words) | windows(3600) | beam.combiners.Count.PerElement() | beam.Map(row))
