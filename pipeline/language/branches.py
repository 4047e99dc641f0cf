"""A stream that is divided into branches."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, Self, TypeVar

from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.language.arguments import require_expressions

if TYPE_CHECKING:
    from pyspark.sql import Column


class Filtered(Protocol):
    """What can be divided: a stream."""

    def filter(self, condition: "str | Column") -> Self:
        """See ``KStream``."""

    def filter_not(self, condition: "str | Column") -> Self:
        """See ``KStream``."""


Stream = TypeVar("Stream", bound=Filtered)


@dataclass(frozen=True)
class BranchedKStream(Generic[Stream]):
    """A stream that is being divided; ``rest`` are the records that no branch has yet."""

    rest: Stream
    branches: Mapping[str, Stream]

    def branch(
        self, condition: "str | Column", name: str | None = None
    ) -> "BranchedKStream[Stream]":
        """A branch for the records for which ``condition`` is true, neither false nor null.

        Without a name it is called after its number, from ``"1"``.

        Raises:
            InvalidTopology: ``condition`` is neither SQL text nor a Spark ``Column``, or the name
                is taken.
        """
        require_expressions("branch", condition)
        named = self._with_branch(str(len(self.branches) + 1), name, self.rest.filter(condition))
        return BranchedKStream(self.rest.filter_not(condition), named)

    def default_branch(self, name: str | None = None) -> dict[str, Stream]:
        """All branches by name, the last one for the records that no other has (``"0"``).

        Raises:
            InvalidTopology: the name is taken.
        """
        return self._with_branch("0", name, self.rest)

    def no_default_branch(self) -> dict[str, Stream]:
        """All branches by name; records that none has are filtered out."""
        return dict(self.branches)

    def _with_branch(self, number: str, name: str | None, stream: Stream) -> dict[str, Stream]:
        called = number if name is None else name
        if called in self.branches:
            message = f"branch: two branches are called {called!r}"
            raise InvalidTopology(message)
        return {**self.branches, called: stream}
