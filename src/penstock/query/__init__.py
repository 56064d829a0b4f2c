"""Answers SELECT over views: the question is Spark SQL, DuckDB computes, and the types are Spark's."""
