"""Processors on Spark's `transformWithState`."""
