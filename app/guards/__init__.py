"""What stands before every read: bounds on bytes, times and work, and who may ask for what.

Nothing in here knows a store. ``Connections`` makes the HTTP protocol of a worker's connections,
``Gate`` has the places of its requests, and ``AllowedHosts`` knows the names it goes by.
Each refusal is an ``ApiError`` of the contract.
"""

from oriel.app.guards.gate import Gate, Receive, Scope, Send
from oriel.app.guards.hosts import ANY, AllowedHosts, is_loopback
from oriel.app.guards.protocol import Connections

__all__ = [
    "ANY",
    "AllowedHosts",
    "Connections",
    "Gate",
    "Receive",
    "Scope",
    "Send",
    "is_loopback",
]
