"""Joins of streams on Spark's own operator."""
