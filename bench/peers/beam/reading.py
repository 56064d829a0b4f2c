"""What every pipeline has: its runner, its input of lines, windows that are combined, and its answer as CSV.

Beam chooses between its local runners by itself: it tries one that it has to fetch from elsewhere first, and takes the
one named here for bundles of a bounded input otherwise. It runs in as many processes as there are cores.
"""

import os
from datetime import UTC, datetime

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import FixedWindows, TimestampedValue

OUTPUT = os.environ["PEERS_OUTPUT"]
CORES = os.environ["PEERS_CORES"]


def pipeline():
    mode = "multi_processing" if CORES != "1" else "in_memory"
    runner = "apache_beam.runners.portability.fn_api_runner.FnApiRunner"
    return beam.Pipeline(
        options=PipelineOptions(runner=runner, direct_num_workers=int(CORES), direct_running_mode=mode)
    )


def lines(pipeline):
    return pipeline | "read" >> beam.io.ReadFromText(os.environ["PEERS_INPUT"] + "/*.json")


def at(time, value):
    """A value with its time, an ISO text."""
    return TimestampedValue(value, datetime.fromisoformat(time).timestamp())


def windows(seconds):
    return "windows" >> beam.WindowInto(FixedWindows(seconds))


class Rows(beam.DoFn):
    """Lines of CSV: the key, the window's start and its values."""

    def process(self, item, window=beam.DoFn.WindowParam):
        key, values = item
        start = datetime.fromtimestamp(float(window.start), UTC)
        yield ",".join([str(key), f"{start:%Y-%m-%d %H:%M:%S}", *map(str, values)])


class Sums(beam.CombineFn):
    """How many values, and their sum."""

    def create_accumulator(self):
        return 0, 0

    def add_input(self, sums, value):
        return sums[0] + 1, sums[1] + value

    def merge_accumulators(self, accumulators):
        counts, totals = zip(*accumulators, strict=True)
        return sum(counts), sum(totals)

    def extract_output(self, sums):
        return sums


def write(rows):
    os.makedirs(f"{OUTPUT}/answer")
    rows | "row" >> beam.ParDo(Rows()) | "write" >> beam.io.WriteToText(f"{OUTPUT}/answer/part")
