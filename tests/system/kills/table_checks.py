"""Plain reads of a pipeline's tables, and comparisons with the expected rows."""

from datetime import datetime
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from tests.models.tables import Place
from tests.system.kills.expected_rows import Expected, Json, Letter

_TIMES = {"window_start": "window_start_ms", "window_end": "window_end_ms",
          "timestamp": "timestamp_ms"}  # fmt: skip


def emitted_rows(table: Path) -> dict[Place, list[Json]]:
    """Return all rows of a store's table by key, start and end, in revision order.

    Rows without windows have 0 as start and end.
    """
    rows: dict[Place, list[Json]] = {}
    for emitted in DeltaTable(table).to_pyarrow_table().sort_by("revision").to_pylist():
        row = {_TIMES.get(name, name): _plain(value) for name, value in emitted.items()}
        place = row["key"], row.get("window_start_ms", 0), row.get("window_end_ms", 0)
        rows.setdefault(place, []).append(row)
    return rows


def check_rows(emitted: dict[Place, list[Json]], store: Expected) -> None:
    """Check that each window's newest row is the model's, and that a final row is the last."""
    for place, rows in emitted.items():
        revisions = [row["revision"] for row in rows]
        assert len(set(revisions)) == len(rows), f"{place} twice in a batch: {revisions}"
        early = [row for row in rows[:-1] if row.get("final")]
        assert early == [], f"{place}: a row follows a final row"
        both = [row for row in rows if row["deleted"] and row.get("final")]
        assert both == [], f"{place}: deleted and final"
        assert len(rows) == 1 or not store.has_final_only, f"{place}: told before it was final"
    newest = {place: rows[-1] for place, rows in emitted.items() if not rows[-1]["deleted"]}
    wanted = store.rows
    differs = sorted(newest.keys() ^ wanted.keys())
    assert not differs, f"in the table or the model only: {differs}"
    for place, row in newest.items():
        found = {name: row[name] for name in wanted[place]}
        assert found == wanted[place], f"{place}: {found}, not {wanted[place]}"
        assert row.keys() - found.keys() == {"deleted", "revision"}


def check_final_rows(table: Path, store: Expected) -> None:
    """Check that a table of final rows has the model's final rows once, and only ever grew."""
    found = [row for rows in emitted_rows(table).values() for row in rows]
    rows = [{**row, "final": True, "revision": None} for row in found]
    wanted = [{**row, "revision": None} for row in store.rows.values() if row["final"]]
    assert sorted(rows, key=_text) == sorted(wanted, key=_text)
    entries = [entry for entry in DeltaTable(table).history() if entry["operation"] == "WRITE"]
    assert {entry["operationParameters"]["mode"] for entry in entries} <= {"Append"}


def _text(row: Json) -> str:
    return repr(sorted(row.items()))


def read_dead_letters(table: Path) -> list[Letter]:
    """Return all dead letters."""
    rows = DeltaTable(table).to_pyarrow_table().to_pylist()
    assert [row for row in rows if not (row["detail"] and row["topic"])] == []
    return [
        (row["partition"], row["offset"], row["store"], row["reason"], row["raw"]) for row in rows
    ]


def _plain(value: Any) -> Any:
    return round(value.timestamp() * 1000) if isinstance(value, datetime) else value
