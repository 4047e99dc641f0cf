"""The row-wise steps that only the lowering creates, as parts of a join."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from oriel.pipeline.language import Peeker, Step, grouping_text

if TYPE_CHECKING:
    from pyspark.sql import Column

#: The column with the key of a record during its join with a global table.
OWN_KEY = "__own_key"


@dataclass(frozen=True)
class LookupKey(Step):
    """Set the key with which a record is joined with a global table, and keep its own key.

    Its own key is in the column ``OWN_KEY``. A null key becomes ``NO_ROW_KEY``, because a global
    table has no row with this key.
    """

    key: "str | Column"

    @property
    def call(self) -> str:
        return ""

    @property
    def lookup_key(self) -> "tuple[str | Column, ...]":
        return (self.key,)

    def expressions(self) -> "Iterator[str | Column | Peeker]":
        yield self.key

    def __str__(self) -> str:
        return f"with_lookup_key({grouping_text((self.key,))})"


#: A Unicode noncharacter, which is not valid for interchange. Global tables drop a row with it.
NO_ROW_KEY = "\uffff"


@dataclass(frozen=True)
class OwnKey(Step):
    """Restore the own key of a record after its join with a global table."""

    @property
    def call(self) -> str:
        return ""

    def __str__(self) -> str:
        return "with_own_key()"


@dataclass(frozen=True)
class ForeignKey(Step):
    """Compute the foreign key of a row as the column ``FOREIGN_KEY`` (KIP-213).

    Attributes:
        key: The expressions of the foreign key, combined as by ``group_by``.
        keeps_columns: Whether to keep the other columns of the row. Default: drop them.
    """

    key: tuple["str | Column", ...]
    keeps_columns: bool = False

    @property
    def call(self) -> str:
        return ""

    @property
    def foreign_key(self) -> "tuple[str | Column, ...]":
        return self.key

    def expressions(self) -> "Iterator[str | Column | Peeker]":
        yield from self.key

    def selected_columns(self, names: Sequence[str]) -> Sequence[str] | None:
        return names if self.keeps_columns else ()

    def __str__(self) -> str:
        return f"{'with_' if self.keeps_columns else ''}foreign_key({grouping_text(self.key)})"
