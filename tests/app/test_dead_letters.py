"""Tests of dead letters over HTTP: lists, order, filters and counts."""

import random
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from oriel.storage import DataLayout
from oriel.storage.delta.opening import LogFiles
from tests.app.api_client import ApiResponse, Served, served
from tests.app.problem_shape import assert_problem
from tests.storage.dead_letter_tables import Letter, add_dead_letters

PATH = "/v1/deadLetters"


@pytest.fixture
def dead_letters(tmp_path: Path) -> Iterator[Served]:
    """Return a data directory without dead letters."""
    with served(tmp_path) as made:
        yield made


def offsets(response: ApiResponse) -> list[int]:
    """Return the offsets of the dead letters in the order of the response."""
    assert response.status == 200, response.body
    return [letter["offset"] for letter in response.json["letters"]]


def test_a_dead_letter_has_all_fields(dead_letters: Served) -> None:
    """A dead letter has record id, reason, key, time, headers and value, as text or base64."""
    add_dead_letters(
        dead_letters.data,
        {"offset": 7, "raw": b'{"broken', "key": "schlüssel".encode(), "timestamp_ms": 99,
         "headers": [{"key": "trace", "value": b"\xff\x00"}, {"key": None, "value": None}]},
        {"offset": 8, "raw": b"\xff\xfe", "store": "store", "reason": "null-key"},
    )  # fmt: skip
    response = dead_letters.get(f"{PATH}?order=oldest").json
    assert response["version"] == 1
    assert response["next_cursor"] is None
    assert response["letters"] == [
        {
            "topic": "t", "partition": 0, "offset": 7, "reason": "not-json", "detail": "it is so",
            "revision": 7, "timestamp_ms": 99, "store": None,
            "key": {"encoding": "utf-8", "data": "schlüssel"},
            "headers": [
                {"key": "trace", "value": {"encoding": "base64", "data": "/wA="}},
                {"key": None, "value": None},
            ],
            "value": {"encoding": "utf-8", "data": '{"broken'},
            "replayed_ms": None, "repeats_offset": None,
        },
        {
            "topic": "t", "partition": 0, "offset": 8, "reason": "null-key", "detail": "it is so",
            "revision": 8, "timestamp_ms": None, "store": "store", "key": None, "headers": None,
            "value": {"encoding": "base64", "data": "//4="},
            "replayed_ms": None, "repeats_offset": None,
        },
    ]  # fmt: skip


def test_replayed_dead_letters_are_marked_and_can_be_filtered(dead_letters: Served) -> None:
    """Replayed dead letters can be selected, and a repeated one has the offset of the first."""
    add_dead_letters(dead_letters.data, {"offset": 1}, {"offset": 2}, {"offset": 2, "topic": "u"})
    notes = dead_letters.data / "replayed" / "_dead_letters.jsonl"
    notes.parent.mkdir()
    notes.write_bytes(b'["t",0,1,5000]\n["t",0,1,5000,9]\n["t",0,2,60')
    add_dead_letters(dead_letters.data, {"offset": 9})
    marks = {
        (letter["topic"], letter["offset"]): (letter["replayed_ms"], letter["repeats_offset"])
        for letter in dead_letters.get(PATH).json["letters"]
    }
    nothing = (None, None)
    assert marks == {
        ("t", 1): (5000, None), ("t", 2): nothing, ("u", 2): nothing, ("t", 9): (None, 1),
    }  # fmt: skip
    assert offsets(dead_letters.get(f"{PATH}?replayed=true")) == [1]
    assert offsets(dead_letters.get(f"{PATH}?replayed=false&topic=t")) == [9, 2]
    counts = dead_letters.get(f"{PATH}/count").json
    assert (counts["total"], counts["repeats"]) == (4, 1)
    counts = dead_letters.get(f"{PATH}/count?replayed=true").json
    assert (counts["total"], counts["repeats"]) == (1, 0)
    with notes.open("ab") as file:
        file.write(b"00]\n")
    assert offsets(dead_letters.get(f"{PATH}?replayed=true")) == [2, 1]


def test_without_a_table_there_are_none(dead_letters: Served) -> None:
    """Without a table, the list is empty and the counts are 0."""
    assert dead_letters.get(PATH).json == {"version": None, "letters": [], "next_cursor": None}
    counts = dead_letters.get(f"{PATH}/count").json
    assert counts == {"version": None, "total": 0, "by_reason": {}, "repeats": 0}
    assert dead_letters.get(f"{PATH}?from_ms=5").json["letters"] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", [1, 2, 3, 4, 5]),
        ("topic=u", [3]),
        ("partition=1", [2]),
        ("from_offset=2&to_offset=4", [2, 3, 4]),
        ("store=s", [4]),
        ("reason=wrong-type", [4, 5]),
        ("from_ms=20", [2, 3]),
        ("from_ms=10&to_ms=20", [1, 2]),
        ("from_ms=1970-01-01T00:00:00.010Z&to_ms=1970-01-01T00:00:00.020Z", [1, 2]),
        ("topic=t&reason=not-json", [1, 2]),
        ("topic=none", []),
        ("from_offset=4&to_offset=2", []),
        ("to_ms=-1", []),
    ],
)
def test_dead_letters_are_filtered(dead_letters: Served, query: str, expected: list[int]) -> None:
    """Dead letters are filtered by all parameters, in both orders and in counts."""
    add_dead_letters(
        dead_letters.data, {"offset": 1, "timestamp_ms": 10}, {"offset": 2, "partition": 1,
        "timestamp_ms": 20}, {"offset": 3, "topic": "u", "timestamp_ms": 30},
    )  # fmt: skip
    add_dead_letters(
        dead_letters.data, {"offset": 4, "store": "s", "reason": "wrong-type"},
        {"offset": 5, "reason": "wrong-type"},
    )  # fmt: skip
    assert offsets(dead_letters.get(f"{PATH}?order=oldest&{query}")) == expected
    assert offsets(dead_letters.get(f"{PATH}?{query}")) == expected[::-1]
    counts = dead_letters.get(f"{PATH}/count?{query}").json
    assert counts["total"] == len(expected) == sum(counts["by_reason"].values())


def test_dead_letters_are_counted_by_reason(dead_letters: Served) -> None:
    """Counts are ordered by frequency, the most frequent reason first."""
    add_dead_letters(dead_letters.data, {"offset": 1, "reason": "null-key"})
    add_dead_letters(dead_letters.data, *({"offset": n} for n in range(2, 5)))
    by_reason = dead_letters.get(f"{PATH}/count").json["by_reason"]
    assert list(by_reason.items()) == [("not-json", 3), ("null-key", 1)]


@pytest.mark.slow
@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("order", ["newest", "oldest"])
def test_pages_join_to_all_letters(dead_letters: Served, limit: int, order: str) -> None:
    """The pages together have each dead letter once, also with equal or repeated record ids."""
    chance = random.Random(limit)
    every: list[Letter] = [
        {
            "offset": chance.randrange(3), "topic": chance.choice("tu"), "revision": batch,
            "store": chance.choice([None, "a", "b"]), "detail": f"{chance.randrange(2)}",
            "raw": b"%d" % number,
        }
        for number, batch in enumerate([0] * 9 + [1] * 5 + [2] * 9)
    ]  # fmt: skip
    for at in range(0, len(every), 4):
        add_dead_letters(dead_letters.data, *every[at : at + 4])
    seen, places, cursor = [], [], ""
    while True:
        page = dead_letters.get(f"{PATH}?order={order}&limit={limit}{cursor}").json
        assert len(page["letters"]) <= limit
        seen += [letter["value"]["data"] for letter in page["letters"]]
        places += [_place(letter) for letter in page["letters"]]
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert sorted(seen, key=int) == [f"{number}" for number in range(len(every))]
    assert places == sorted(places, reverse=order == "newest")


def _place(letter: Any) -> tuple[Any, ...]:
    names = ("revision", "topic", "partition", "offset")
    return (*(letter[name] for name in names), letter["store"] or "", letter["reason"])


def test_new_dead_letters_do_not_move_a_page(dead_letters: Served) -> None:
    """New dead letters do not move a page: they are before it or after it by the order."""
    add_dead_letters(dead_letters.data, {"offset": 1}, {"offset": 2}, {"offset": 3})
    newest = dead_letters.get(f"{PATH}?limit=2").json["next_cursor"]
    oldest = dead_letters.get(f"{PATH}?order=oldest&limit=2").json["next_cursor"]
    add_dead_letters(dead_letters.data, {"offset": 4})
    assert offsets(dead_letters.get(f"{PATH}?limit=2&cursor={newest}")) == [1]
    assert offsets(dead_letters.get(f"{PATH}?order=oldest&limit=2&cursor={oldest}")) == [3, 4]
    other = dead_letters.get(f"{PATH}?order=oldest&cursor={newest}")
    assert_problem(other, 400, "invalid-cursor")


@pytest.mark.parametrize(
    "query", ["order=up", "partition=x", "partition=2147483648", "limit=1001", "from_ms=now"]
)
def test_wrong_parameters_are_named(dead_letters: Served, query: str) -> None:
    """The error for an invalid parameter has its name."""
    assert_problem(
        dead_letters.get(f"{PATH}?{query}"),
        400,
        "invalid-parameter",
        query.split("=", maxsplit=1)[0],
    )


def test_a_torn_newest_entry_is_passed_over(dead_letters: Served) -> None:
    """A torn newest entry is ignored, and earlier dead letters are returned."""
    add_dead_letters(dead_letters.data, {"offset": 1})
    log = dead_letters.data / "tables" / "_dead_letters" / "_delta_log"
    (log / f"{2:020d}.json").write_bytes(b'{"add"')
    assert offsets(dead_letters.get(PATH)) == [1]


def test_the_table_of_dead_letters_is_no_store(dead_letters: Served) -> None:
    """The table of dead letters can only be read by its own routes."""
    add_dead_letters(dead_letters.data, {"offset": 1})
    dead_letters.index()
    assert [store["store"] for store in dead_letters.get("/v1/stores").json["stores"]] == ["store"]
    for path in ("fetch/a?as_of_version=0", "changes", "keys?as_of_version=0"):
        response = dead_letters.get(f"/v1/stores/_dead_letters/{path}")
        assert_problem(response, 404, "unknown-store")


@pytest.mark.parametrize(
    "place",
    [b"{}", b"[]", b'[1,"t",0,0,"","r",-1]', b'[1,"t",0,0,"","r",null]', b'["1","t",0,0,"","r",0]',
     b'[18446744073709551615,"t",0,0,"","r",0]', b"[", b'[true,"t",0,0,"","r",0]',
     b'[1,"t",0,0,"","r",9223372036854775807]'],
)  # fmt: skip
def test_a_cursor_whose_place_was_changed_is_refused(dead_letters: Served, place: bytes) -> None:
    """A cursor with a valid header and an invalid position is rejected."""
    add_dead_letters(dead_letters.data, {"offset": 1}, {"offset": 2})
    cursor = dead_letters.get(f"{PATH}?limit=1").json["next_cursor"]
    head = urlsafe_b64decode(cursor + "==")[:29]
    forged = urlsafe_b64encode(head + place).decode().rstrip("=")
    assert_problem(dead_letters.get(f"{PATH}?limit=1&cursor={forged}"), 400, "invalid-cursor")


def test_dead_letters_that_others_compacted_are_filtered_equally(dead_letters: Served) -> None:
    """Filters work on files that delta-rs compacted, which have other Arrow string types."""
    add_dead_letters(dead_letters.data, {"offset": 1}, {"offset": 2, "reason": "null-key"})
    add_dead_letters(dead_letters.data, {"offset": 3, "store": "s"})
    DeltaTable(dead_letters.data / "tables" / "_dead_letters").optimize.compact()
    for query, expected in (("topic=t", [3, 2, 1]), ("reason=null-key", [2]), ("store=s", [3])):
        assert offsets(dead_letters.get(f"{PATH}?{query}")) == expected
        assert dead_letters.get(f"{PATH}/count?{query}").json["total"] == len(expected)
    cursor = dead_letters.get(f"{PATH}?limit=1").json["next_cursor"]
    assert offsets(dead_letters.get(f"{PATH}?cursor={cursor}")) == [2, 1]
    DeltaTable(dead_letters.data / "tables" / "_dead_letters").delete("reason = 'null-key'")
    assert offsets(dead_letters.get(f"{PATH}?topic=t&reason=not-json")) == [3, 1]


@pytest.mark.parametrize("damage", ["page", "zeros", "empty"])
def test_a_damaged_file_of_an_earlier_version_is_a_problem(
    dead_letters: Served, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    """A damaged file without a digest is a problem, whatever error Arrow raises."""
    add_dead_letters(dead_letters.data, {"offset": 1, "raw": bytes(range(256)) * 9})
    monkeypatch.setattr(LogFiles, "tags", lambda _: {})
    (path,) = DataLayout(dead_letters.data).dead_letters.glob("*.parquet")
    content = path.read_bytes()
    damaged = {
        "page": content[:4] + bytes(len(content) // 2) + content[4 + len(content) // 2 :],
        "zeros": bytes(len(content)),
        "empty": b"",
    }
    path.write_bytes(damaged[damage])
    for read in (PATH, f"{PATH}/count"):
        assert_problem(dead_letters.get(read), 503, "table-damaged")


def test_a_damaged_table_is_a_problem(dead_letters: Served) -> None:
    """A gap in the log or a missing file is a problem."""
    add_dead_letters(dead_letters.data, {"offset": 1})
    directory = dead_letters.data / "tables" / "_dead_letters"
    for path in directory.glob("*.parquet"):
        path.unlink()
    for read in (PATH, f"{PATH}/count"):
        assert_problem(dead_letters.get(read), 503, "table-damaged")
    add_dead_letters(dead_letters.data, {"offset": 2})
    (directory / "_delta_log" / f"{0:020d}.json").unlink()
    for read in (PATH, f"{PATH}/count"):
        assert_problem(dead_letters.get(read), 503, "table-damaged")
