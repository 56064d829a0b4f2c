"""The Yahoo benchmark: views, with the campaign of their ad, counted by campaign in windows of ten seconds."""

import csv
import os

import apache_beam as beam
import orjson
from apache_beam.transforms.window import TimestampedValue
from reading import lines, pipeline, windows, write


def views(line, campaigns):
    """The campaign of a view, with its time; nothing for other events, and for unknown ads."""
    event = orjson.loads(line)
    if event["event_type"] == "view" and event["ad_id"] in campaigns:
        yield TimestampedValue(campaigns[event["ad_id"]], int(event["event_time"]) / 1000)


def row(item):
    return item[0], [item[1]]


if __name__ == "__main__":
    with open(os.environ["PEERS_TABLE"] + "/ads.csv", newline="") as file:
        ads = list(csv.reader(file))
    with pipeline() as run:
        campaigns = beam.pvalue.AsDict(run | "ads" >> beam.Create([tuple(ad) for ad in ads]))
        counted = lines(run) | beam.FlatMap(views, campaigns) | windows(10) | beam.combiners.Count.PerElement()
        write(counted | beam.Map(row))
