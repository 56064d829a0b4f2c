"""What every query has: its bids, each with its time as its last value; the last line is nobody's."""

from datetime import datetime

import orjson
from pyflink.common import Types
from session import lines


def bids(environment, names):
    def parsed(line):
        bid = orjson.loads(line)
        if bid["bidder"]:
            yield (*(bid[name] for name in names), int(datetime.fromisoformat(bid["at"]).timestamp() * 1000 + 0.5))

    return lines(environment).flat_map(parsed, Types.TUPLE([Types.LONG()] * (len(names) + 1)))
