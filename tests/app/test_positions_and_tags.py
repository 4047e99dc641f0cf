"""Tests of hot reads with a minimum position, ETags and position headers."""

import asyncio
import os
from collections.abc import Iterator

import pytest

from tests.app.api_client import ApiResponse, Served, served, starts
from tests.app.problem_shape import assert_problem
from tests.storage.store_tables import make_record
from tests.storage.waiting import wait_in_loop

ROOT = "/v1/stores/store"


class TestPosition:
    """A client can require a minimum position (guarantees.md#4)."""

    @pytest.mark.parametrize(
        "bound", ["min_version=1", "min_offset=events:0:100", "min_offset=events:0:1&min_version=0"]
    )
    def test_a_reached_position_has_a_response(self, filled: Served, bound: str) -> None:
        """Bounds at or below the position are satisfied."""
        assert starts(filled.get(f"{ROOT}/latest/a?{bound}")) == [50]

    @pytest.mark.parametrize(
        "bound",
        [
            "min_version=2", "min_offset=events:0:101", "min_offset=events:1:0",
            "min_offset=other:0:0", "min_offset=events:0:1&min_offset=events:0:101",
        ],
    )  # fmt: skip
    def test_a_position_that_is_not_reached_is_503(self, filled: Served, bound: str) -> None:
        """Without `wait_ms`, each read above the position is a 503 at once."""
        for path in ("fetch/a", "backwardFetch/a", "latest/a", "window/10/a", "keys"):
            response = filled.get(f"{ROOT}/{path}?{bound}")
            assert_problem(response, 503, "behind-position-bound", "has not reached the position")

    def test_waiting_ends_when_the_position_is_reached(self, changing: Served) -> None:
        """The response has the version that the request waited for."""

        async def wait_and_commit() -> ApiResponse:
            waiting = asyncio.ensure_future(
                changing.client.call(f"{ROOT}/latest/a?min_version=2&wait_ms=30000")
            )
            await wait_in_loop(lambda: changing.service.gate.waiting, "the request to wait")
            changing.commit({"key": "a", "start": 60})
            return await waiting

        assert starts(asyncio.run(wait_and_commit())) == [60]

    def test_waiting_ends_without_it_after_wait_ms(self, filled: Served) -> None:
        """After `wait_ms` without the position, the response is a 503."""
        response = filled.get(f"{ROOT}/latest/a?min_version=2&wait_ms=30")
        assert_problem(response, 503, "behind-position-bound", "version 1 is less than 2")


class TestEntityTag:
    """A client that polls gets a short response if nothing changed."""

    def test_the_tag_results_in_304_until_the_response_changes(self, changing: Served) -> None:
        """The ETag changes only with the response. A 304 has the new position."""
        target = f"{ROOT}/fetch/a?limit=3"
        tag = changing.get(target).headers["etag"]
        changing.commit()
        changing.commit({"key": "b", "start": 10}, {"key": "a", "start": 60})
        again = changing.get(target, [("If-None-Match", tag)])
        assert (again.status, again.body, again.headers["etag"]) == (304, b"", tag)
        assert again.headers["oriel-version"] == "3"
        changing.commit({"key": "a", "start": 20, "n": 99})
        changed = changing.get(target, [("If-None-Match", tag)])
        assert changed.status == 200
        assert changed.headers["etag"] != tag

    def test_a_page_that_begins_to_go_on_has_another_tag(self, changing: Served) -> None:
        """The ETag changes when the page gets a next page."""
        target = f"{ROOT}/fetch/a?limit=5"
        tag = changing.get(target).headers["etag"]
        changing.commit({"key": "a", "start": 60})
        assert changing.get(target, [("If-None-Match", tag)]).json["next_cursor"] is not None

    @pytest.mark.parametrize("form", ['"other", W/{}', "W/{}", "{}", "*", 'W/{}, "x"'])
    def test_the_tag_may_be_one_of_a_list_or_strong(self, filled: Served, form: str) -> None:
        """ETags are compared weakly, also in lists (RFC 9110)."""
        tag = filled.get(f"{ROOT}/latest/a").headers["etag"].removeprefix("W/")
        response = filled.get(f"{ROOT}/latest/a", [("If-None-Match", form.format(tag))])
        assert response.status == 304

    def test_another_request_has_another_tag(self, filled: Served) -> None:
        """Each request has its own ETag."""
        targets = [f"{ROOT}/fetch/a", f"{ROOT}/fetch/a?limit=3", f"{ROOT}/backwardFetch/a"]
        tags = {filled.get(target).headers["etag"] for target in targets}
        assert len(tags) == len(targets)


class TestPositionFields:
    """Responses with status 200 and 304 have position and lag in headers."""

    def test_they_say_what_the_body_says(self, filled: Served) -> None:
        """The offsets have the format of `min_offset`."""
        headers = filled.get(f"{ROOT}/latest/a").headers
        assert headers["oriel-version"] == "1"
        assert headers["oriel-offsets"] == "events:0:100"
        assert headers["oriel-lag"] == "versions=0, ms=0"

    @pytest.mark.parametrize(
        "target", [ROOT, f"{ROOT}/keys", f"{ROOT}/changes?since_version=0", f"{ROOT}/latestOfKeys"]
    )
    def test_responses_of_other_reads_have_these_headers(self, filled: Served, target: str) -> None:
        """Other reads have position headers and are not cached."""
        is_post = target.endswith("OfKeys")
        response = filled.post(target, b'["a"]') if is_post else filled.get(target)
        assert response.json["position"]["version"] == 1
        assert response.headers["oriel-version"] == "1"
        assert response.headers["oriel-offsets"] == "events:0:100"
        assert response.headers["cache-control"] == "no-store"

    @pytest.mark.parametrize("target", ["/v1/stores", "/healthz", "/readyz", "/v1/deadLetters"])
    def test_what_has_no_position_is_kept_by_no_cache(self, filled: Served, target: str) -> None:
        """Responses without a position are not cached."""
        assert filled.get(target).headers["cache-control"] == "no-store"

    @pytest.mark.parametrize("missing", [1, 2, 3, 6])
    def test_the_lag_is_what_the_index_lacks(self, changing: Served, missing: int) -> None:
        """The lag has the number of missing versions, and the ms since the first missing one."""
        for _ in range(missing):
            changing.table.commit()
        long_ago = changing.table.entry(2).stat().st_mtime - 5
        os.utime(changing.table.entry(2), (long_ago, long_ago))
        lag = changing.get(f"{ROOT}/latest/a").headers["oriel-lag"]
        versions, ms = lag.split(", ")
        assert versions == f"versions={missing}"
        assert int(ms.removeprefix("ms=")) >= 5_000

    def test_a_clock_ahead_does_not_hide_the_lag(self, changing: Served) -> None:
        """If the pipeline's wall clock is ahead, the ms of the lag are negative and never 0."""
        changing.table.commit()
        later = changing.table.entry(2).stat().st_mtime + 60
        os.utime(changing.table.entry(2), (later, later))
        versions, ms = changing.get(f"{ROOT}/latest/a").headers["oriel-lag"].split(", ")
        assert versions == "versions=1"
        assert int(ms.removeprefix("ms=")) < 0

    def test_a_long_position_is_left_out(self, store: Served) -> None:
        """A long position is only in the body, because proxies reject long headers."""
        offsets = {"events": {str(partition): 1 for partition in range(1_000)}}
        store.table.commit([{"key": "a", "start": 1}], make_record(0, offsets=offsets))
        store.index()
        response = store.get(f"{ROOT}/latest/a")
        assert "oriel-offsets" not in response.headers
        assert response.json["position"]["offsets"] == offsets


@pytest.fixture(scope="module")
def settled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Return windows of 10 ms. Each window that ends before 45 is final."""
    with served(tmp_path_factory.mktemp("settled")) as made:
        starts = (10, 20, 30, 40, 50)
        rows = [{"key": "a", "start": start, "final": start + 10 < 45} for start in starts]
        made.table.commit(rows, make_record(0, close_ms=45))
        made.index()
        yield made


@pytest.mark.parametrize(
    ("read", "is_settled"),
    [
        ("window/30/a", True), ("window/40/a", False), ("latest/a", False),
        ("fetch/a", False), ("fetch/a?limit=3", False), ("fetch/a?limit=4", False),
        ("fetch/a?to_ms=33", True), ("fetch/a?to_ms=34", False),
        ("fetch/a?from_ms=35&to_ms=20", True), ("fetch/none?to_ms=20", True),
        ("backwardFetch/a?limit=3", False), ("backwardFetch/a?to_ms=33", True),
        ("backwardFetch/a?to_ms=34&limit=1", False), ("backwardFetch/a?to_ms=30&limit=1", False),
    ],
)  # fmt: skip
def test_only_what_no_record_can_change_may_be_kept(
    settled: Served, read: str, is_settled: bool
) -> None:
    """Only a complete page of final windows to which no window can be added is immutable."""
    response = settled.get(f"{ROOT}/{read}")
    assert response.status == 200
    kept = response.headers["cache-control"]
    assert kept == ("max-age=86400, immutable" if is_settled else "no-cache")
