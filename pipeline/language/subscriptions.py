"""A join of tables by a foreign key as data: the two joins in front of a store's input.

The input has, by the keys of the left table, the right rows that their rows name: so to the store
it is one more table that is joined by key.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oriel.pipeline.language.topology import Side


@dataclass(frozen=True)
class Subscriptions:
    """Whose row each row of a table names by its foreign key, the last of the side's steps.

    The side is read for this alone: another input of the store is the table, and tells of its
    records what is to be told.
    """

    left: "Side"
    right: None = None

    def __str__(self) -> str:
        """The step, for who reads a topology."""
        return "subscriptions()"


@dataclass(frozen=True)
class Responses:
    """The row of a table for each subscription to its key, under the key that subscribes."""

    left: "Side"
    right: "Side"

    def __str__(self) -> str:
        """The step, for who reads a topology."""
        return f"rows(table {self.right.source.topic!r})"
