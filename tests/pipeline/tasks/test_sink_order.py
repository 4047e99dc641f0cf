"""The order in which tasks write the records of a stream that reads a partition twice."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from oriel import StreamsBuilder
from oriel.testing import Record
from tests.windows.topologies.runs import StagesRun


@pytest.mark.slow
def test_records_without_a_key_of_merged_branches_are_in_the_log_s_order(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Such records belong to their partition in any branch, so one task writes all records."""
    # The session of the tests parses the conditions of the branches.
    assert spark is not None
    builder = StreamsBuilder()
    branches = builder.stream("t", "v BIGINT").split().branch("v % 2 = 0", "even")
    even, odd = branches.default_branch("odd").values()
    even.merge(odd).to("out")
    run = StagesRun(builder.build(), tmp_path)
    run.take({"t": {0: [Record(None, {"v": number}, number) for number in range(20)]}})
    assert [dict(each.value or ())["v"] for each in run.written] == list(range(20))
