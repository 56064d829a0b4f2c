"""The Yahoo benchmark: views, with the campaign of their ad, counted by campaign in windows of ten seconds."""

import csv
import json
import os

import orjson
from pyflink.common import SimpleStringSchema, Types, WatermarkStrategy
from pyflink.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from session import Row, session, timed, windows

SERVERS = os.environ["PEERS_SERVERS"]
with open(os.environ["PEERS_TABLE"] + "/ads.csv", newline="") as file:
    CAMPAIGNS = dict(csv.reader(file))


def view(line):
    """The campaign and the time of a view; nothing for other events, and for unknown ads."""
    event = orjson.loads(line)
    if event["event_type"] == "view" and event["ad_id"] in CAMPAIGNS:
        yield CAMPAIGNS[event["ad_id"]], int(event["event_time"])


class Message(Row):
    """The same as JSON."""

    def line(self, key, start, sums):
        return json.dumps({"campaign": key, "start": start, "n": sums[0]})


environment = session()
source = KafkaSource.builder().set_bootstrap_servers(SERVERS).set_topics(os.environ["PEERS_TOPIC"])
source = source.set_starting_offsets(KafkaOffsetsInitializer.earliest())
if not os.environ["PEERS_LIVE"]:
    source = source.set_bounded(KafkaOffsetsInitializer.latest())
source = source.set_value_only_deserializer(SimpleStringSchema()).build()
lines = environment.from_source(source, WatermarkStrategy.no_watermarks(), "events")
views = lines.flat_map(view, Types.TUPLE([Types.STRING(), Types.LONG()]))
# Times that Python reads come behind the source, where all partitions are one stream: a window waits for the slowest.
views = timed(views, seconds=float(os.environ["PEERS_DISORDER"]))
schema = KafkaRecordSerializationSchema.builder().set_topic(os.environ["PEERS_ANSWER"])
schema = schema.set_value_serialization_schema(SimpleStringSchema()).build()
sink = KafkaSink.builder().set_bootstrap_servers(SERVERS).set_record_serializer(schema).build()
windows(views, seconds=10, row=Message).sink_to(sink)
environment.execute()
