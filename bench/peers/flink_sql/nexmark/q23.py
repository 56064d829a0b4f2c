"""Bids with their bidder and the auctions that the same person sells."""

from nexmark.events import answer, environment, near

environment.execute_sql(
    f"""CREATE VIEW named AS SELECT bid.auction, bid.bidder, bid.price, bid.`at`, person.name, person.city
    FROM bid JOIN person ON bid.bidder = person.id AND {near("bid.`at`", "person.`at`")}"""
)
answer(
    "auction BIGINT, bidder BIGINT, price BIGINT, name STRING, city STRING, sold BIGINT",
    f"""SELECT named.auction, named.bidder, named.price, named.name, named.city, auction.id
    FROM named JOIN auction ON named.bidder = auction.seller AND {near("named.`at`", "auction.`at`")}""",
)
