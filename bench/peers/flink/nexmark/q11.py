"""How many bids somebody makes without a pause of ten seconds."""

from datetime import UTC, datetime

from nexmark.bids import bids
from pyflink.common import Time, Types
from pyflink.datastream.window import EventTimeSessionWindows
from session import NUMBERS, Row, Sums, session, timed, write


class Session(Row):
    def line(self, key, start, sums):
        return f"{key},{datetime.fromtimestamp(start / 1000, UTC):%Y-%m-%d %H:%M:%S.%f},{sums[0]}"


environment = session()
keyed = timed(bids(environment, ["bidder"])).key_by(lambda bid: bid[0], Types.LONG())
sessions = keyed.window(EventTimeSessionWindows.with_gap(Time.seconds(10)))
write(environment, sessions.aggregate(Sums(), Session(), accumulator_type=NUMBERS, output_type=Types.STRING()))
