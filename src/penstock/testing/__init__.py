"""Test a view in milliseconds: feed it events, move the watermark and the clock, restart it, and look at its panes.

>>> import penstock as ps
>>> from penstock.testing import TestStream, run
>>> visits = ps.stream("visits", schema="page string, at timestamp", event_time="at",
...                    watermark=ps.bounded("10 seconds"))
>>> views = visits.group_by("page").window(ps.fixed("1 minute")).agg(n=ps.count())
>>> script = (TestStream(visits)
...           .add(("/a", "12:00:10"), ("/b", "12:00:20"), ("/a", "12:00:30"))
...           .watermark("12:01:00"))
>>> print(run(views, script))
commit  page  window_start  window_end  n  kind    timing   index  final
     2  /a    12:00:00      12:01:00    2  insert  on time      0  true
     2  /b    12:00:00      12:01:00    1  insert  on time      0  true
"""

from penstock.testing.derived import iterate, join, learn, process, run_topology
from penstock.testing.engines import Engine, replay, start
from penstock.testing.result import FiredPane, Result, StreamResult, show, text_of
from penstock.testing.script import DAY, ScriptRow, Step, TestStream
from penstock.testing.views import run

__all__ = [
    "DAY",
    "Engine",
    "FiredPane",
    "Result",
    "ScriptRow",
    "Step",
    "StreamResult",
    "TestStream",
    "iterate",
    "join",
    "learn",
    "process",
    "replay",
    "run",
    "run_topology",
    "show",
    "start",
    "text_of",
]
