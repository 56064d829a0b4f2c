"""Sinks, which receive panes: frozen definitions, and the delivery of the outbox to them."""

from penstock.sinks.base import MODES, Sink, SinkError, check, check_rows
from penstock.sinks.console import Console, to_console
from penstock.sinks.delivery import Delivery, Failure
from penstock.sinks.files import Jsonl, Parquet, read_jsonl, to_jsonl, to_parquet
from penstock.sinks.function import Function, to_function
from penstock.sinks.http import Http, to_http
from penstock.sinks.jdbc import Jdbc, to_jdbc
from penstock.sinks.kafka import Kafka, to_kafka
from penstock.sinks.postgres import Postgres, to_postgres
from penstock.sinks.refused import read_refused

__all__ = [
    "MODES",
    "Console",
    "Delivery",
    "Failure",
    "Function",
    "Http",
    "Jdbc",
    "Jsonl",
    "Kafka",
    "Parquet",
    "Postgres",
    "Sink",
    "SinkError",
    "check",
    "check_rows",
    "read_jsonl",
    "read_refused",
    "to_console",
    "to_function",
    "to_http",
    "to_jdbc",
    "to_jsonl",
    "to_kafka",
    "to_parquet",
    "to_postgres",
]
