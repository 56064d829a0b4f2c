"""Clicks with the impressions of the minute before them, counted by place in windows of ten seconds."""

from datetime import datetime

import orjson
from pyflink.common import Types
from pyflink.datastream.functions import KeyedProcessFunction
from pyflink.datastream.state import ListStateDescriptor, ValueStateDescriptor
from session import lines, session, timed, windows, write

MINUTE = 60_000


def parsed(line):
    event = orjson.loads(line)
    place = event["place"] if event["kind"] == "shown" else -1
    return event["ad"], place, int(datetime.fromisoformat(event["at"]).timestamp() * 1000)


class Pair(KeyedProcessFunction):
    """Its interval join is Java's only, so a function with state makes the pairs, and forgets them after a minute."""

    def open(self, runtime_context):
        pair = Types.TUPLE([Types.INT(), Types.LONG()])
        self.shown = runtime_context.get_state(ValueStateDescriptor("shown", pair))
        self.waiting = runtime_context.get_list_state(ListStateDescriptor("waiting", Types.LONG()))

    def process_element(self, event, context):
        _, place, time = event
        if place >= 0:
            self.shown.update((place, time))
            for at in self.waiting.get() or ():
                if time <= at <= time + MINUTE:
                    yield place, at
            self.waiting.clear()
        else:
            shown = self.shown.value()
            if shown is None:
                self.waiting.add(time)
            elif shown[1] <= time <= shown[1] + MINUTE:
                yield shown[0], time
        context.timer_service().register_event_time_timer(time + MINUTE)

    def on_timer(self, timestamp, context):
        shown = self.shown.value()
        if shown is None or shown[1] + MINUTE <= timestamp:
            self.shown.clear()
            self.waiting.clear()
        return iter(())


environment = session()
events = lines(environment).map(parsed, Types.TUPLE([Types.LONG(), Types.INT(), Types.LONG()]))
keyed = timed(events).key_by(lambda event: event[0], Types.LONG())
pairs = keyed.process(Pair(), Types.TUPLE([Types.INT(), Types.LONG()]))
write(environment, windows(pairs, seconds=10, key_type=Types.INT()))
