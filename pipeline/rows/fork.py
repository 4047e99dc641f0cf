"""Merged branches of one stream as columns, one branch after the other (decision 0077).

All branches use the same rows. At the split, key and value are copied to columns with the prefix
``__``. Each branch starts with these copies. It has a column that marks the rows of the branch, and
it copies its results to further columns. At the end, each row has the key and the value of its
branch. If no branch has a map, nothing is copied.
"""

from functools import reduce
from operator import or_

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from oriel.pipeline.language import SCOPE_COLUMNS, Branches, Filter, MapValues, Peek
from oriel.pipeline.rows.columns import (
    column_of,
    columns_of,
    in_use,
    passes_filter,
    peek_column,
    replaced_columns,
)


class BranchColumns:
    """The columns of rows during the branches of a step.

    Attributes:
        carried: The names of the columns so far that no step of a branch reads.
    """

    def __init__(self, step: Branches, meta: tuple[str, ...], values: list[str]) -> None:
        """Start with rows of the value columns ``values``. Columns in ``meta`` do not change."""
        self.carried = meta
        self._meta = meta
        self._values = values
        self._number_of_branches = len(step.chains)
        self._maps = any(isinstance(each, MapValues) for steps in step.chains for each in steps)

    def split_columns(self, values: list[str]) -> list[Column]:
        """Return the columns at the split, with copies of key and value."""
        return self._copied("__parted_", values)

    def begun(self, branch: int, values: list[str]) -> list[Column]:
        """Return the columns at the start of a branch.

        Key and value are the same as at the split. All rows in use belong to the branch so far.
        """
        carried, taken = self.carried, F.when(in_use(), F.lit(True)).alias(_in_branch(branch))  # noqa: FBT003
        self.carried = (*carried, _in_branch(branch))
        if not self._maps:
            return [*columns_of(carried), taken, *columns_of((*SCOPE_COLUMNS, *values))]
        restored = {
            name: F.when(in_use(), column_of(f"__parted_{name}")).alias(name)
            for name in ("key", *self._values)
        }
        key = restored.pop("key")
        return [*columns_of(carried), taken, key, F.col("timestamp_ms"), *restored.values()]

    def applied(
        self, branch: int, step: Filter | MapValues | Peek, values: list[str]
    ) -> list[Column]:
        """Return the columns after a step of a branch."""
        name = _in_branch(branch)
        taken = in_use() & F.col(name)
        if isinstance(step, MapValues):
            return [*columns_of(self.carried), *replaced_columns(values, step, taken)]
        if isinstance(step, Filter):
            holds = F.when(F.col(name), passes_filter(step)).otherwise(F.lit(False))  # noqa: FBT003
            stays_in_branch = F.when(in_use(), holds)
        else:
            stays_in_branch = F.col(name) & peek_column(values, step, taken)
        others = (each for each in self.carried if each != name)
        return [
            *columns_of(others),
            stays_in_branch.alias(name),
            *columns_of((*SCOPE_COLUMNS, *values)),
        ]

    def ended(self, branch: int, values: list[str]) -> list[Column]:
        """Return the columns at the end of a branch, with copies of its key and value."""
        return self._copied(f"__given_{branch}_", values)

    def merged_columns(self, values: list[str]) -> list[Column]:
        """Return the columns after the merge: each row has the key and the value of its branch.

        A row that belongs to no branch is filtered out.
        """
        branches = range(self._number_of_branches)
        is_in_any_branch = reduce(or_, (F.col(_in_branch(branch)) for branch in branches))
        keep = F.when(in_use(), is_in_any_branch).otherwise(F.lit(False)).alias("__keep")  # noqa: FBT003
        meta = columns_of(name for name in self._meta if name != "__keep")
        if not self._maps:
            return [*meta, keep, *columns_of((*SCOPE_COLUMNS, *values))]
        key, *branch_results = (_merged_column(name, len(branches)) for name in ("key", *values))
        return [*meta, keep, key, F.col("timestamp_ms"), *branch_results]

    def _copied(self, prefix: str, values: list[str]) -> list[Column]:
        rows = columns_of((*self.carried, *SCOPE_COLUMNS, *values))
        if not self._maps:
            return rows
        copies = {f"{prefix}{name}": column_of(name) for name in ("key", *values)}
        self.carried = (*self.carried, *copies)
        return [*rows, *(F.when(in_use(), column).alias(name) for name, column in copies.items())]


def _in_branch(branch: int) -> str:
    return f"__taken_{branch}"


def _merged_column(name: str, branches: int) -> Column:
    """Return a column with the value from the branch of each row."""
    choice = F.when(F.col(_in_branch(0)), column_of(f"__given_0_{name}"))
    for branch in range(1, branches):
        choice = choice.when(F.col(_in_branch(branch)), column_of(f"__given_{branch}_{name}"))
    return F.when(in_use(), choice).alias(name)
