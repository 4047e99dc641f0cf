"""A check of the format of every error response (RFC 9457)."""

from oriel.app.contract.problems import PROBLEM_KINDS
from tests.app.api_client import ApiResponse

_FIELDS = {"type", "title", "status", "detail", "instance", "code"}
_MORE_FIELDS = {"keys-of-several-shards": {"owners"}}


def assert_problem(response: ApiResponse, status: int, code: str, *words: str) -> None:
    """Check for a problem document with this status and code, and these words in its detail."""
    assert response.status == status, response.body
    assert response.headers["content-type"] == "application/problem+json"
    assert response.headers["cache-control"] == "no-store"
    assert int(response.headers["content-length"]) == len(response.body)
    problem = response.json
    assert problem.keys() == _FIELDS | _MORE_FIELDS.get(code, set())
    assert problem["status"] == status
    assert problem["code"] == code
    assert problem["type"] == f"urn:oriel:problem:{code}"
    assert problem["title"]
    assert problem["detail"]
    for word in words:
        assert word in problem["detail"]
    assert "Traceback" not in problem["detail"]
    assert ("retry-after" in response.headers) == (status in {429, 503})
    assert ("www-authenticate" in response.headers) == (status == 401)
    assert ("allow" in response.headers) == (status == 405)


def assert_prometheus_error(
    response: ApiResponse, status: int, error_type: str, *words: str
) -> None:
    """Check for an error in Prometheus' format with this type, and these words in its text."""
    assert response.status == status, response.body
    assert response.headers["content-type"] == "application/json"
    assert response.headers["cache-control"] == "no-store"
    body = response.json
    assert body.keys() == {"status", "errorType", "error"}
    assert body["status"] == "error"
    assert body["errorType"] == error_type
    for word in words:
        assert word in body["error"]
    assert ("retry-after" in response.headers) == (status == 503)
    assert ("www-authenticate" in response.headers) == (status == 401)
    assert ("allow" in response.headers) == (status == 405)


def all_codes() -> set[str]:
    """Return all codes of problem documents."""
    return {kind.code for kind in PROBLEM_KINDS.values()}
