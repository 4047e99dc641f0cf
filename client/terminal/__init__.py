"""``oriel get``: stores, keys and windows of a running service, for people at a terminal."""

from oriel.client.terminal.command import main

__all__ = ["main"]
