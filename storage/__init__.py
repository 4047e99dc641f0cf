"""Delta tables, the ordered index over them, and the store contracts. Knows no Spark and no HTTP."""
