"""Streams that are made from other streams, each with a query and commits of its own."""
