"""Bids with their auction, in category 10."""

from nexmark.events import answer, near

answer(
    "auction BIGINT, bidder BIGINT, price BIGINT, `at` STRING, seller BIGINT, item STRING",
    f"""SELECT bid.auction, bid.bidder, bid.price, CAST(bid.`at` AS STRING), auction.seller, auction.item
    FROM bid JOIN auction ON bid.auction = auction.id AND {near("bid.`at`", "auction.`at`")}
    WHERE auction.category = 10""",
)
