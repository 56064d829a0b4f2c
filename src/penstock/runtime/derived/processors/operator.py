"""What `transformWithState` runs on a part of a processor's keys.

Spark unpickles it in a process of its own when a query starts, only to ask what state there is: so this loads next to
nothing, and the processor not before there are events.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from pyspark import cloudpickle
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from penstock.runtime.derived.processors.state_pipe import Texts

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import TimerValues, ValueState

    from penstock.model.process import Process
    from penstock.model.processing import Processing

LEAVING: Final = "kind string, data binary"


class SparkCells:
    """Cells in Spark's state: maps of text by text, for the part of the keys at hand."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._cells = Texts(handle.getMapState("cells", "key string", "cell string"))
        self._slots = Texts(handle.getMapState("slots", "slot string", "keys string"))
        self._index: ValueState = handle.getValueState("index", "slots string")

    def get(self, keys: Sequence[str]) -> list[str | None]:
        return self._cells.get(keys)

    def put(self, texts: Iterable[tuple[str, str | None]]) -> None:
        self._cells.put(texts)

    def slots(self, slots: Sequence[str]) -> list[str | None]:
        return self._slots.get(slots)

    def put_slots(self, texts: Iterable[tuple[str, str | None]]) -> None:
        self._slots.put(texts)

    def index(self) -> str | None:
        found = self._index.get()
        return None if found is None else str(found[0])

    def put_index(self, text: str) -> None:
        self._index.update((text,))


class Operator(StatefulProcessor):
    """What Spark runs for each part of the keys, in every epoch."""

    def __init__(self, process: Process) -> None:
        self._packed: bytes = cloudpickle.dumps(process)  # type: ignore[no-untyped-call]

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._cells = SparkCells(handle)

    @cached_property
    def _process(self) -> tuple[Process, Processing]:
        from penstock.model.processing import Processing

        process: Process = pickle.loads(self._packed)
        return process, Processing(process.shape)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: TimerValues) -> Iterator[Row]:
        from penstock.runtime.derived.processors.rows import handled

        records = ((row.kind, bytes(row.data)) for row in rows)
        for kind, data in handled(*self._process, self._cells, records):
            yield Row(kind=kind, data=data)

    def close(self) -> None:
        return
