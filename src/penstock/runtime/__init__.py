"""The epoch on Spark: one query a stream, the kernel's reduce in its tasks, the merge and the commit on the driver."""
