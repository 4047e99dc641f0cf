"""The read part of Prometheus' HTTP API over the stores with windows.

A metric is a store and one of its numeric aggregates, and a series is one key of it. A sample is a
window. Its time is the window end. The package parses PromQL with ``promql-parser``, reads the
windows from snapshots of the index, and evaluates the expression over NumPy arrays.

    metrics       the metrics of a store and the labels of its series
    matchers      the matchers of selectors, with RE2
    expressions   a PromQL expression as nodes, without the parts that have no meaning here
    selections    which keys of which stores a selector needs
    windows       the windows of a selector as the values of a vector
    recent        the columns of recent windows, for the next query
    reading       the windows of a query, from one snapshot per store
    evaluation    the result of an expression over vectors
    operators     arithmetic, comparisons and functions
    aggregations  ``sum by (...)`` and so on, ``topk`` and ``bottomk``
    results       the result as JSON
    routes        the operations
"""

from oriel.app.prometheus.routes import prometheus_routes

__all__ = ["prometheus_routes"]
