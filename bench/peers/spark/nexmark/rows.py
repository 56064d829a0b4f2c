"""How a query gives out rows: files of JSON lines that are only added to."""

from session import OUTPUT


def write(rows):
    query = rows.writeStream.format("json").option("path", str(OUTPUT / "answer")).trigger(availableNow=True)
    query.option("checkpointLocation", str(OUTPUT / "checkpoint")).start().awaitTermination()
