"""Expressions over Arrow columns, with the results of Spark.

The row-wise steps of the pipeline and the conditions of reads (``oriel.app.conditions``) share
them. ``FUNCTIONS`` has the functions that an expression can call.
"""

from oriel.storage.expressions.expressions import (
    Call,
    ColumnRef,
    Constant,
    Expression,
    column_names,
)
from oriel.storage.expressions.functions import FUNCTIONS, Operand, as_one_array

__all__ = [
    "FUNCTIONS",
    "Call",
    "ColumnRef",
    "Constant",
    "Expression",
    "Operand",
    "as_one_array",
    "column_names",
]
