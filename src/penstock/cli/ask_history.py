"""The command `ask`: any question to all of history, in Spark SQL."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.answers import Format, Printer
from penstock.cli.options import DIRECTORY, Debug, Directory, Master, errors_shown, output
from penstock.cli.start import quietly
from penstock.control import Client, NoApp
from penstock.control.history import asked
from penstock.errors import PenstockError
from penstock.history.batch.questions import Historian
from penstock.history.events.event_history import EventHistory
from penstock.model.stream import Stream, stream
from penstock.runtime.spark.session import spark_session
from penstock.sql import parse_one
from penstock.sql.statements import History
from penstock.store import Reader


def ask(
    sql: Annotated[str, typer.Argument(help="SELECT … FROM HISTORY(stream) [AS OF EPOCH n] …", metavar="SQL")],
    directory: Directory = DIRECTORY,
    format: Annotated[Format, typer.Option("--format", help="Output format.")] = Format.table,
    master: Master = "local[*]",
    debug: Debug = False,
) -> None:
    """Query the history in Spark SQL. Starts Spark if the app does not run.

    HISTORY(stream) has the stream's columns, and __commit, __partition and __offset. AS OF EPOCH 12, AS OF COMMIT 40
    or AS OF TIMESTAMP '2026-05-01 12:00' query what was known at that time.
    """
    console = output()
    printer = Printer(console, format)
    with errors_shown(debug):
        statement = parse_one(sql)
        if not isinstance(statement, History):
            raise PenstockError(
                "this does not query the history", hint="SELECT … FROM HISTORY(stream); views: penstock query"
            )
        try:
            reply = Client(directory).ask(sql)
            printer.rows(reply.columns, reply.rows)
            if reply.message:
                printer.message(reply.message)
        except NoApp:
            reader = Reader(directory)
            streams = kept_streams(reader)
            with quietly(directory, console, debug):
                spark = spark_session("penstock-ask", master=master)
            try:
                historian = Historian(spark, reader, streams, EventHistory(reader))
                printer.frame(asked(historian, statement, streams, list(reader.views())))
            finally:
                spark.stop()
                reader.close()


def kept_streams(reader: Reader) -> dict[str, Stream]:
    """The streams that the history has, with the columns that it remembers."""
    return {name: stream(name, schema=kept.schema) for name, kept in reader.listing().streams.items()}
