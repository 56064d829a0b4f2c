"""The commits of streams, as a stream that Spark reads: an offset is the number of a commit.

Spark plans such a stream in Python processes of its own, several for each. They ask the driver (`commit_feed.py`),
which has the store open: so they load next to nothing, and no query waits for them. A task gets names of files and
reads them itself.
"""

from __future__ import annotations

import json
import pickle
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from penstock.errors import PenstockError
from penstock.runtime.derived.commit_offsets import BEGIN, SCHEMA, Offset
from penstock.runtime.rpc import Address, asked

if TYPE_CHECKING:
    import pyarrow as pa


#: The option that says where the driver is: Spark shows nothing that is called secret.
_DRIVER: Final = "driver_secret"


class Commits(DataSource):
    """The commits that the driver tells of under the key that the options name."""

    @classmethod
    def name(cls) -> str:
        return "penstock_commits"

    def schema(self) -> str:
        return str(self.options.get("schema", SCHEMA))

    def streamReader(self, schema: object) -> DataSourceStreamReader:
        host, port, word = json.loads(self.options[_DRIVER])
        return _Reader(Address(host, port, b64decode(word)), self.options["key"])


def options(address: Address, key: str) -> dict[str, str]:
    """Where the driver is, for the options of such a stream."""
    return {_DRIVER: json.dumps([address.host, address.port, b64encode(address.secret).decode()]), "key": key}


@dataclass
class Part(InputPartition):
    """One row: its kind, and its bytes."""

    kind: str
    data: bytes


class _Reader(DataSourceStreamReader):
    """Asks which commits are new, and hands out what they brought."""

    def __init__(self, address: Address, key: str) -> None:
        self._address: Address | None = address
        self._key = key
        self._line: Connection | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_line": None, "_address": None}  # tasks do not ask

    def _ask(self, question: str, *about: Any) -> Any:
        assert self._address is not None
        if self._line is None:
            self._line = self._address.connect()
        answer, failure = pickle.loads(asked(self._line, json.dumps([self._key, question, about]).encode()))
        if failure is not None:
            raise PenstockError(failure)
        return answer

    def initialOffset(self) -> Offset:
        return dict(BEGIN)

    def latestOffset(self, start: Offset, limit: object) -> Offset:
        return dict(self._ask("latest", start))

    def reportLatestOffset(self) -> Offset | None:
        """How far an epoch without a limit would read."""
        newest: Offset | None = self._ask("newest")
        return newest

    def partitions(self, start: Offset, end: Offset) -> Sequence[Part]:
        return [Part(kind, data) for kind, data in self._ask("parts", start, end)]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        from penstock.runtime.derived.commits import arrow_of

        yield from arrow_of([(partition.kind, partition.data)]).to_batches()
