"""DataFrames without pandas, which pyspark requires or imports even where it does not use it."""

from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.functions import vectorized_udf  # type: ignore[attr-defined]
from pyspark.sql.types import StructType
from pyspark.util import PythonEvalType

from oriel.pipeline.late_pandas import without_pandas

ArrowFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def no_rows(spark: SparkSession, schema: StructType | str) -> DataFrame:
    """Return a DataFrame without rows."""
    with without_pandas():
        return spark.createDataFrame([], schema)


def map_in_arrow(rows: DataFrame, function: ArrowFunction, schema: StructType | str) -> DataFrame:
    """Return ``rows.mapInArrow(function, schema)``."""
    mapped = vectorized_udf(function, schema, PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    column = mapped(*(rows[name] for name in rows.columns))
    frame = rows._jdf.mapInArrow(column._jc, False, None)  # noqa: SLF001, FBT003 - as pyspark does
    return DataFrame(frame, rows.sparkSession)
