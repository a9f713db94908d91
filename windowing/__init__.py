"""Windows with the exact semantics of Apache Flink, without an engine."""
