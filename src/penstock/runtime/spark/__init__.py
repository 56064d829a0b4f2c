"""Spark itself: the session, the code it ships, its executors and its checkpoints."""
