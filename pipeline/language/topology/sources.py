"""The sources of a topology: topics, and the final rows of its own stores."""

from dataclasses import dataclass, field
from typing import Literal

from oriel.pipeline.language.formats import JSON_RECORDS, Consumed
from oriel.storage import Offsets


@dataclass(frozen=True)
class Source:
    """A topic with its formats and the columns of its values.

    Attributes:
        topic: The name of the topic.
        schema: The columns of the value as Spark DDL.
        step: The name of the first call that read the topic. Comparisons ignore it, because a
            stream and a table of a topic are one source.
        consumed: The serdes, the time and the headers of the records.
    """

    topic: str
    schema: str
    step: Literal["stream", "table", "versioned_table", "global_table"] = field(
        default="stream", compare=False
    )
    consumed: Consumed = JSON_RECORDS

    def __str__(self) -> str:
        """Return the call that created the source."""
        consumed = str(self.consumed)
        return f"{self.step}({self.topic!r}{', ' if consumed else ''}{consumed})"

    @property
    def store_name(self) -> str:
        """The store whose final rows it has. Empty for a topic."""
        return ""

    @property
    def columns(self) -> str:
        """The columns of the value, followed by the columns of headers, as Spark DDL."""
        names = (name.replace("`", "``") for name in self.consumed.headers.values())
        return ", ".join([self.schema, *(f"`{name}` STRING" for name in names)])


@dataclass(frozen=True)
class StoreSource(Source):
    """The final rows of a store of the same topology, as records with its key and its columns.

    The records are one partition, which is not in Kafka.

    Attributes:
        store_name: The name of the store.
        topic: ``store NAME``, because a topic cannot have a space in its name.
        schema: Empty until the types of the aggregates are known.
    """

    store_name: str = ""

    @classmethod
    def of(cls, store: str) -> "StoreSource":
        """Return the source with the final rows of a store."""
        return cls(f"{_STORE_TOPIC}{store}", "", store_name=store)

    def __str__(self) -> str:
        """Return the call that created the stream."""
        return f"store({self.store_name!r}).to_stream()"


#: The prefix of the names of store sources. A topic has no space in its name.
_STORE_TOPIC = "store "


def of_topics(offsets: Offsets) -> Offsets:
    """Return the offsets of topics, without the offsets of store sources."""
    return {name: ends for name, ends in offsets.items() if not name.startswith(_STORE_TOPIC)}
