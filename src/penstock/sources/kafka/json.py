"""Values of Kafka messages in JSON, as columns, inside Spark's tasks."""

from __future__ import annotations

import polars as pl
from polars.exceptions import ComputeError

from penstock.model.types import Schema
from penstock.sources.base import MALFORMED, REASON
from penstock.sources.formats import json_lines
from penstock.sources.kafka.columns import KEY, VALUE, not_text, tombstone


def decoded_json(rows: pl.DataFrame, schema: Schema, *, tombstones: bool = False) -> pl.DataFrame:
    """Messages with the columns of their values; of those that do not fit the text, and of tombstones the key.

    With `tombstones` a message without a value is a row of nulls. A message whose key or headers cannot be read has its
    reason already.
    """
    texts, reasons = _texts(rows[VALUE])
    reasons = rows[REASON].zip_with(rows[REASON].is_not_null(), reasons)
    frame = json_lines.decoded(texts, schema, blank=True, reasons=reasons)
    none = rows[VALUE].is_null()
    if none.any():
        key = rows[KEY].cast(pl.String).fill_null("")
        reason = pl.Series([tombstone()]).new_from_index(0, len(none))
        if tombstones:
            reason = rows[REASON]
            key = key.zip_with(reason.is_not_null(), pl.Series([None], dtype=pl.String).new_from_index(0, len(none)))
        frame = frame.with_columns(
            key.zip_with(none, frame[MALFORMED]).alias(MALFORMED),
            reason.zip_with(none, frame[REASON]).alias(REASON),
        )
    return rows.drop(VALUE, KEY, REASON).hstack(frame)


def _texts(values: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Values as text, empty where there is none; bytes that are not UTF-8 are shown as such, with the reason."""
    try:
        texts = values.cast(pl.String).fill_null("")
        return texts, pl.Series([None], dtype=pl.String).new_from_index(0, len(values))
    except ComputeError:  # of one value: then each is looked at
        pairs = [_text(value) for value in values]
        return pl.Series([text for text, _ in pairs]), pl.Series([reason for _, reason in pairs], dtype=pl.String)


def _text(value: bytes | None) -> tuple[str, str | None]:
    try:
        return ("" if value is None else value.decode()), None
    except UnicodeDecodeError:
        assert value is not None
        return value.decode("utf-8", "backslashreplace"), not_text("value")
