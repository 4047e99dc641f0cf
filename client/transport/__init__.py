"""Send requests: attempts, pauses, connections and streams.

The input is a read or a stream (``oriel.client.protocol``) and settings. The result is its value,
or an ``OrielError``. The blocking and the asyncio client share the rules for retries.
"""

from oriel.client.transport.connection import AsyncConnection, Connection, Service, Token
from oriel.client.transport.exchange import Retries

__all__ = ["AsyncConnection", "Connection", "Retries", "Service", "Token"]
