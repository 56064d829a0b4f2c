"""Counts and sums by key in windows of ten seconds."""

from datetime import datetime

import orjson
from pyflink.common import Types
from session import lines, session, timed, windows, write


def parsed(line):
    event = orjson.loads(line)
    return event["key"], event["v"], int(datetime.fromisoformat(event["at"]).timestamp() * 1000)


environment = session()
events = lines(environment).map(parsed, Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()]))
write(environment, windows(timed(events), seconds=10, sums=1))
