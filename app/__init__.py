"""The REST service: answers windows, sessions and rows from the index. Knows storage, not Spark.

From the lowest room to the highest: ``contract`` (what is promised), ``reads`` (the hot reads),
``routes`` and ``page`` (everything else that is asked), ``server`` (the processes).
"""
