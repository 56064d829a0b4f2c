"""The past of a stream as its log still has it: read again up to the offsets of a commit, from wherever one says.

Kafka gives the messages between offsets. Of a directory, Spark's own source log in the checkpoint says which files each
epoch has read, and so in which order.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.errors import DefinitionError, PenstockError
from penstock.history.events.past import Past
from penstock.kernel.offsets import epoch_offsets
from penstock.model.stream import Stream
from penstock.model.time import Instant, instant
from penstock.sources import Files, Kafka
from penstock.sources.files.listed import ListedFile, listed
from penstock.store.checkpoints import Place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BEGINNING: Final = "beginning"


class ReplayError(PenstockError):
    """A log cannot be read again."""


@dataclass(frozen=True)
class From:
    """Where to begin: at the beginning, at a time, or at an offset.

    The offset of a Kafka stream is one number for all its partitions, or Spark's JSON by topic and partition; that of a
    directory is the number of an epoch.
    """

    at: Instant | None = None
    offset: str | None = None

    @classmethod
    def parse(cls, text: str) -> From:
        """
        >>> From.parse("beginning"), From.parse("12"), From.parse("1970-01-01T00:00:01Z")
        (From(at=None, offset=None), From(at=None, offset='12'), From(at=1000000, offset=None))
        """
        stripped = text.strip()
        if stripped in ("", BEGINNING, "earliest"):
            return cls()
        if stripped.isdigit() or stripped.startswith("{"):
            return cls(offset=stripped)
        try:
            return cls(at=instant(stripped))
        except (DefinitionError, ValueError):
            raise DefinitionError(
                f"'{text}' is not a position to start from",
                hint="write beginning, an offset like 1200, or a time like 2026-01-01T00:00:00Z",
            ) from None


@dataclass(frozen=True)
class FilesPast(Past):
    """Files that a stream has read, in the order in which it read them."""

    stream: Stream
    files: tuple[str, ...]

    @property
    def positions(self) -> Mapping[str, range]:
        """All before the positions of epochs to come."""
        log = self.stream.log
        assert isinstance(log, Files)
        return log.positions(self.files, epoch_offsets(0))

    def frame(self, spark: SparkSession, columns: Sequence[str]) -> DataFrame:
        log = self.stream.log
        assert isinstance(log, Files)
        return log.read_these(spark, self.stream.schema, columns, self.files)


@dataclass(frozen=True)
class KafkaPast(Past):
    """Messages from a place on up to the offsets of a commit."""

    stream: Stream
    start: str | Instant
    end: str

    def frame(self, spark: SparkSession, columns: Sequence[str]) -> DataFrame:
        log = self.stream.log
        assert isinstance(log, Kafka)
        return log.read_span(spark, self.stream.schema, columns, self.start, self.end)


def log_past(stream: Stream, checkpoint: Place, offsets: str | None, start: From) -> Past:
    """The rows of a log up to the committed offsets; none where nothing is committed."""
    log = stream.log
    if isinstance(log, Files):
        through = -1 if offsets is None else int(json.loads(offsets)["logOffset"])
        return FilesPast(stream, tuple(_files(checkpoint, through, start)))
    if isinstance(log, Kafka):
        if offsets is None:
            raise ReplayError(f"the stream '{stream.name}' has no commit yet", hint="let the app run first")
        return KafkaPast(stream, _place(offsets, start), offsets)
    raise ReplayError(
        f"the log of the stream '{stream.name}' cannot be replayed: {log!r}",
        hint="only Kafka topics and directories can be replayed; to keep a history: keep='all'",
    )


def _place(offsets: str, start: From) -> str | Instant:
    if start.at is not None:
        return start.at
    if start.offset is None:
        return "earliest"
    if start.offset.startswith("{"):
        return start.offset
    known = json.loads(offsets)
    first = int(start.offset)
    return json.dumps({t: {n: min(first, end) for n, end in ps.items()} for t, ps in known.items()})


def _files(checkpoint: Place, through: int, start: From) -> list[str]:
    """The files of the epochs up to one, from Spark's source log. Compacted entries hold all that came before."""
    folder = (checkpoint / "sources" / "0").local
    if folder is None:
        raise ReplayError(f"the checkpoint '{checkpoint}' is not on this machine", hint="replay from the history")
    files: set[ListedFile] = set()
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.name.removesuffix(".compact").isdigit():
            files |= set(listed(path.read_text(encoding="utf-8")))
    first = int(start.offset) if start.offset is not None else 0
    since = None if start.at is None else start.at // 1000
    last = {file.path: file for file in sorted(files)}  # Spark lists a file again that was rewritten
    return [
        file.path
        for file in sorted(last.values())
        if first <= file.entry <= through and (since is None or file.time >= since)
    ]


__all__ = ["BEGINNING", "FilesPast", "From", "KafkaPast", "ReplayError", "log_past"]
