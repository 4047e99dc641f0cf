"""The REST service, which serves windows, sessions and rows from the index.

It imports the storage package, but not Spark. Packages from the lowest layer to the highest:
``contract`` (the API), ``reads`` (the hot reads), ``routes`` and ``page`` (all other operations),
and ``server`` (the processes).
"""
