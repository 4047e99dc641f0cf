"""The REST service: interactive queries over the index. Knows storage, not Spark."""
