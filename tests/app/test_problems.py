"""Every error of ours becomes one kind of problem."""

import inspect
import re

import pytest
from starlette.exceptions import HTTPException

from oriel.app.contract import (
    ALL_KINDS,
    ApiError,
    malformed_request,
    problem_answer,
    problems,
)
from oriel.app.contract.problems import INTERNAL_ERROR, PROBLEM_KINDS, kind_of
from oriel.storage import errors as storage_errors
from tests.app.api_client import Answer
from tests.app.problem_shape import assert_problem
from tools.api_pages import REMEDIES

#: Errors of the writing side; the API never meets them, so a 500 would be right.
_OF_THE_WRITER = {
    "InvalidDefinition", "IncompatibleStore", "ForeignCheckpoint",
}  # fmt: skip


def _classes(module: object, base: type[Exception]) -> list[type[Exception]]:
    classes = [item for _, item in inspect.getmembers(module, inspect.isclass)]
    return [item for item in classes if issubclass(item, base) and item is not base]


def test_every_api_error_is_a_kind_of_its_own() -> None:
    """No error of this package ends as a 500."""
    for error in _classes(problems, ApiError):
        assert error in PROBLEM_KINDS, f"give {error.__name__} a line in PROBLEM_KINDS"


def test_every_storage_error_that_a_reader_can_meet_is_mapped() -> None:
    """A new storage error must be decided about."""
    for error in _classes(storage_errors, storage_errors.StorageError):
        known = error.__name__ in _OF_THE_WRITER or kind_of(error("x")) is not INTERNAL_ERROR
        assert known, f"give {error.__name__} a line in PROBLEM_KINDS"


def test_codes_are_kebab_case_and_unique() -> None:
    """A code stands for one kind."""
    codes = [kind.code for kind in PROBLEM_KINDS.values()]
    assert len(set(codes)) == len(codes) > 0
    assert [code for code in codes if not re.fullmatch(r"[a-z]+(-[a-z]+)*", code)] == []


def test_every_kind_has_a_cause_and_an_action() -> None:
    """The page of error codes has both for each code."""
    assert REMEDIES.keys() == {kind.code for kind in ALL_KINDS}


@pytest.mark.parametrize("error", PROBLEM_KINDS)
def test_every_kind_has_the_shape(error: type[Exception]) -> None:
    """Whatever the detail is made of, a lone surrogate too."""
    kind = PROBLEM_KINDS[error]
    status, headers, body = problem_answer(error("it is \udcff so"), "/a\udcffb")
    plain = {name.decode(): value.decode() for name, value in headers}
    assert_problem(Answer(status, plain, body), kind.status, kind.code, "it is")


@pytest.mark.parametrize(
    ("status", "code"),
    [(404, "unknown-route"), (405, "method-not-allowed"), (418, "internal-error")],
)
def test_errors_of_the_framework_are_problems_too(status: int, code: str) -> None:
    """Its status decides."""
    assert kind_of(HTTPException(status)).code == code


def test_bytes_that_are_no_request_get_a_problem() -> None:
    """There is no path to name."""
    status, headers, body = malformed_request("no HTTP")
    plain = {name.decode(): value.decode() for name, value in headers}
    assert_problem(Answer(status, plain, body), 400, "malformed-request")
