"""The pipeline: from a user's topology and a log of records to the tables of its stores.

The input is a topology (``language``) and records (``sources``). The output is one commit per batch
and store. docs/contributing/architecture.md shows the packages from the highest to the lowest.
Several packages use the remaining modules: the columns of each exchange (``hops``), dead letters,
the reader of event logs, and errors. This package exports errors only. Users import names from
``oriel``.
"""

from oriel.pipeline.errors import InvalidTopology, PipelineError

__all__ = ["InvalidTopology", "PipelineError"]
