"""Loops on Spark: rounds within an epoch."""
