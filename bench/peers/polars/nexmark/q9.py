"""The bid that wins an auction."""

from answer import write
from nexmark.winning import winning

write(winning().select("start", "auction", "category", "price", "bidder", "at"))
