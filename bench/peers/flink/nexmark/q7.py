"""The highest bids of ten seconds, with ties."""

from datetime import UTC, datetime

from nexmark.bids import bids
from pyflink.common import Time, Types
from pyflink.datastream.functions import AggregateFunction, ProcessWindowFunction
from pyflink.datastream.window import TumblingEventTimeWindows
from session import NUMBERS, session, timed, write


class Highest(AggregateFunction):
    """The highest bids: their price, and whose they are."""

    def create_accumulator(self):
        return [0, []]

    def add(self, bid, best):
        if bid[0] < best[0]:
            return best
        return self.merge(best, [bid[0], [(bid[1], bid[2])]])

    def merge(self, a, b):
        return [a[0], a[1] + b[1]] if a[0] == b[0] else max(a, b, key=lambda best: best[0])

    def get_result(self, best):
        return best


class Best(ProcessWindowFunction):
    """The highest bids of a part, with their window."""

    def process(self, key, context, elements):
        for price, found in elements:
            for auction, bidder in found:
                yield price, auction, bidder, context.window().start


class Rows(ProcessWindowFunction):
    def process(self, key, context, elements):
        start = datetime.fromtimestamp(context.window().start / 1000, UTC)
        for price, found in elements:
            for auction, bidder in found:
                yield f"{start:%Y-%m-%d %H:%M:%S},{price},{auction} {bidder}"


def highest(keyed, function, kind):
    windows = keyed.window(TumblingEventTimeWindows.of(Time.seconds(10)))
    return windows.aggregate(Highest(), function, accumulator_type=NUMBERS, output_type=kind)


environment = session()
every = timed(bids(environment, ["price", "auction", "bidder"]))
parts = highest(every.key_by(lambda bid: bid[2] % 16, Types.LONG()), Best(), Types.TUPLE([Types.LONG()] * 4))
write(environment, highest(parts.key_by(lambda bid: 0, Types.LONG()), Rows(), Types.STRING()))
