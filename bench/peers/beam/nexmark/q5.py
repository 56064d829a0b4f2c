"""The auctions with the most bids of ten seconds, every two seconds, with ties."""

from datetime import UTC, datetime

import apache_beam as beam
from apache_beam.transforms.window import SlidingWindows
from nexmark.bids import bids
from reading import OUTPUT, pipeline


def most(counts):
    """The pairs of an auction and its count with the highest count."""
    best = []
    for auction, n in counts:
        if not best or n > best[0][1]:
            best = [(auction, n)]
        elif n == best[0][1]:
            best.append((auction, n))
    return best


class Most(beam.CombineFn):
    def create_accumulator(self):
        return []

    def add_input(self, best, count):
        return most([*best, count])

    def merge_accumulators(self, accumulators):
        return most(count for best in accumulators for count in best)

    def extract_output(self, best):
        return best


class Rows(beam.DoFn):
    def process(self, best, window=beam.DoFn.WindowParam):
        start = datetime.fromtimestamp(float(window.start), UTC)
        for auction, n in best:
            yield f"{start:%Y-%m-%d %H:%M:%S},{n},{auction}"


if __name__ == "__main__":
    with pipeline() as run:
        auctions = bids(run, lambda bid: bid["auction"]) | beam.WindowInto(SlidingWindows(10, 2))
        highest = auctions | beam.combiners.Count.PerElement() | beam.CombineGlobally(Most()).without_defaults()
        highest | beam.ParDo(Rows()) | beam.io.WriteToText(f"{OUTPUT}/answer/part")
