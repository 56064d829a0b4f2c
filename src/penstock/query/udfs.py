"""Python functions for DuckDB, where its own do not equal Spark's."""

from __future__ import annotations

import duckdb


def register(connection: duckdb.DuckDBPyConnection) -> None:
    """Adds the functions that plans call to a connection."""
