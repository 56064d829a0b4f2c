"""For trying things out: a Kafka broker, a Spark cluster, demos."""
