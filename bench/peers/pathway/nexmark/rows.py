"""What queries that read some columns of the bids have, and how answers are written whatever their last change is."""

import pathway as pw
from reading import events, run

KINDS = {"auction": int, "bidder": int, "price": int, "channel": str, "url": str, "at": str, "extra": str}
NOTHING = {int: 0, float: 0.0, str: ""}


def source(*names):
    """The input with these columns of the bids, and the bids; the last line is nobody's."""
    read = events(pw.schema_from_types(**{name: KINDS[name] for name in ("auction", "bidder", "price", *names)}))
    return read, read.filter(pw.this.bidder > 0)


def write(read, rows, number="auction"):
    """Writes rows, of which one column is a number above zero, when all events are done.

    A row that changes with every event says when the last one is done, also if it is in no answer.
    """
    names = rows.column_names()
    empty = {name: NOTHING[kind] for name, kind in rows.typehints().items()}
    progress = read.reduce(**{**empty, number: -pw.reducers.count()})
    run(read, rows.concat_reindex(progress), names, is_answer=lambda row: row[number] > 0)
