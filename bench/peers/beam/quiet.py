"""How many events a key had and their sum, when it is quiet for a minute."""

import apache_beam as beam
import orjson
from apache_beam.coders import FastPrimitivesCoder
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec, TimerSpec, on_timer
from reading import OUTPUT, at, lines, pipeline


def parsed(line):
    event = orjson.loads(line)
    return at(event["at"], (event["key"], event["v"]))


QUIET = TimerSpec("quiet", TimeDomain.WATERMARK)
TIMER = beam.DoFn.TimerParam(QUIET)
STATE = beam.DoFn.StateParam(ReadModifyWriteStateSpec("state", FastPrimitivesCoder()))


class Quiet(beam.DoFn):
    def process(self, item, time=beam.DoFn.TimestampParam, state=STATE, timer=TIMER):
        key, v = item
        _, n, total, last = state.read() or (key, 0, 0, 0.0)
        last = max(last, float(time))
        state.write((key, n + 1, total + v, last))
        timer.set(last + 60)

    @on_timer(QUIET)
    def quiet(self, state=STATE):
        key, n, total, _ = state.read()
        state.clear()
        yield f"{key},{n},{total}"


if __name__ == "__main__":
    with pipeline() as run:
        events = lines(run) | beam.Map(parsed) | beam.Filter(lambda item: item[0] != "end")
        events | beam.ParDo(Quiet()) | beam.io.WriteToText(f"{OUTPUT}/answer/part")
