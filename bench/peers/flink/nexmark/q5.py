"""The auctions with the most bids of ten seconds, every two seconds, with ties."""

from datetime import UTC, datetime

from nexmark.bids import bids
from pyflink.common import Time, Types
from pyflink.datastream.functions import AggregateFunction, ProcessWindowFunction
from pyflink.datastream.window import SlidingEventTimeWindows, TumblingEventTimeWindows
from session import NUMBERS, Sums, session, timed, write


class Count(ProcessWindowFunction):
    """The start of a window, the auction and its count."""

    def process(self, key, context, elements):
        for sums in elements:
            yield context.window().start, key, sums[0]


class Most(AggregateFunction):
    """The auctions with the highest count."""

    def create_accumulator(self):
        return [0, []]

    def add(self, value, best):
        return self.merge(best, [value[2], [value[1]]])

    def merge(self, a, b):
        return [a[0], a[1] + b[1]] if a[0] == b[0] else max(a, b, key=lambda best: best[0])

    def get_result(self, best):
        return best


class Rows(ProcessWindowFunction):
    def process(self, key, context, elements):
        start = datetime.fromtimestamp(key / 1000, UTC)
        for n, auctions in elements:
            for auction in auctions:
                yield f"{start:%Y-%m-%d %H:%M:%S},{n},{auction}"


environment = session()
keyed = timed(bids(environment, ["auction"])).key_by(lambda bid: bid[0], Types.LONG())
sliding = keyed.window(SlidingEventTimeWindows.of(Time.seconds(10), Time.seconds(2)))
counts = sliding.aggregate(
    Sums(), Count(), accumulator_type=NUMBERS,
    output_type=Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG()]),
)  # fmt: skip
# The counts of a window have its last moment as their time, which lies in one piece of two seconds.
pieces = counts.key_by(lambda count: count[0], Types.LONG()).window(TumblingEventTimeWindows.of(Time.seconds(2)))
write(environment, pieces.aggregate(Most(), Rows(), accumulator_type=NUMBERS, output_type=Types.STRING()))
