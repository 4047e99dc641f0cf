"""What stands before every read: bounds on bytes, times and work, and who may ask for what.

Nothing in here knows a store. ``Connections`` makes the HTTP protocol of a worker's connections,
``Gate`` has the places of its requests, ``AllowedHosts`` knows the names that it goes by, and
``AccessGuard`` the tokens. Each refusal is an error of the contract.
"""

from oriel.app.guards.access import ACCESS, Access, AccessGuard, hide_other_stores
from oriel.app.guards.gate import WHOLE_ANSWER, App, Gate, Receive, Scope, Send
from oriel.app.guards.hosts import AllowedHosts, is_loopback
from oriel.app.guards.protocol import Connections
from oriel.app.guards.tokens import BadKeys, BadTokenFile
from oriel.app.guards.verifiers import TokenSettings, make_verifiers

__all__ = [
    "ACCESS",
    "WHOLE_ANSWER",
    "Access",
    "AccessGuard",
    "AllowedHosts",
    "App",
    "BadKeys",
    "BadTokenFile",
    "Connections",
    "Gate",
    "Receive",
    "Scope",
    "Send",
    "TokenSettings",
    "hide_other_stores",
    "is_loopback",
    "make_verifiers",
]
