"""Split a stream into branches, and merge branches."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product, takewhile
from typing import TYPE_CHECKING, Generic, Never, NoReturn, Protocol, Self, TypeVar

from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.language.arguments import require_expressions
from oriel.pipeline.language.kafka_hints import CallHints
from oriel.pipeline.language.topology import (
    Branches,
    Chain,
    Node,
    Step,
    key_of,
)

if TYPE_CHECKING:
    from pyspark.sql import Column


class Filtered(Protocol):
    """A stream that ``split`` accepts."""

    def filter(self, condition: "str | Column") -> Self:
        """See ``KStream``."""

    def filter_not(self, condition: "str | Column") -> Self:
        """See ``KStream``."""


Stream = TypeVar("Stream", bound=Filtered)


@dataclass(frozen=True)
class BranchedKStream(CallHints, Generic[Stream]):
    """The branches of a stream so far, which ``KStream.split`` and ``branch`` return (KIP-418).

    It corresponds to ``BranchedKStream`` of Kafka Streams. Call ``default_branch`` or
    ``no_default_branch`` last. They return the branches by name.

    Example:
        >>> branches = flights.split().branch("delay > 15", "late").default_branch("other")
        >>> late = branches["late"].group_by("carrier").count()
    """

    #: The records that are in no branch yet.
    rest: Stream
    branches: Mapping[str, Stream]

    def branch(
        self, condition: "str | Column", name: str | None = None
    ) -> "BranchedKStream[Stream]":
        """Add a branch for the records for which a condition is true.

        It corresponds to ``BranchedKStream.branch`` of Kafka Streams. A record is in the first
        branch whose condition is true for it. A null condition counts as false.

        Args:
            condition: An SQL expression or a Spark ``Column`` of type BOOLEAN.
            name: The name of the branch. Default: its index as a string, from ``"1"``.

        Returns:
            The branches, for further calls.

        Raises:
            InvalidTopology: ``condition`` is neither a string nor a ``Column``, ``name`` is not a
                string, or another branch has the name.

        Example:
            >>> branches = flights.split().branch("delay > 60").branch("delay > 15")
            >>> sorted(branches.no_default_branch())
            ['1', '2']
        """
        require_expressions("branch", condition)
        named = self._with_branch(str(len(self.branches) + 1), name, self.rest.filter(condition))
        return BranchedKStream(self.rest.filter_not(condition), named)

    def __getitem__(self, name: Never) -> NoReturn:
        """Reject a subscript before ``default_branch`` or ``no_default_branch``.

        Raises:
            InvalidTopology: Always.
        """
        message = (
            f"split: the branch [{name!r}] is not available before the last branch. Call "
            "default_branch() or no_default_branch() first: they return the branches by name"
        )
        raise InvalidTopology(message)

    def default_branch(self, name: str | None = None) -> dict[str, Stream]:
        """Return all branches by name, with a branch for the records that no other branch has.

        It corresponds to ``BranchedKStream.defaultBranch`` of Kafka Streams.

        Args:
            name: The name of the default branch. Default: ``"0"``.

        Returns:
            A dict of streams by the names of their branches.

        Raises:
            InvalidTopology: Another branch has the name, or it is not a string.

        Example:
            >>> sorted(flights.split().branch("delay > 15", "late").default_branch("other"))
            ['late', 'other']
        """
        return self._with_branch("0", name, self.rest)

    def no_default_branch(self) -> dict[str, Stream]:
        """Return all branches by name, and drop the records that no branch has.

        It corresponds to ``BranchedKStream.noDefaultBranch`` of Kafka Streams.

        Returns:
            A dict of streams by the names of their branches.

        Example:
            >>> sorted(flights.split().branch("delay > 15", "late").no_default_branch())
            ['late']
        """
        return dict(self.branches)

    def _with_branch(self, number: str, name: str | None, stream: Stream) -> dict[str, Stream]:
        if not isinstance(name, str | None):
            message = (
                f"branch: the name of a branch must be a string, not {name!r}. Continue with the "
                "stream that default_branch() or no_default_branch() returns by that name"
            )
            raise InvalidTopology(message)
        called = number if name is None else name
        if called in self.branches:
            message = f"branch: two branches have the name {called!r}. Use another name"
            raise InvalidTopology(message)
        return {**self.branches, called: stream}


def merged(streams: Sequence[Node], others: Sequence[Node]) -> tuple[Node, ...]:
    """Return the inputs of merged streams. Merged branches of one stream are again one input.

    This input has the order and the stream time of the stream. Kafka Streams has the same result,
    because one task processes all branches of a partition. The rule applies to branches that have
    only row-wise steps, if no record can pass the filters of two branches. All other inputs remain
    separate.
    """
    origins = list(streams)
    for other in others:
        for number, origin in enumerate(origins):
            merged_input = _merged_branches(origin, other)
            if merged_input is not None:
                origins[number] = merged_input
                break
        else:
            origins.append(other)
    return tuple(origins)


def _merged_branches(one: Node, other: Node) -> Node | None:
    """Return two branches of one stream as one input, or None if they cannot be merged."""
    if one.operation != other.operation:
        return None
    # The steps before the split are the same objects. Spark columns cannot be compared by content.
    both = zip(one.steps, other.steps, strict=False)
    split_index = sum(1 for _ in takewhile(lambda pair: pair[0] is pair[1], both))
    left, right = (_chains(stream.steps[split_index:]) for stream in (one, other))
    if not (left and right and all(_are_disjoint(*pair) for pair in product(left, right))):
        return None
    chains = (*left, *right)
    # All records of an input must have keys with the same number of components.
    if len({len(key_of(chain)) for chain in chains}) > 1:
        return None
    return replace(one, steps=(*one.steps[:split_index], Branches(chains)))


def _chains(steps: tuple[Step, ...]) -> list[Chain]:
    """Return one chain of steps per branch, with the steps before the split and after the merge.

    If a step is not a filter, a mapping or ``peek``, the result is empty, because such branches
    cannot be merged.
    """
    chains: list[Chain] = [()]
    for step in steps:
        if not step.is_in_branches:
            return []
        chains = [(*previous, *steps) for previous in chains for steps in step.alternatives]
    return chains


def _are_disjoint(one: Chain, other: Chain) -> bool:
    """Return whether one chain starts with a filter that the other chain negates."""
    pairs = product(*map(_filters_before_mapping, (one, other)))
    return any(first.negates(second) for first, second in pairs)


def _filters_before_mapping(chain: Chain) -> list[Step]:
    """Return the filters that read the record as it was before the split."""
    return [step for step in takewhile(lambda step: not step.sets_value, chain) if step.filters]
