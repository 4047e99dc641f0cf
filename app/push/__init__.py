"""Pushing: event streams of a store's changes (Server-Sent Events).

``watched_store`` says from the raw path whether a request is for a stream, and ``EventStreams``
serves it. In comes the log of the store's table, read once for all who watch it; when the index
has come to a version, out goes what it changed. Nothing is lost or repeated over a reconnect.
"""

from oriel.app.push.streams import EventStreams, watched_store

__all__ = [
    "EventStreams",
    "watched_store",
]
