"""For users' unit tests: run a topology in-process and read its stores. No Spark, no files."""
