"""What every query has: its bids with their times; the last line is nobody's."""

import apache_beam as beam
import orjson
from reading import at, lines


def bids(pipeline, keep):
    """What is kept of each bid."""

    def parsed(line):
        bid = orjson.loads(line)
        return [at(bid["at"], keep(bid))] if bid["bidder"] else []

    return lines(pipeline) | beam.FlatMap(parsed)
