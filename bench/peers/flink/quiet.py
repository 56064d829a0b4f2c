"""How many events a key had and their sum, when it is quiet for a minute."""

from datetime import datetime

import orjson
from pyflink.common import Types
from pyflink.datastream.functions import KeyedProcessFunction
from pyflink.datastream.state import ValueStateDescriptor
from session import NUMBERS, lines, session, timed, write

MINUTE = 60_000


def parsed(line):
    event = orjson.loads(line)
    return event["key"], event["v"], int(datetime.fromisoformat(event["at"]).timestamp() * 1000)


class Quiet(KeyedProcessFunction):
    """Timers stay where they are; one that comes too early goes on to the time that counts."""

    def open(self, runtime_context):
        self.state = runtime_context.get_state(ValueStateDescriptor("state", NUMBERS))

    def process_element(self, event, context):
        _, v, time = event
        known = self.state.value()
        if known is None:
            known = (0, 0, time)
            context.timer_service().register_event_time_timer(time + MINUTE)
        self.state.update((known[0] + 1, known[1] + v, max(known[2], time)))
        return iter(())

    def on_timer(self, timestamp, context):
        n, total, last = self.state.value()
        if last + MINUTE > timestamp:
            context.timer_service().register_event_time_timer(last + MINUTE)
        else:
            self.state.clear()
            yield f"{context.get_current_key()},{n},{total}"


environment = session()
events = lines(environment).map(parsed, Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()]))
keyed = timed(events.filter(lambda event: event[0] != "end")).key_by(lambda event: event[0], Types.STRING())
write(environment, keyed.process(Quiet(), Types.STRING()))
