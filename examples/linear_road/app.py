"""Linear Road on one expressway or several, over the files that events.py writes into the directory where it runs.

python examples/linear_road/events.py /tmp/road
HERE=$PWD; cd /tmp/road; penstock run $HERE/examples/linear_road/app.py --until-caught-up
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import penstock as ps
from examples.linear_road.events import BALANCE, EXPENDITURE, REPORT, SCHEMA
from examples.linear_road.processors import Accounts, Cars, Segments
from penstock.model.process import Processed
from penstock.model.stream import Flow

#: The log is in the order of time, and so is all that is made of it, one commit after the other. What time it is only
#: the log says: where it stands still, nothing that comes later is late.
IN_ORDER = ps.bounded("0 seconds", idle=None)
MINUTE = ps.fixed("1 minute")


@dataclass(frozen=True)
class Parts:
    """The app, and what it is made of."""

    app: ps.App
    log: ps.Stream
    cars: Processed
    tolls: Processed
    balances: Processed
    history: ps.Table
    expenditures: Flow

    @property
    def answers(self) -> dict[str, Flow]:
        """What Linear Road wants to know."""
        return {
            "tolls": self.tolls.select("vid", "time", "lav", "toll"),
            "alerts": self.tolls.side("alerts").select("time", "xway", "seg", "dir", "vid"),
            "balances": self.balances.select("time", "qid", "balance"),
            "expenditures": self.expenditures,
        }


def linear_road(directory: Path, files_per_epoch: int | None = None) -> Parts:
    """The app with its views; sinks are for who runs it."""
    app = ps.App("linear_road")
    log = app.stream(
        "log", ps.files(directory / "log", format="csv", files_per_epoch=files_per_epoch), schema=SCHEMA,
        event_time="timestamp_seconds(time)", watermark=IN_ORDER,
    )  # fmt: skip

    reports = log.where(f"type = {REPORT}").select("time", "vid", "spd", "xway", "lane", "dir", "seg", "pos")
    cars = app.process("cars", reports, Cars, by="vid", event_time="at", watermark=IN_ORDER)
    tolls = app.process("tolls", cars, Segments, by=("xway", "dir", "seg"), event_time="at", watermark=IN_ORDER)

    charged = tolls.select("time", "vid", "toll", "begins", qid="CAST(NULL AS int)")
    asked = log.where(f"type = {BALANCE}").select(
        "time", "vid", toll="CAST(NULL AS int)", begins="CAST(NULL AS boolean)", qid="qid"
    )
    balances = app.process("balances", charged.union(asked), Accounts, by="vid", event_time="at", watermark=IN_ORDER)

    history = app.table(
        "history", ps.files(directory / "history", format="csv"), schema="car int, on_day int, road int, paid int",
        key=("car", "on_day", "road"),
    )  # fmt: skip
    spent = log.where(f"type = {EXPENDITURE}").join(
        history, on="vid = car AND day = on_day AND xway = road", how="left"
    )
    expenditures = spent.select("time", "qid", toll="coalesce(paid, 0)")

    of_segment = ("xway", "dir", "seg")
    seen = cars.where("vid IS NOT NULL").group_by(*of_segment).window(MINUTE)
    app.view("statistics", seen.agg(cars=ps.count(where="fresh"), reports=ps.count(), speeds=ps.sum("spd")))
    entered = tolls.group_by(*of_segment).window(MINUTE)
    app.view("tolls_by_minute", entered.agg(toll=ps.max("toll"), lav=ps.max("lav"), cars=ps.count()))
    warned = tolls.side("alerts").group_by(*of_segment).window(MINUTE)
    app.view("alerts_by_minute", warned.agg(cars=ps.count()))
    return Parts(app, log, cars, tolls, balances, history, expenditures)


made = linear_road(Path())
app = made.app
for name, flow in made.answers.items():
    app.sink(flow, ps.to_jsonl(f"out/{name}"), name=name)
