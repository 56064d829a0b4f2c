"""Words of lines, counted by hour."""

from datetime import datetime

import orjson
from pyflink.common import Types
from session import lines, session, timed, windows, write


def words(line):
    event = orjson.loads(line)
    time = int(datetime.fromisoformat(event["at"]).timestamp() * 1000)
    for word in event["line"].split(" "):
        yield word, time


environment = session()
found = lines(environment).flat_map(words, Types.TUPLE([Types.STRING(), Types.LONG()]))
write(environment, windows(timed(found), seconds=3600))
