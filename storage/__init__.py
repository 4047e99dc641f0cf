"""Delta tables, the ordered index over them, the store contracts. Knows no Spark, no HTTP."""
