"""Bids for every 123rd auction."""

from nexmark.bids import answer

answer("auction BIGINT, price BIGINT", "SELECT auction, price FROM bids WHERE MOD(auction, 123) = 0")
