"""What every hot read obeys: the position that a client demands, and the tag that it has."""

import asyncio

import pytest

from tests.app.api_client import Answer, Served, starts
from tests.app.problem_shape import assert_problem

ROOT = "/v1/stores/store"


class TestPosition:
    """Promise 4: a client can demand a minimum position."""

    @pytest.mark.parametrize(
        "bound", ["min_version=1", "min_offset=events:0:100", "min_offset=events:0:1&min_version=0"]
    )
    def test_a_position_that_is_reached_answers(self, filled: Served, bound: str) -> None:
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
        """In every read, at once without wait_ms."""
        for path in ("fetch/a", "backwardFetch/a", "latest/a", "window/10/a", "keys"):
            answer = filled.get(f"{ROOT}/{path}?{bound}")
            assert_problem(answer, 503, "behind-position-bound", "has not reached the position")

    def test_waiting_ends_when_the_position_is_reached(self, changing: Served) -> None:
        """The answer comes from the version that was waited for."""

        async def wait_and_commit() -> Answer:
            waiting = asyncio.ensure_future(
                changing.client.call(f"{ROOT}/latest/a?min_version=2&wait_ms=30000")
            )
            await asyncio.sleep(0)
            changing.commit({"key": "a", "start": 60})
            return await waiting

        assert starts(asyncio.run(wait_and_commit())) == [60]

    def test_waiting_ends_without_it_after_wait_ms(self, filled: Served) -> None:
        """Then it is the same 503."""
        answer = filled.get(f"{ROOT}/latest/a?min_version=2&wait_ms=30")
        assert_problem(answer, 503, "behind-position-bound", "version 1 < 2")


class TestEntityTag:
    """Pollers pay little for an answer that they have."""

    def test_the_tag_brings_304_until_the_version_changes(self, changing: Served) -> None:
        """Same request, same version: nothing is sent again."""
        target = f"{ROOT}/fetch/a?limit=3"
        tag = changing.get(target).headers["etag"]
        again = changing.get(target, [("If-None-Match", tag)])
        assert (again.status, again.body, again.headers["etag"]) == (304, b"", tag)
        changing.commit()
        changed = changing.get(target, [("If-None-Match", tag)])
        assert changed.status == 200
        assert changed.headers["etag"] != tag

    @pytest.mark.parametrize("form", ['"other", {}', "W/{}", "*", '{}, "x"'])
    def test_the_tag_may_be_one_of_a_list_or_weak(self, filled: Served, form: str) -> None:
        """As RFC 9110 has it."""
        tag = filled.get(f"{ROOT}/latest/a").headers["etag"]
        answer = filled.get(f"{ROOT}/latest/a", [("If-None-Match", form.format(tag))])
        assert answer.status == 304

    def test_another_request_has_another_tag(self, filled: Served) -> None:
        """A tag of one address doesn't hold for another."""
        targets = [f"{ROOT}/fetch/a", f"{ROOT}/fetch/a?limit=3", f"{ROOT}/backwardFetch/a"]
        tags = {filled.get(target).headers["etag"] for target in targets}
        assert len(tags) == len(targets)
