"""Models that learn, in Spark's tasks."""
