"""What every job has: its input, which has no end for Pathway, and its answer, written when all is counted."""

import csv
import os
from pathlib import Path

import pathway as pw

FORMAT = "%Y-%m-%dT%H:%M:%S.%fZ"


def events(schema):
    return pw.io.jsonlines.read(os.environ["PEERS_INPUT"], schema=schema, mode="streaming", object_pattern="*.json")


def table(schema):
    with Path(os.environ["PEERS_TABLE"], "ads.csv").open(newline="") as file:
        return pw.debug.table_from_rows(schema, [tuple(row) for row in csv.reader(file)])


def run(read, rows, columns, is_answer=lambda row: True):
    """Runs until the rows contain all events that there are, and writes them as CSV."""
    wanted = int(os.environ["PEERS_EVENTS"])
    answer, counted = {}, {"time": None}
    ended = {"rows": -1, "events": -1}

    def changed(key, row, time, is_addition):
        if not is_answer(row):
            return
        if is_addition:
            answer[key] = [row[name] for name in columns]
        elif answer.get(key) == [row[name] for name in columns]:
            del answer[key]

    def count(key, row, time, is_addition):
        if is_addition and row["n"] == wanted:
            counted["time"] = time

    def end(kind):
        def note(time):
            ended[kind] = time
            if counted["time"] is not None and min(ended.values()) >= counted["time"]:
                with Path(os.environ["PEERS_OUTPUT"], "answer.csv").open("w", newline="") as file:
                    csv.writer(file).writerows(answer.values())
                os._exit(0)

        return note

    pw.io.subscribe(rows, on_change=changed, on_time_end=end("rows"))
    pw.io.subscribe(read.reduce(n=pw.reducers.count()), on_change=count, on_time_end=end("events"))
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
