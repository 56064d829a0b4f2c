"""What every job has: an environment, its input of lines, windows that add up, and its answer as CSV.

Functions in Python run in threads of Java's process ("thread mode"), which costs less than to send rows to another
process and back.
"""

import os
import site
import sys
from datetime import UTC, datetime

from pyflink.common import Configuration, Duration, Encoder, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSink, FileSource, StreamFormat
from pyflink.datastream.functions import AggregateFunction, ProcessWindowFunction
from pyflink.datastream.window import TumblingEventTimeWindows

# Python inside of Java's process does not see the environment that this one runs in by itself.
os.environ["PYTHONPATH"] = os.pathsep.join([os.environ["PYTHONPATH"], *site.getsitepackages()])
CORES = os.environ["PEERS_CORES"]
OUTPUT = f"file://{os.environ['PEERS_OUTPUT']}"
SETTINGS = {
    "parallelism.default": CORES,
    "execution.checkpointing.interval": "10 s",
    "execution.checkpointing.dir": f"{OUTPUT}/checkpoints",
    "pipeline.object-reuse": "true",
    "restart-strategy.type": "none",
    "python.execution-mode": "thread",
    "python.executable": sys.executable,
    "python.client.executable": sys.executable,
}
NUMBERS = Types.PICKLED_BYTE_ARRAY()


class TimeOf(TimestampAssigner):
    """The time of an event, in milliseconds, is its last value."""

    def extract_timestamp(self, value, record_timestamp):
        return value[-1]


class Sums(AggregateFunction):
    """How many events, and the sums of the values between their key and their time."""

    def __init__(self, sums=0):
        self.sums = sums

    def create_accumulator(self):
        return [0] * (1 + self.sums)

    def add(self, value, accumulator):
        accumulator[0] += 1
        for place in range(1, 1 + self.sums):
            accumulator[place] += value[place]
        return accumulator

    def get_result(self, accumulator):
        return accumulator

    def merge(self, a, b):
        return [one + other for one, other in zip(a, b, strict=True)]


class Row(ProcessWindowFunction):
    """A line of CSV: the key, the window's start and its sums."""

    def process(self, key, context, elements):
        for sums in elements:
            yield self.line(key, context.window().start, sums)

    def line(self, key, start, sums):
        return f"{key},{datetime.fromtimestamp(start / 1000, UTC):%Y-%m-%d %H:%M:%S},{','.join(map(str, sums))}"


def session():
    configuration = Configuration()
    for name, value in SETTINGS.items():
        configuration.set_string(name, value)
    if jars := os.environ.get("PEERS_JARS"):
        configuration.set_string("pipeline.jars", ";".join(f"file://{jar}" for jar in jars.split(os.pathsep)))
    return StreamExecutionEnvironment.get_execution_environment(configuration)


def lines(environment):
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), os.environ["PEERS_INPUT"])
    source = source.process_static_file_set().build()
    return environment.from_source(source, WatermarkStrategy.no_watermarks(), "lines")


def timed(events, seconds=3600.0):
    """Files are read in no particular order, so windows wait for the past that they may hold."""
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(int(seconds * 1000)))
    return events.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(TimeOf()))


def windows(events, seconds, sums=0, key_type=None, row=Row):
    """The sums of a key, the first value of an event, in windows of some seconds."""
    keyed = events.key_by(lambda event: event[0], key_type or Types.STRING())
    return keyed.window(TumblingEventTimeWindows.of(Time.seconds(seconds))).aggregate(
        Sums(sums), row(), accumulator_type=NUMBERS, output_type=Types.STRING()
    )


def write(environment, rows):
    """Runs until the input is done."""
    sink = FileSink.for_row_format(f"{OUTPUT}/answer", Encoder.simple_string_encoder("UTF-8")).build()
    rows.sink_to(sink)
    environment.execute()
