"""Clicks with the impressions of the minute before them, counted by place in windows of ten seconds."""

from datetime import datetime

import apache_beam as beam
import orjson
from apache_beam.transforms.window import TimestampedValue
from reading import lines, pipeline, windows, write


def parsed(line):
    event = orjson.loads(line)
    place = event["place"] if event["kind"] == "shown" else None
    return event["ad"], (place, datetime.fromisoformat(event["at"]).timestamp())


def pairs(item):
    """Windows cannot say 'the minute before', so all events of an ad come together."""
    _, events = item
    known = list(events)
    shown = [event for event in known if event[0] is not None]
    for place, time in known:
        if place is None:
            yield from (TimestampedValue(one, time) for one, seen in shown if seen <= time <= seen + 60)


def row(item):
    return item[0], [item[1]]


if __name__ == "__main__":
    with pipeline() as run:
        matched = lines(run) | beam.Map(parsed) | beam.GroupByKey() | beam.FlatMap(pairs)
        write(matched | windows(10) | beam.combiners.Count.PerElement() | beam.Map(row))
