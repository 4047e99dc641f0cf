"""Joins of tables by a foreign key (KIP-213), in three tasks: by left key, right key, left key.

The inputs are the records of two tables. ``FOREIGN_KEY`` is the right key that a left row
references. The tasks of left keys send messages (which row subscribes to which key). The tasks of
right keys send responses (the right row for a ``SUBSCRIBER``). For a store with the joined rows,
both follow the rows after a batch (``SubscriptionsEngine``, ``ResponsesEngine``), and then
``TableRowsEngine`` joins by key. For updates, all three follow each record
(``SubscriptionUpdatesEngine``, ``ResponseUpdatesEngine``, ``ForeignUpdatesEngine``).
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
