"""A loop in Spark's tasks: events that enter it, all rounds of a small epoch, or a part of one round of a large one."""

from __future__ import annotations

import json
import pickle
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import polars as pl
import pyarrow as pa

from penstock.kernel.expressions import dtype
from penstock.model.loops import Iteration
from penstock.model.loops_rounds import LoopError
from penstock.runtime.derived.arrivals import ARRIVED, Arriving
from penstock.runtime.derived.loops.machine import KEPT, PLACE, LoopTally, machine_of, run, run_around
from penstock.runtime.derived.loops.memory import fetching
from penstock.runtime.epoch.wire import as_batches, pack
from penstock.runtime.rpc import Address, Unreachable

#: What a task tells: rows of the stream, what is to be kept, what was done; or what is left to do, and why.
ROWS, MEMORY, TALLY, REST, FAILED, APART = "rows", "memory", "tally", "rest", "failed", "apart"


def events_of(iteration: Iteration, batches: Iterable[pa.RecordBatch]) -> tuple[pl.DataFrame, list[tuple[str, str]]]:
    """The events that commits brought, in order, and the dead letters of the steps before the loop."""
    arriving = Arriving(iteration.input)
    frames = [pl.DataFrame(pl.from_arrow(batch)) for batch in arriving(batches)]
    types = {name: dtype(kind) for name, kind in (*ARRIVED.items(), *iteration.event)}
    arrivals = pl.concat([pl.DataFrame(schema=types), *(frame.cast(types) for frame in frames)])
    dead = arrivals.filter(pl.col("__reason").is_not_null()).select("__row", "__reason").rows()
    return arrivals.filter(pl.col("__reason").is_null()).sort(PLACE).drop("__at", "__row", "__reason"), dead


@dataclass(frozen=True)
class Alone:
    """All of an epoch, or what is left of one, in one task. It gives back what is too much for one."""

    iteration: Iteration
    name: str
    address: Address
    bound: int
    carefully: bool = False
    rest: bytes | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        machine, tally = machine_of(self.iteration), LoopTally()
        try:
            with fetching(self.address) as fetch:
                inbox: Any = machine.together([])
                if self.rest is not None:
                    deque(batches, maxlen=0)  # else Spark needs another worker for the next task
                    saved, inbox, first = pickle.loads(self.rest)
                    machine.load(saved)
                    inbox = run(machine, inbox, fetch, tally, self.name, first=first, bound=self.bound)
                else:
                    events, dead = events_of(self.iteration, batches)
                    tally.refused += dead
                    if self.carefully:
                        run_around(machine, events, fetch, tally, self.name)
                    else:
                        inbox, refused = machine.enter(events)
                        tally.refused += refused
                        inbox = run(machine, inbox, fetch, tally, self.name, bound=self.bound)
            records = [(TALLY, 0, json.dumps(asdict(tally)).encode())]
            if machine.size(inbox):
                records.append((REST, 0, pickle.dumps((machine.save(), inbox, tally.rounds))))
            else:
                records += [(ROWS, 0, pack(machine.rows())), (MEMORY, 0, pack(machine.memory().cast(KEPT)))]  # type: ignore[arg-type]
        except LoopError as error:
            records = [(FAILED, 0, error.message.encode())]
        except Unreachable as error:
            records = [(APART, 0, str(error).encode())]
        yield from as_batches(records)


@dataclass(frozen=True)
class Entering:
    """The events of a part of an epoch enter the loop."""

    iteration: Iteration

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        machine = machine_of(self.iteration)
        events, dead = events_of(self.iteration, batches)
        try:
            inbox, refused = machine.enter(events)
        except LoopError as error:
            yield from as_batches([(FAILED, 0, error.message.encode())])
            return
        tally = LoopTally(refused=[*dead, *refused])
        yield from as_batches([(REST, 0, pickle.dumps(inbox)), (TALLY, 0, json.dumps(asdict(tally)).encode())])


@dataclass(frozen=True)
class Working:
    """Parts of one round."""

    iteration: Iteration
    number: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        machine = machine_of(self.iteration)
        for batch in batches:
            for part in batch.column(0).to_pylist():
                try:
                    yield from as_batches([(REST, 0, machine.work(part, self.number))])
                except LoopError as error:
                    yield from as_batches([(FAILED, 0, error.message.encode())])


@dataclass(frozen=True)
class Showing:
    """What the states that an epoch has changed show: code of the user's, so it runs in a task too."""

    iteration: Iteration

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        machine = machine_of(self.iteration)
        for batch in batches:
            for data in batch.column(0).to_pylist():
                machine.load(pickle.loads(data))
                try:
                    records = [(ROWS, 0, pack(machine.rows())), (MEMORY, 0, pack(machine.memory().cast(KEPT)))]  # type: ignore[arg-type]
                except LoopError as error:
                    records = [(FAILED, 0, error.message.encode())]
                yield from as_batches(records)
