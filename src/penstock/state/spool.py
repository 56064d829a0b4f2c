"""The exchange: deltas on their way from the tasks that made them to the tasks that own the shards.

A task writes its deltas of a view into one file, a part for each receiver. Such files are not state: they are needed
until the epoch is committed, and an epoch that is tried again makes new ones.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import polars as pl
import pyarrow as pa

#: The folder of such files beside the segments.
FOLDER: Final = "spool"


@dataclass(frozen=True)
class Receivers:
    """The tasks that get the deltas of one view, by the view's number. At most `few` go to the driver instead."""

    view: int
    count: int
    few: int


@dataclass(frozen=True)
class Spool:
    """Where tasks put deltas, under the id of the attempt that writes them, and of which views."""

    root: str
    write_id: str
    receivers: tuple[Receivers, ...] = ()

    def put(self, blocks: Sequence[pl.DataFrame]) -> SpooledDeltas:
        """Writes a part for each receiver."""
        name = f"{FOLDER}/{self.write_id}.{uuid.uuid4().hex}.arrow"
        path = Path(self.root) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        parts: list[tuple[int, int]] = []
        with pa.OSFile(str(path), "wb") as out:
            for rows in blocks:
                begin = out.tell()
                if rows.height:
                    table = rows.rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())
                    with pa.ipc.new_stream(out, table.schema) as writer:
                        writer.write_table(table)
                parts.append((begin, out.tell() - begin))
        return SpooledDeltas(name, sum(rows.height for rows in blocks), tuple(parts))


@dataclass(frozen=True)
class SpooledDeltas:
    """A file of deltas of one view, with where each receiver's part begins and how long it is."""

    path: str
    rows: int
    parts: tuple[tuple[int, int], ...]

    def read(self, root: str, receiver: int) -> pl.DataFrame | None:
        """The deltas for one receiver; None if there are none."""
        begin, length = self.parts[receiver]
        if not length:
            return None
        with pa.memory_map(str(Path(root) / self.path)) as file:
            file.seek(begin)
            table = pa.ipc.open_stream(pa.BufferReader(file.read_buffer(length))).read_all()
        frame = pl.from_arrow(table)
        assert isinstance(frame, pl.DataFrame)
        return frame

    def text(self) -> str:
        """As JSON, for the way from a task to the driver."""
        return json.dumps(asdict(self))

    @classmethod
    def parsed(cls, text: str | bytes) -> SpooledDeltas:
        fields = json.loads(text)
        return cls(fields["path"], fields["rows"], tuple((begin, length) for begin, length in fields["parts"]))
