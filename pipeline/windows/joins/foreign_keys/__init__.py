"""Joins of tables by a foreign key (KIP-213), in three tasks: by left key, right key, left key.

The input is the records of two tables. ``FOREIGN_KEY`` is the right key that a left row references.
The first tasks send messages, by which a left row subscribes to a right key or unsubscribes. The
second tasks send responses, which have the right row for each ``SUBSCRIBER``. The third tasks join
left rows with responses. The output depends on the use of the join:

    store      the joined rows after a batch, from ``SubscriptionsEngine``, ``ResponsesEngine`` and
               ``TableRowsEngine`` (in ``joins.tables``)
    updates    the joined row after each record, from ``SubscriptionUpdatesEngine``,
               ``ResponseUpdatesEngine`` and ``ForeignUpdatesEngine``
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
