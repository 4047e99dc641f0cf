"""What a topology reads: topics, and the final rows of its own stores."""

from dataclasses import dataclass, field
from typing import Literal

from oriel.pipeline.language.formats import JSON_RECORDS, Consumed
from oriel.storage import Offsets


@dataclass(frozen=True)
class Source:
    """A topic and the columns of its records' values (a Spark DDL string).

    ``consumed`` is in what bytes they are. ``step`` is how it was first written; a stream and a
    table of a topic are one source.
    """

    topic: str
    schema: str
    step: Literal["stream", "table", "versioned_table", "global_table"] = field(
        default="stream", compare=False
    )
    consumed: Consumed = JSON_RECORDS

    def __str__(self) -> str:
        """The source as it is written."""
        consumed = str(self.consumed)
        return f"{self.step}({self.topic!r}{', ' if consumed else ''}{consumed})"

    @property
    def columns(self) -> str:
        """The columns of the value, and behind them those of headers (a Spark DDL string)."""
        names = (name.replace("`", "``") for name in self.consumed.headers.values())
        return ", ".join([self.schema, *(f"`{name}` STRING" for name in names)])


@dataclass(frozen=True)
class StoreSource(Source):
    """The final rows of a store of the same topology, as records: its key and its columns.

    They are those of one partition, which no broker has: ``topic`` names it as no topic is named.
    ``schema`` is known once the store's aggregates are.
    """

    store: str = ""

    @classmethod
    def of(cls, store: str) -> "StoreSource":
        """The rows of the store of that name."""
        return cls(f"{_STORE_TOPIC}{store}", "", store=store)

    def __str__(self) -> str:
        """The stream as it is written."""
        return f"store({self.store!r}).to_stream()"


#: How the name of a stream of a store's rows begins: a topic has no space in its name.
_STORE_TOPIC = "store "


def of_topics(offsets: Offsets) -> Offsets:
    """What ``offsets`` say of topics, without streams of stores' rows."""
    return {name: ends for name, ends in offsets.items() if not name.startswith(_STORE_TOPIC)}
