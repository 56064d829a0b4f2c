"""How many bids somebody makes without a pause of ten seconds."""

from datetime import UTC, datetime

import apache_beam as beam
from apache_beam.transforms.window import Sessions
from nexmark.bids import bids
from reading import OUTPUT, pipeline


class Rows(beam.DoFn):
    def process(self, item, window=beam.DoFn.WindowParam):
        bidder, n = item
        start = datetime.fromtimestamp(window.start.micros / 1e6, UTC)
        yield f"{bidder},{start:%Y-%m-%d %H:%M:%S.%f},{n}"


if __name__ == "__main__":
    with pipeline() as run:
        bidders = bids(run, lambda bid: bid["bidder"]) | beam.WindowInto(Sessions(10))
        counts = bidders | beam.combiners.Count.PerElement()
        counts | beam.ParDo(Rows()) | beam.io.WriteToText(f"{OUTPUT}/answer/part")
