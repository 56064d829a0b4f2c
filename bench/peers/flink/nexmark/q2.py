"""Bids for every 123rd auction."""

from nexmark.bids import bids
from pyflink.common import Types
from session import session, write

environment = session()
chosen = bids(environment, ["auction", "price"]).filter(lambda bid: bid[0] % 123 == 0)
write(environment, chosen.map(lambda bid: f"{bid[0]},{bid[1]}", Types.STRING()))
