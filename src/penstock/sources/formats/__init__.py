"""Formats of events, parsed inside Spark's tasks: JSON, CSV, Avro, Parquet."""
