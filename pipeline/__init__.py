"""The pipeline: from a user's topology and a log of records to the tables of its stores.

In come a topology (``language``) and records (``sources``); out goes one commit a batch and store.
The rooms from the highest to the lowest are drawn in docs/contributing/architecture.md. Several of
them use the remaining modules: the columns of a row on each hop (``hops``), dead letters, the
reader of event logs, and errors. This package exports errors only. Users import names from
``oriel``.
"""

from oriel.pipeline.errors import InvalidTopology, PipelineError

__all__ = [
    "InvalidTopology",
    "PipelineError",
]
