"""The highest bids of ten seconds, with ties."""

from datetime import UTC, datetime

import apache_beam as beam
from nexmark.bids import bids
from reading import OUTPUT, pipeline, windows


def highest(bids):
    """The bids with the highest price."""
    best = []
    for bid in bids:
        if not best or bid[0] > best[0][0]:
            best = [bid]
        elif bid[0] == best[0][0]:
            best.append(bid)
    return best


class Highest(beam.CombineFn):
    def create_accumulator(self):
        return []

    def add_input(self, best, bid):
        return highest([*best, bid])

    def merge_accumulators(self, accumulators):
        return highest(bid for best in accumulators for bid in best)

    def extract_output(self, best):
        return best


class Rows(beam.DoFn):
    def process(self, best, window=beam.DoFn.WindowParam):
        start = datetime.fromtimestamp(float(window.start), UTC)
        for price, auction, bidder in best:
            yield f"{start:%Y-%m-%d %H:%M:%S},{price},{auction} {bidder}"


if __name__ == "__main__":
    with pipeline() as run:
        every = bids(run, lambda bid: (bid["price"], bid["auction"], bid["bidder"])) | windows(10)
        best = every | beam.CombineGlobally(Highest()).without_defaults()
        best | beam.ParDo(Rows()) | beam.io.WriteToText(f"{OUTPUT}/answer/part")
