"""Topologies on Spark: a job for each level."""
