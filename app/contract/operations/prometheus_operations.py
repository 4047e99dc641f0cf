"""Define the read part of Prometheus' HTTP API, for Grafana and other clients of Prometheus.

Paths, parameters and fields have the names of Prometheus. Other parameters are ignored, as
Prometheus does, because its clients add their own.
"""

from functools import partial

from oriel.app.contract.operations.operation import Operation
from oriel.app.contract.problems import PROMETHEUS_PATH, InvalidKey, QueryNotComputable
from oriel.app.contract.prometheus_parameters import (
    LOOKBACK_DELTA,
    MATCH,
    MATCHES,
    METRIC,
    PROMETHEUS_LIMIT,
    PROMQL,
    RANGE_END,
    RANGE_START,
    SERIES_END,
    SERIES_START,
    STEP,
    TIME_OF_QUERY,
)
from oriel.app.contract.queries import FormQuery
from oriel.app.contract.responses import (
    BuildResponse,
    MetadataResponse,
    NamesResponse,
    QueryResponse,
    SeriesResponse,
)
from oriel.storage import errors as storage

_FORM = "You can also send the parameters as a form with POST."
_SERIES = (SERIES_START, SERIES_END, PROMETHEUS_LIMIT)

_PROBLEMS = (QueryNotComputable, storage.StoreNotReady, storage.IndexDamaged)

_operation = partial(Operation, tag="prometheus", own_problems=_PROBLEMS)

PROMETHEUS_RECORDS = (
    _operation(
        "queryWindows",
        f"{PROMETHEUS_PATH}/query",
        summary="Evaluate PromQL at one time",
        description="Return the value of a PromQL expression at one time. Each numeric aggregate "
        "of a store with windows is a metric, `STORE_AGGREGATE`. A sample is one window. Its time "
        f"is the window end. A series has no value where it has no window. {_FORM}",
        response_model=QueryResponse,
        query=FormQuery(PROMQL, TIME_OF_QUERY, LOOKBACK_DELTA),
        accepts_form=True,
    ),
    _operation(
        "queryWindowRange",
        f"{PROMETHEUS_PATH}/query_range",
        summary="Evaluate PromQL at many times",
        description="Evaluate a PromQL expression at each time from `start` to `end` with the "
        f"distance `step`, as `query` does for one time. {_FORM}",
        response_model=QueryResponse,
        query=FormQuery(PROMQL, RANGE_START, RANGE_END, STEP, LOOKBACK_DELTA),
        accepts_form=True,
    ),
    _operation(
        "findSeries",
        f"{PROMETHEUS_PATH}/series",
        summary="Find series by selectors",
        description="List the label sets of the series that a selector selects. All visible "
        f"windows count, regardless of `start` and `end`. {_FORM}",
        response_model=SeriesResponse,
        query=FormQuery(MATCH, *_SERIES),
        accepts_form=True,
    ),
    _operation(
        "listLabels",
        f"{PROMETHEUS_PATH}/labels",
        summary="List label names",
        description="List the names of the labels of all series, or of the selected series. "
        f"{_FORM}",
        response_model=NamesResponse,
        query=FormQuery(MATCHES, *_SERIES),
        accepts_form=True,
    ),
    _operation(
        "listLabelValues",
        f"{PROMETHEUS_PATH}/label/{{label}}/values",
        summary="List values of a label",
        description="List the values of a label of all series, or of the selected series. For "
        "`__name__`, they are the names of the metrics.",
        response_model=NamesResponse,
        query=FormQuery(MATCHES, *_SERIES),
        own_problems=(*_PROBLEMS, InvalidKey),
    ),
    _operation(
        "listMetrics",
        f"{PROMETHEUS_PATH}/metadata",
        summary="List metrics",
        description="List the metrics with their type and a description of the aggregate.",
        response_model=MetadataResponse,
        query=FormQuery(METRIC, PROMETHEUS_LIMIT),
    ),
    Operation(
        "showBuild",
        f"{PROMETHEUS_PATH}/status/buildinfo",
        tag="prometheus",
        summary="Show the API version",
        description="Return the version of Prometheus whose API the service has. Grafana chooses "
        "its requests by this version.",
        response_model=BuildResponse,
        query=FormQuery(),
    ),
)
