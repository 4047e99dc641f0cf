"""What stands before every read: bounds on bytes, times and work, and who may ask for what.

Nothing in here knows a store. ``Connections`` makes the HTTP protocol of a worker's connections,
``Gate`` has the places of its requests, ``AllowedHosts`` knows the names that it goes by, and
``AccessGuard`` the tokens. Each refusal is an error of the contract.
"""

from oriel.app.guards.access import ACCESS, Access, AccessGuard, TokenVerifier, hide_other_stores
from oriel.app.guards.gate import App, Gate, Receive, Scope, Send
from oriel.app.guards.hosts import AllowedHosts, is_loopback
from oriel.app.guards.protocol import Connections
from oriel.app.guards.tokens import BadTokenFile, TokenFile

__all__ = [
    "ACCESS",
    "Access",
    "AccessGuard",
    "AllowedHosts",
    "App",
    "BadTokenFile",
    "Connections",
    "Gate",
    "Receive",
    "Scope",
    "Send",
    "TokenFile",
    "TokenVerifier",
    "hide_other_stores",
    "is_loopback",
]
