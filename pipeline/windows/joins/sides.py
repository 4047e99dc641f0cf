"""What all joins share: the sides, the columns of records and results, the checks of names."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Literal, get_args

import pyarrow as pa

from oriel.pipeline.windows.arrays import Flags
from oriel.pipeline.windows.definitions import IllegalArgument
from oriel.pipeline.windows.records import PLACE_FIELDS, SUBORDER

How = Literal["inner", "left", "outer"]

STREAM_TIME = pa.field("stream_time_ms", pa.int64())
SIDE = pa.field("side", pa.int8())
#: What a join reads of a record, and what it gives of a result.
SIDE_FIELDS = (*PLACE_FIELDS, STREAM_TIME, SIDE)
RESULT_FIELDS = (*PLACE_FIELDS, SUBORDER, STREAM_TIME)


def check_how(how: str, known: tuple[str, ...]) -> None:
    """Refuse a join that is not one of ``known``.

    Raises:
        IllegalArgument: it is unknown.
    """
    if how not in known:
        message = f"a join is one of {', '.join(known)}, not {how!r}"
        raise IllegalArgument(message)


def joined_values(
    own: tuple[pa.Field, ...], carried: pa.Schema | None, left: pa.Schema, right: pa.Schema
) -> list[pa.Field]:
    """The value columns of both sides, each of which can be missing.

    Beside them a join's tables have the columns ``own`` and ``carried``.

    Raises:
        IllegalArgument: a name is there twice; case does not tell names apart.
    """
    seen: set[str] = set()
    for name in (field.name for field in (*own, *(carried or ()), *left, *right)):
        if name.lower() in seen:
            message = (
                f"column {name!r} is there twice in a join (case does not tell names apart); "
                "rename it in one of the inputs"
            )
            raise IllegalArgument(message)
        seen.add(name.lower())
    return [field.with_nullable(nullable=True) for field in (*left, *right)]


class TwoTables(ABC):
    """A join of two tables by key; holds no state between calls."""

    #: The columns beside values and carried ones.
    own_fields: tuple[pa.Field, ...]
    state_schema: pa.Schema

    def __init__(
        self, how: How, left: pa.Schema, right: pa.Schema, carried: pa.Schema | None = None
    ) -> None:
        """``left`` and ``right`` are the sides' value columns, without a name in common.

        ``carried`` are columns that the state keeps with each record for the caller's use.

        Raises:
            IllegalArgument: ``how`` is unknown, or two columns have one name.
        """
        check_how(how, get_args(How))
        values = joined_values(self.own_fields, carried, left, right)
        self._how = how
        self._left, self._right = left, right
        self._set_schemas(list(carried or ()), values)

    @abstractmethod
    def _set_schemas(self, carried: Sequence[pa.Field], values: Sequence[pa.Field]) -> None:
        """Make the schemas; ``values`` are those of the left side, then of the right one."""

    def empty_state(self) -> pa.Table:
        """Both tables before their first records."""
        return self.state_schema.empty_table()

    def _exists(self, left: Flags, right: Flags) -> Flags:
        """Whether there is a joined row where these sides have one."""
        exists: Flags = {"inner": left & right, "left": left, "outer": left | right}[self._how]
        return exists
