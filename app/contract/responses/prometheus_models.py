"""The shape of the responses of Prometheus' API."""

from typing import Any, Literal

from pydantic import Field

from oriel.app.contract.responses.models import Model

Success = Literal["success"]
_WARNINGS = "What the list leaves out. Missing if it is complete"


class QueryData(Model):
    """The result of a PromQL expression."""

    resultType: Literal["matrix", "vector", "scalar", "string"] = Field(  # noqa: N815
        description="`vector`: one value per series. `matrix`: a list of values per series"
    )
    result: list[Any] = Field(
        description="Objects with `metric`, the labels of a series, and `value` or `values`. A "
        "value is a list of a time in seconds and a number as a string"
    )


class QueryResponse(Model):
    """The result of a query."""

    status: Success
    data: QueryData


class NamesResponse(Model):
    """Names or values of labels."""

    status: Success
    data: list[str]
    warnings: list[str] = Field(default=[], description=_WARNINGS)


class SeriesResponse(Model):
    """The labels of series."""

    status: Success
    data: list[dict[str, str]] = Field(description="The labels of each series")
    warnings: list[str] = Field(default=[], description=_WARNINGS)


class MetricMetadata(Model):
    """The description of a metric."""

    type: Literal["gauge"] = Field(description="Every aggregate is a gauge")
    help: str = Field(description="The aggregate, its windows and its store")
    unit: str = Field(description="Always empty")


class MetadataResponse(Model):
    """The metrics by their names."""

    status: Success
    data: dict[str, list[MetricMetadata]]


class BuildResponse(Model):
    """The version of the API."""

    status: Success
    data: dict[str, str] = Field(description="`version`: the version of Prometheus' API")


class PrometheusError(Model):
    """An error in the format of Prometheus."""

    status: Literal["error"]
    errorType: str = Field(  # noqa: N815
        description="`bad_data` for an invalid query, `execution` for a query without a result, "
        "`unavailable` or `timeout` for a query to send again",
        examples=["bad_data"],
    )
    error: str = Field(description="What is wrong with this request, and what to do")
