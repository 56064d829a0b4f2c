"""How many events a key had and their sum, when it is quiet for a minute."""

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from session import read, run, session


class Quiet(StatefulProcessor):
    """A value of three columns, and one timer that moves."""

    def init(self, handle):
        self.handle = handle
        self.state = handle.getValueState("state", "n bigint, total bigint, timer bigint")

    def handleInputRows(self, key, rows, timerValues):
        known = self.state.get()
        n, total, timer = known if known is not None else (0, 0, None)
        due = timer or 0
        for row in rows:
            n += 1
            total += row.v
            due = max(due, int(row.at.timestamp() * 1000) + 60_000)
        if due != timer:
            if timer is not None:
                self.handle.deleteTimer(timer)
            self.handle.registerTimer(due)
        self.state.update((n, total, due))
        return iter(())

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
        n, total, _ = self.state.get()
        self.state.clear()
        yield Row(key=key[0], n=n, total=total)

    def close(self):
        return


spark = session()
events = read(spark, "key string, v bigint, at timestamp").withWatermark("at", "5 seconds")
rows = events.groupBy("key").transformWithState(Quiet(), "key string, n bigint, total bigint", "Append", "EventTime")
run(rows, "key TEXT, n INTEGER, total INTEGER", "key", "append")
