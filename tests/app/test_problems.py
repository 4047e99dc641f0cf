"""Tests of problems: each error of our code has one kind."""

import inspect
import re

import pytest
from starlette.exceptions import HTTPException

from oriel.app.contract import (
    ALL_KINDS,
    ApiError,
    malformed_request,
    problem_response,
    problems,
)
from oriel.app.contract.problems import INTERNAL_ERROR, PROBLEM_KINDS, kind_of
from oriel.storage import errors as storage_errors
from tests.app.api_client import ApiResponse
from tests.app.problem_shape import assert_problem
from tools.api_pages import REMEDIES

#: Errors of the pipeline. The API never raises them, so a 500 would be correct.
_OF_THE_WRITER = {
    "InvalidDefinition", "IncompatibleStore", "ForeignCheckpoint",
}  # fmt: skip


def _classes(module: object, base: type[Exception]) -> list[type[Exception]]:
    classes = [item for _, item in inspect.getmembers(module, inspect.isclass)]
    return [item for item in classes if issubclass(item, base) and item is not base]


def test_every_api_error_is_a_kind_of_its_own() -> None:
    """Each API error has its own kind, so none becomes a 500."""
    for error in _classes(problems, ApiError):
        assert error in PROBLEM_KINDS, f"give {error.__name__} a line in PROBLEM_KINDS"


def test_every_storage_error_that_a_reader_can_meet_is_mapped() -> None:
    """Each storage error that a read can raise has a kind."""
    for error in _classes(storage_errors, storage_errors.StorageError):
        known = error.__name__ in _OF_THE_WRITER or kind_of(error("x")) is not INTERNAL_ERROR
        assert known, f"give {error.__name__} a line in PROBLEM_KINDS"


def test_codes_are_kebab_case_and_unique() -> None:
    """Codes are unique and have kebab case."""
    codes = [kind.code for kind in PROBLEM_KINDS.values()]
    assert len(set(codes)) == len(codes) > 0
    assert [code for code in codes if not re.fullmatch(r"[a-z]+(-[a-z]+)*", code)] == []


def test_every_kind_has_a_cause_and_an_action() -> None:
    """Each code has a cause and an action for the page of error codes."""
    assert REMEDIES.keys() == {kind.code for kind in ALL_KINDS}


@pytest.mark.parametrize("error", PROBLEM_KINDS)
def test_every_kind_has_the_shape(error: type[Exception]) -> None:
    """Each kind has the format of a problem, also with a lone surrogate in its detail."""
    kind = PROBLEM_KINDS[error]
    status, headers, body = problem_response(error("it is \udcff so"), "/a\udcffb")
    plain = {name.decode(): value.decode() for name, value in headers}
    assert_problem(ApiResponse(status, plain, body), kind.status, kind.code, "it is")


@pytest.mark.parametrize(
    ("status", "code"),
    [(404, "unknown-route"), (405, "method-not-allowed"), (418, "internal-error")],
)
def test_errors_of_the_framework_are_problems_too(status: int, code: str) -> None:
    """The status of a framework error decides its code."""
    assert kind_of(HTTPException(status)).code == code


def test_bytes_that_are_no_request_get_a_problem() -> None:
    """Bytes that are not an HTTP request get a problem without a path."""
    status, headers, body = malformed_request("no HTTP")
    plain = {name.decode(): value.decode() for name, value in headers}
    assert_problem(ApiResponse(status, plain, body), 400, "malformed-request")
