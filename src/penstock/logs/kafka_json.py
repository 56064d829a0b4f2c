"""Values of Kafka messages in JSON, as columns, inside Spark's tasks."""

from __future__ import annotations

import polars as pl
from polars.exceptions import ComputeError

from penstock.logs import json_lines
from penstock.logs.base import MALFORMED, REASON
from penstock.logs.kafka_columns import KEY, VALUE, tombstone
from penstock.model.types import Schema


def decoded_json(rows: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    """Messages with the columns of their values; of those that do not fit the text, and of tombstones the key."""
    found = json_lines.decoded(_texts(rows[VALUE]), schema, blank=True)
    none = rows[VALUE].is_null()
    if not none.any():
        return rows.drop(VALUE, KEY).hstack(found).with_columns(pl.lit(None, pl.String).alias(REASON))
    key = rows[KEY].cast(pl.String).fill_null("")
    bad, empty = found[MALFORMED], pl.Series([None], dtype=pl.String)
    found = found.with_columns(
        key.zip_with(none, bad).alias(MALFORMED),
        pl.Series([tombstone()]).new_from_index(0, len(none)).zip_with(none, empty).alias(REASON),
    )
    return rows.drop(VALUE, KEY).hstack(found)


def _texts(values: pl.Series) -> pl.Series:
    """Values as text; what is not UTF-8 is replaced, and what is not there is empty."""
    try:
        return values.cast(pl.String).fill_null("")
    except ComputeError:  # of one value: then each is looked at
        return pl.Series(["" if value is None else value.decode("utf-8", "replace") for value in values])
