"""What every query has: its bids, each with its time; the last line is nobody's."""

from datetime import datetime

from bytewax import operators as op
from reading import BEGIN, lines, read


def parsed(line):
    bid = read(line)
    return (bid, datetime.fromisoformat(bid["at"])) if bid["bidder"] else None


def bids(flow):
    return op.filter_map("parse", lines(flow), parsed)


def time_of(item):
    return item[-1]


def start(window, length):
    return BEGIN + window * length
