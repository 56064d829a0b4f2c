"""Avro values, read in the task: by the schema in a file, or by the one that each message names in a registry.

A message of a registry begins with a zero byte and the number of its schema in four bytes, the most significant first.
The registry is a server that answers `GET /schemas/ids/7`, or a directory with files like `7.avsc`.
"""

from __future__ import annotations

import io
import json
from base64 import b64encode
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import Request, urlopen

import polars as pl

from penstock.errors import DefinitionError, PenstockError, RowError
from penstock.kernel.expressions import dtype
from penstock.sources.base import MALFORMED, REASON
from penstock.sources.formats.avro_values import fitting
from penstock.sources.kafka.columns import KEY, VALUE, tombstone

_TYPE: Final = "application/vnd.schemaregistry.v1+json"
_SECONDS: Final = 30


class AvroReader:
    """Reads values by one schema, or by those of a registry.

    With `tombstones` a message without a value is a row of nulls.
    """

    def __init__(self, schema: str | None, registry: str | None, *, tombstones: bool = False) -> None:
        self._tombstones = tombstones
        self._schema: Any = None if schema is None else _parsed(schema)
        self._registry = registry
        self._missing: dict[int, RowError] = {}  # asked once for a batch: it may be there later

    def decoded(self, rows: pl.DataFrame, types: Mapping[str, str]) -> pl.DataFrame:
        """The columns of the records in place of the values; what cannot be read is malformed, with the reason."""
        fits = {name: fitting(kind) for name, kind in types.items()}
        columns: dict[str, list[Any]] = {name: [] for name in types}
        bad: list[str | None] = []
        why: list[str | None] = []
        for value, key, unfit in rows.select(VALUE, KEY, REASON).iter_rows():
            try:
                if unfit is not None:
                    raise RowError(unfit)
                record, text, reason = self._record(value, fits), None, None
            except RowError as error:
                record, reason = dict.fromkeys(types), error.message
                text = (key or "") if value is None else value.hex()
            for name, column in columns.items():
                column.append(record[name])
            bad.append(text)
            why.append(reason)
        series = [pl.Series(name, column, dtype(types[name]), strict=True) for name, column in columns.items()]
        series += [pl.Series(MALFORMED, bad, pl.String), pl.Series(REASON, why, pl.String)]
        return rows.drop(VALUE, KEY).with_columns(*series)

    def _record(self, value: bytes | None, fits: Mapping[str, Callable[[Any], Any]]) -> dict[str, Any]:
        """The fields of one record that are columns; one that its schema lacks is null."""
        from fastavro import schemaless_reader

        if value is None and self._tombstones:
            return dict.fromkeys(fits)
        if value is None:
            raise RowError(tombstone())
        schema, body = (self._schema, value) if self._registry is None else self._named(value)
        stream = io.BytesIO(body)
        try:
            record = schemaless_reader(stream, schema, None)
        except Exception as error:  # whatever the bytes make it stumble over
            raise RowError(f"the value does not follow its Avro schema: {type(error).__name__}: {error}") from error
        if stream.read(1):
            raise RowError("the value does not follow its Avro schema: there are extra bytes after its end")
        if not isinstance(record, dict):
            raise RowError("the value's Avro schema is not a record")
        fields = {}
        for name, fit in fits.items():
            try:
                fields[name] = fit(record.get(name))
            except RowError as error:
                raise RowError(f"the field '{name}': {error.message}") from None
        return fields

    def _named(self, value: bytes) -> tuple[Any, bytes]:
        """The schema that a message names, and what comes after the name."""
        if len(value) < 5 or value[0]:
            raise RowError("the value does not start with a zero byte and the id of a schema")
        number = int.from_bytes(value[1:5], "big")
        if number in self._missing:
            raise self._missing[number]
        try:
            assert self._registry is not None
            return _registered(self._registry, number), value[5:]
        except RowError as error:
            self._missing[number] = error
            raise


def schema_in(path: Path) -> str:
    """The text of a schema file; refuses one that is not that of a record."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise DefinitionError(f"cannot read the Avro schema '{path}': {error.strerror}") from error
    try:
        schema = _parsed(text)
    except Exception as error:
        raise DefinitionError(f"'{path}' is not an Avro schema", detail=f"{type(error).__name__}: {error}") from error
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise DefinitionError(
            f"the Avro schema '{path}' is not that of a record", hint="the schema of a message must be a record"
        )
    return text


@lru_cache(maxsize=1024)
def _parsed(text: str) -> Any:
    try:
        from fastavro import parse_schema
    except ImportError as error:
        raise PenstockError("Avro needs the package fastavro", hint="pip install 'penstock[kafka]'") from error
    return parse_schema(json.loads(text))


@lru_cache(maxsize=1024)
def _registered(registry: str, number: int) -> Any:
    """A schema of a registry: it never changes under its number."""
    text = _from_registry(registry, number) if "://" in registry else _from_directory(Path(registry), number)
    return _parsed(text)


def _from_directory(directory: Path, number: int) -> str:
    try:
        return (directory / f"{number}.avsc").read_text(encoding="utf-8")
    except FileNotFoundError:
        if not directory.is_dir():
            raise PenstockError(f"there is no directory of schemas '{directory}'") from None
        raise RowError(f"the registry has no schema {number}") from None


def _from_registry(registry: str, number: int) -> str:
    parts = urlsplit(registry)
    bare = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    request = Request(f"{bare.rstrip('/')}/schemas/ids/{number}", headers={"Accept": _TYPE})
    if parts.username is not None:
        who = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
        request.add_header("Authorization", f"Basic {b64encode(who).decode()}")
    try:
        with urlopen(request, timeout=_SECONDS) as answer:
            reply = json.load(answer)
    except HTTPError as error:
        if error.code == 404:
            raise RowError(f"the registry has no schema {number}") from None
        raise PenstockError(f"the schema registry {bare} answers {error.code} to schema {number}") from error
    except (URLError, OSError, ValueError) as error:
        raise PenstockError(
            f"the schema registry {bare} cannot be reached for schema {number}", detail=str(error)
        ) from error
    if reply.get("schemaType", "AVRO") != "AVRO" or reply.get("references"):
        raise RowError(f"schema {number} of the registry is not plain Avro, or is spread over several")
    text: str = reply["schema"]
    return text
