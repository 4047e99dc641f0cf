"""Guards before every read: limits of bytes, time and work, allowed hosts, and tokens.

The package does not read stores. Each rejection is an error of the contract.

    Connections     the connections of a worker, with limits of bytes and time
    Gate            the limits of requests in progress
    Turns           the share of the event loop for steps of long work
    AllowedHosts    the host names of the worker
    AccessGuard     the tokens of requests
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
    WHOLE_RESPONSE,
    App,
    Gate,
    Receive,
    Scope,
    Send,
    whole_body,
)
from oriel.app.guards.hosts import AllowedHosts, is_loopback
from oriel.app.guards.protocol import protocol_of
from oriel.app.guards.tokens import InvalidKeys, InvalidTokenFile
from oriel.app.guards.turns import Turns
from oriel.app.guards.verifiers import TokenSettings, make_verifiers

__all__ = [
    "ACCESS",
    "PROBE_PATHS",
    "WHOLE_RESPONSE",
    "Access",
    "AccessGuard",
    "AllowedHosts",
    "App",
    "Connections",
    "Gate",
    "InvalidKeys",
    "InvalidTokenFile",
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
