"""``oriel dead-letters``: list dead letters, and replay their records (decision 0038).

Input: the dead-letter table of a data directory, and a selection by topic, store, reason and time.
Output: the newest dead letters on stdout, or the records of the dead letters, appended to their
topics again. A note in the data directory keeps a record from being sent twice.
"""
