"""The app's processors one after the other without Spark: what each epoch of the log makes of cars, tolls, balances."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import polars as pl

from examples.linear_road.app import Parts
from penstock.model.commits import Commit, Event
from penstock.model.process import Processed
from penstock.model.process_reference import ProcessReference
from penstock.model.time import END

Row = dict[str, Any]


class Stage:
    """A processor on the reference: rows of streams in, rows of its own stream out."""

    def __init__(self, processed: Processed) -> None:
        self.name, self.process = processed.name, processed.process
        self.runner = ProcessReference(self.process)
        self.commits: list[list[Row]] = []

    def commit(self, over: bool, **streams: list[Row]) -> list[Row]:
        """One commit of each stream; after the last one time has passed for good."""
        outputs: list[Row] = []
        for name, rows in streams.items():
            events = tuple(Event(name, row, 0, number) for number, row in enumerate(rows))
            outputs += self._commit(Commit(0, events))
        if over:
            outputs += self._commit(Commit(0, fixed=dict.fromkeys(streams, END)))
        self.commits.append(outputs)
        return outputs

    @property
    def rows(self) -> list[Row]:
        return [row for rows in self.commits for row in rows]

    def _commit(self, commit: Commit) -> list[Row]:
        result = self.runner.commit(commit)
        if result.refused or result.failed:
            raise AssertionError(f"{self.name} refused {[*result.refused, *result.failed][0]}")
        names = self.process.schema.names
        return [dict(zip(names, self.process.row(output), strict=True)) for _, output in result.outputs]


class AppRun:
    """The app over a log that is cut into epochs: its three processors, and what they answer."""

    def __init__(self, parts: Parts, epochs: Iterable[pl.DataFrame]) -> None:
        self.cars, self.tolls, self.balances = (Stage(one) for one in (parts.cars, parts.tolls, parts.balances))
        for epoch in [*epochs, None]:
            log = [] if epoch is None else epoch.to_dicts()
            over = epoch is None
            reported = self.cars.commit(over, log=log)
            charged = self.tolls.commit(over, cars=reported)
            self.balances.commit(over, log=log, tolls=charged)

    @property
    def answers(self) -> dict[str, list[tuple[int, ...]]]:
        """As the oracle has them; the expenditures are not the processors'."""
        tolls = [row for row in self.tolls.rows if row["side"] is None]
        alerts = [row for row in self.tolls.rows if row["side"] == "alerts"]
        return {
            "tolls": [picked(row, "vid time lav toll") for row in tolls],
            "alerts": [picked(row, "alerts_time alerts_xway alerts_seg alerts_dir alerts_vid") for row in alerts],
            "balances": [picked(row, "time qid balance") for row in self.balances.rows],
        }


def picked(row: Row, names: str) -> tuple[int, ...]:
    return tuple(row[name] for name in names.split())
