"""Joins of tables by a foreign key (KIP-213), a step a task: by left key, right key, left key.

In come the records of two tables with ``FOREIGN_KEY``, the key that a left row names; between the
steps go messages (who subscribes to which key) and responses (what is sent to a ``SUBSCRIBER``).
Where a store keeps the joined rows, the outcome of a batch is told (``SubscriptionsEngine``,
``ResponsesEngine``), and behind them ``TableRowsEngine`` joins by key. Where updates go on, each
record is (``SubscriptionUpdatesEngine``, ``ResponseUpdatesEngine``, ``ForeignUpdatesEngine``).
"""

from oriel.pipeline.windows.joins.foreign_keys.response_updates import (
    LEAVES,
    SUBSCRIBED,
    ResponseUpdatesEngine,
)
from oriel.pipeline.windows.joins.foreign_keys.subscriptions import (
    FOREIGN_KEY,
    SUBSCRIBER,
    ResponsesEngine,
    SubscriptionsEngine,
)
from oriel.pipeline.windows.joins.foreign_keys.updates import (
    ForeignUpdatesEngine,
    SubscriptionUpdatesEngine,
)

__all__ = [
    "FOREIGN_KEY",
    "LEAVES",
    "SUBSCRIBED",
    "SUBSCRIBER",
    "ForeignUpdatesEngine",
    "ResponseUpdatesEngine",
    "ResponsesEngine",
    "SubscriptionUpdatesEngine",
    "SubscriptionsEngine",
]
