"""Event streams with the changes of a store (Server-Sent Events).

``watched_store`` detects a request for a stream by its raw path, and ``EventStreams`` serves it.
The changes are read from the log of the store's table, once for all streams. A stream sends the
changes of a version when the index has the version. A reconnect loses and repeats nothing.
"""

from oriel.app.push.streams import EventStreams, watched_store

__all__ = [
    "EventStreams",
    "watched_store",
]
