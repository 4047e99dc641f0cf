"""What stands before every read: bounds on bytes, times and work, and who may ask for what.

Nothing in here knows a store. ``Connections`` makes the HTTP protocol of a worker's connections,
``Gate`` has the places of its requests, ``Turns`` divides long work into steps, ``AllowedHosts``
knows the names that the worker goes by, and ``AccessGuard`` the tokens. Each refusal is an error of
the contract.
"""

from oriel.app.guards.access import (
    ACCESS,
    Access,
    AccessGuard,
    check_keys,
    hide_other_stores,
    sees_totals,
)
from oriel.app.guards.connections import Connections
from oriel.app.guards.gate import (
    PROBE_PATHS,
    WHOLE_ANSWER,
    App,
    Gate,
    Receive,
    Scope,
    Send,
    whole_body,
)
from oriel.app.guards.hosts import AllowedHosts, is_loopback
from oriel.app.guards.protocol import protocol_of
from oriel.app.guards.tokens import BadKeys, BadTokenFile
from oriel.app.guards.turns import Turns
from oriel.app.guards.verifiers import TokenSettings, make_verifiers

__all__ = [
    "ACCESS",
    "PROBE_PATHS",
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
    "Turns",
    "check_keys",
    "hide_other_stores",
    "is_loopback",
    "make_verifiers",
    "protocol_of",
    "sees_totals",
    "whole_body",
]
