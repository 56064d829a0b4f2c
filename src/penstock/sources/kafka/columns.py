"""What becomes of a Kafka message, as expressions for Spark: its columns, its place, and why it has none.

A stream over one topic has the topic's partitions. Over several, a partition's number is a digest of topic and
partition: the same in every run, whatever topics come and go.

>>> partition_number("posts", 0), partition_number("posts", 1)
(122562514, 1883838276)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from zlib import crc32

from penstock.errors import DefinitionError, unknown
from penstock.kernel.expressions import dtype
from penstock.model.types import Schema
from penstock.sources.base import ARRIVED, MALFORMED, REASON

#: The parts of a message besides its value, with the types that a column of them may have.
PARTS: Final[dict[str, tuple[str, ...]]] = {
    "key": ("string", "binary"),
    "topic": ("string",),
    "partition": ("int",),
    "offset": ("bigint",),
    "timestamp": ("timestamp",),
    "headers": ("string",),
    "header:NAME": ("string", "binary"),
    "tombstone": ("boolean",),
}
#: A message's value, and the key of one that has none.
VALUE, KEY = "__value", "__key"
_TOMBSTONE: Final = "the message has no value, only this key: a tombstone"


def partition_number(topic: str, partition: int) -> int:
    """The number of a partition where there are several topics, as Spark computes it too."""
    return crc32(f"{topic}:{partition}".encode()) - (1 << 31)


# What a schema may ask for


def shows_tombstones(metadata: Mapping[str, str]) -> bool:
    """Whether messages without a value are rows, whose columns are null except for the other parts of the message."""
    return "tombstone" in metadata.values()


def check_metadata(metadata: Mapping[str, str], schema: Schema) -> None:
    for name, part in metadata.items():
        if name not in schema.names:
            raise DefinitionError(
                f"metadata names a column '{name}', which the schema does not have",
                detail=f"the schema is {schema.ddl()}",
                hint=f"add it there: '{name} {PARTS.get(part, ('string',))[0]}'",
            )
        kinds = PARTS.get("header:NAME" if part.startswith("header:") and len(part) > 7 else part)
        if kinds is None:
            raise unknown("part of a message", part, PARTS)
        if schema.type_of(name) not in kinds:
            raise DefinitionError(f"the column '{name}' is {part}, whose type is {' or '.join(kinds)}")
    if shows_tombstones(metadata) and "key" not in metadata.values():
        raise DefinitionError(
            "a tombstone has a key and no value, and no column has the key",
            hint="say which column it is: metadata={'item': 'key', 'deleted': 'tombstone'}",
        )


def check_payload(format: str, payload: Sequence[str], schema: Schema) -> None:
    for name in payload:
        dtype(schema.type_of(name))
    if format == "raw" and [schema.type_of(name) in ("string", "binary") for name in payload] not in ([True], []):
        raise DefinitionError(
            "a raw value is one column, a string or binary",
            detail=f"the schema has {', '.join(payload)}",
            hint="add the others to metadata={column: part}, or choose format='json'",
        )


# The expressions


def messages(metadata: Mapping[str, str], schema: Schema, columns: Sequence[str], *, several: bool) -> list[str]:
    """Of the connector's columns each row's place, those of the schema that do not come from the value, and the value.

    Of a key that is not a column only that of a tombstone is kept.
    """
    key = f"CASE WHEN value IS NULL THEN {_text('key')} END AS {KEY}"
    unfit = f"{_unfit(metadata, schema, columns)} AS {REASON}"
    return [*_own(metadata, schema, columns, several), f"value AS {VALUE}", key, unfit]


def _unfit(metadata: Mapping[str, str], schema: Schema, columns: Sequence[str]) -> str:
    """Why a message has no row although its value may be fine: a column of text that is not text."""
    cases = []
    for name, part in metadata.items():
        if name not in columns or schema.type_of(name) != "string":
            continue
        if part == "key":
            cases.append((_is_not_text("key"), "key"))
        elif part == "headers":
            cases.append((f"exists(headers, h -> {_is_not_text('h.value')})", "value of a header"))
        elif part.startswith("header:"):
            cases.append((_is_not_text(_header(part)), f"header {part[7:]}"))
    whens = " ".join(f"WHEN {case} THEN '{_quoted(not_text(what))}'" for case, what in cases)
    return f"CASE {whens} END" if whens else "CAST(NULL AS STRING)"


def _own(metadata: Mapping[str, str], schema: Schema, columns: Sequence[str], several: bool) -> list[str]:
    number = "CAST(crc32(CAST(concat(topic, ':', partition) AS BINARY)) - 2147483648 AS INT)"
    own = [f"{number if several else 'partition'} AS __partition", "`offset` AS __offset"]
    own.append(f"unix_millis(timestamp) AS {ARRIVED}")
    return own + [
        f"{_part(part, schema.type_of(name))} AS `{name}`" for name, part in metadata.items() if name in columns
    ]


def select(
    format: str,
    delimiter: str,
    metadata: Mapping[str, str],
    payload: Sequence[str],
    schema: Schema,
    columns: Sequence[str],
    *,
    several: bool,
) -> list[list[str]]:
    """Steps of expressions over the connector's columns by which Spark itself reads all but Avro."""
    if format == "raw" or not payload:
        kind = schema.type_of(payload[0]) if payload else "binary"
        value = _raw([name for name in payload if name in columns], kind, _unfit(metadata, schema, columns))
        return [_own(metadata, schema, columns, several) + value]
    read = messages(metadata, schema, columns, several=several)
    return [read] if format == "avro" else [read, *parsed(format, delimiter, metadata, payload, schema, columns)]


def parsed(
    format: str,
    delimiter: str,
    metadata: Mapping[str, str],
    payload: Sequence[str],
    schema: Schema,
    columns: Sequence[str],
) -> list[list[str]]:
    """Steps of expressions over `messages` by which Spark itself reads values of JSON and CSV."""
    carried = ["__partition", "__offset", ARRIVED, *(f"`{name}`" for name in metadata if name in columns)]
    wanted = [name for name in payload if name in columns]
    read = wanted if format == "json" else payload
    ddl = ", ".join(f"`{name}` {schema.type_of(name)}" for name in [*read]) + (", " if read else "")
    options = f"'mode', 'PERMISSIVE', 'columnNameOfCorruptRecord', '{MALFORMED}'"
    options += "" if format == "json" else f", 'sep', '{_quoted(delimiter)}'"
    options += ", 'allowSingleQuotes', 'false'" if format == "json" else ""
    parse = f"from_{format}(CAST({VALUE} AS STRING), '{ddl}`{MALFORMED}` STRING', map({options})) AS __parsed"
    bad = f"{REASON} IS NOT NULL OR {_is_not_text(VALUE)} OR __parsed IS NULL OR __parsed.`{MALFORMED}` IS NOT NULL"
    shown = shows_tombstones(metadata)
    is_dead = f"{VALUE} IS NULL AND {REASON} IS NOT NULL" if shown else f"{VALUE} IS NULL"
    is_row = f"WHEN {VALUE} IS NULL THEN NULL" if shown else ""
    malformed = f"CASE WHEN {is_dead} THEN coalesce({KEY}, '') {is_row} WHEN {bad} THEN {_text(VALUE)} END"
    refused = "" if shown else f"WHEN {VALUE} IS NULL THEN '{_TOMBSTONE}'"
    reasons = f"{refused} WHEN {_is_not_text(VALUE)} THEN '{not_text('value')}'"
    return [
        [*carried, parse, VALUE, KEY, REASON],
        [
            *carried,
            *(f"__parsed.`{name}` AS `{name}`" for name in wanted),
            f"{malformed} AS {MALFORMED}",
            f"CASE {reasons} ELSE {REASON} END AS {REASON}",
        ],
    ]


def _part(part: str, kind: str) -> str:
    if part.startswith("header:"):
        return _header(part) if kind == "binary" else _text(_header(part))
    if part == "tombstone":
        return "value IS NULL"
    if part == "headers":
        return f"to_json(transform(headers, h -> named_struct('key', h.key, 'value', {_text('h.value')})))"
    return _text("key") if part == "key" and kind == "string" else f"`{part}`"


def _header(part: str) -> str:
    """The value of the last header of a name."""
    return f"try_element_at(filter(headers, h -> h.key = '{_quoted(part[7:])}'), -1).value"


def _raw(wanted: Sequence[str], kind: str, unfit: str) -> list[str]:
    """The value itself; a tombstone is a null. What is to be text must be."""
    reason = unfit
    if kind != "binary":
        reason = f"CASE WHEN {_is_not_text('value')} THEN '{not_text('value')}' ELSE {unfit} END"
    return [
        *(f"{'value' if kind == 'binary' else _text('value')} AS `{name}`" for name in wanted),
        f"CASE WHEN ({reason}) IS NOT NULL THEN coalesce(hex(value), '') END AS {MALFORMED}",
        f"{reason} AS {REASON}",
    ]


def _is_not_text(value: str) -> str:
    return f"({value} IS NOT NULL AND NOT is_valid_utf8(CAST({value} AS STRING)))"


def not_text(what: str) -> str:
    """Why bytes are refused that are to be text."""
    return f"the {what} is not text in UTF-8"


def _text(value: str) -> str:
    """Bytes as text that Arrow takes: what is not UTF-8 is replaced."""
    return f"make_valid_utf8(CAST({value} AS STRING))"


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")


def tombstone() -> str:
    """Why a message without a value is refused."""
    return _TOMBSTONE
