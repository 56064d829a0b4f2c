"""What the queries with joins have: persons, auctions and bids, which are in one stream, and pairs of them."""

from datetime import datetime, timedelta

from bytewax import operators as op
from reading import lines, read

MINUTE = timedelta(minutes=1)


def parsed(line):
    event = read(line)
    return event | {"at": datetime.fromisoformat(event["at"])}


def events(flow):
    """All events, with their times. The last one, a bid of nobody, is in no pair."""
    return op.map("parse", lines(flow), parsed)


def by_key(name, stream, kind, key, keep=lambda event: True):
    """The events of a kind by one of their columns."""

    def keyed(event):
        return (str(event[key]), event) if event["kind"] == kind and keep(event) else None

    return op.filter_map(name, stream, keyed)


def pairs(name, left, right):
    """Pairs of a left and a right event of the same key that are a minute apart at most.

    Its own joins keep one event of a side, or are without a bound in time: a step with state makes the pairs.
    """

    def pair(known, item):
        known = known or ([], [])
        side, event = item
        known[side].append(event)
        found = [other for other in known[not side] if abs(other["at"] - event["at"]) <= MINUTE]
        return known, [(other, event) if side else (event, other) for other in found]

    sides = [
        op.map_value(f"{name} {side}", stream, lambda event, side=side: (side, event))
        for side, stream in enumerate((left, right))
    ]
    found = op.stateful_map(name, op.merge(f"{name} both", *sides), pair)
    return op.flat_map(f"{name} pairs", found, lambda item: item[1])
