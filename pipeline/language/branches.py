"""A stream that is divided into branches, and branches that are merged again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product, takewhile
from typing import TYPE_CHECKING, Generic, Never, NoReturn, Protocol, Self, TypeVar

from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.language.arguments import require_expressions
from oriel.pipeline.language.other_words import OtherWords
from oriel.pipeline.language.topology import (
    Branches,
    Chain,
    Filter,
    Input,
    MapValues,
    Peek,
    Step,
    key_of,
)

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
class BranchedKStream(OtherWords, Generic[Stream]):
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

    def __getitem__(self, name: Never) -> NoReturn:
        """Refuse to give a branch before the division has an end.

        Raises:
            InvalidTopology: always.
        """
        message = (
            f"split: end the branches with default_branch() or no_default_branch(), which "
            f"return them by name, before [{name!r}]"
        )
        raise InvalidTopology(message)

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
        if not isinstance(name, str | None):
            message = (
                f"branch: the name of a branch must be a string, not {name!r}. Continue with the "
                "stream that default_branch() or no_default_branch() returns by that name"
            )
            raise InvalidTopology(message)
        called = number if name is None else name
        if called in self.branches:
            message = f"branch: two branches are called {called!r}"
            raise InvalidTopology(message)
        return {**self.branches, called: stream}


def merged(streams: Sequence[Input], others: Sequence[Input]) -> tuple[Input, ...]:
    """Streams as one; branches of one stream are that stream again, in its order, with its clock.

    As in Kafka, whose branches are read by one task. That is so of branches whose filters no record
    passes both, and that have row-wise steps alone; others are streams of their own.
    """
    origins = list(streams)
    for other in others:
        for number, origin in enumerate(origins):
            again = _merged_again(origin, other)
            if again is not None:
                origins[number] = again
                break
        else:
            origins.append(other)
    return tuple(origins)


def _merged_again(one: Input, other: Input) -> Input | None:
    """Two branches as one stream; None: they are none, or have other steps."""
    if one.source != other.source or one.join is not other.join:
        return None
    # Branches have the very steps in front of them: a column can't be compared.
    both = zip(one.steps, other.steps, strict=False)
    parted = sum(1 for _ in takewhile(lambda pair: pair[0] is pair[1], both))
    left, right = (_chains(stream.steps[parted:]) for stream in (one, other))
    if not (left and right and all(_are_apart(*pair) for pair in product(left, right))):
        return None
    chains = (*left, *right)
    # How many parts a key is made of must be known of all records together.
    if len({len(key_of(chain)) for chain in chains}) > 1:
        return None
    return replace(one, steps=(*one.steps[:parted], Branches(chains)))


def _chains(steps: tuple[Step, ...]) -> list[Chain]:
    """The chains that steps are: of branches each, with what is in front of it and behind.

    None, if there are steps by which a branch is more than another way to make a row of a record.
    """
    chains: list[Chain] = [()]
    for step in steps:
        if isinstance(step, Branches):
            chains = [(*front, *branch) for front in chains for branch in step.chains]
        elif isinstance(step, Filter | MapValues | Peek):
            chains = [(*front, step) for front in chains]
        else:
            return []
    return chains


def _are_apart(one: Chain, other: Chain) -> bool:
    """Whether one has a filter in front whose contrary the other one has."""
    return any(
        first.is_negated is not second.is_negated
        and (
            first.condition is second.condition
            or (isinstance(first.condition, str) and first.condition == second.condition)
        )
        for first, second in product(*map(_filters_in_front, (one, other)))
    )


def _filters_in_front(chain: Chain) -> list[Filter]:
    """The filters that see the record as the stream has it that was divided."""
    in_front = takewhile(lambda step: not isinstance(step, MapValues), chain)
    return [step for step in in_front if isinstance(step, Filter)]
