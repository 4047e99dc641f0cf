"""How requests reach the service: attempts and pauses, connections, streams that are followed.

In go reads and streams (``oriel.client.protocol``) and settings; out come their values, or an
``OrielError``. What is sent when is decided once, for the blocking and the asyncio client.
"""

from oriel.client.transport.connection import AsyncConnection, Connection, Service, Token
from oriel.client.transport.exchange import Retries

__all__ = ["AsyncConnection", "Connection", "Retries", "Service", "Token"]
